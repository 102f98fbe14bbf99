"""What a shell and a terminal get: completions, and no colours where NO_COLOR forbids them."""

import os
import pty
import re
import subprocess
import sys

import pytest

from wakeful.deploy.cli.main import invoke
from wakeful.deploy.exits import Exit

COLOUR = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")
STYLE = re.compile(rb"\x1b\[[0-9;]*m")


def complete(words, monkeypatch, capsys):
    """What bash is offered for the last of these words."""
    monkeypatch.setenv("_WAKEFUL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    capsys.readouterr()
    assert invoke(()) == Exit.DONE
    return set(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("wakeful se", {"session"}),
        ("wakeful dlq re", {"redrive"}),
        ("wakeful do", {"doctor", "down"}),
        ("wakeful explain --", {"--turns", "--json", "--help"}),
    ],
)
def test_a_shell_is_offered_commands_and_options(words, wanted, monkeypatch, capsys):
    offered = complete(words, monkeypatch, capsys)
    assert wanted <= offered
    assert all(one.startswith(words.rpartition(" ")[2]) for one in offered)


def test_completion_can_be_shown_and_no_help_speaks_of_it(capsys):
    assert invoke(("--help",)) == Exit.DONE
    assert "completion" not in capsys.readouterr().out
    program = f"{sys.executable} -m wakeful --show-completion; true"
    done = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert "_WAKEFUL_COMPLETE=complete_bash" in done.stdout
    assert done.stderr == ""


def on_a_terminal(arguments, **environ):
    """What the program writes where it believes to be on a terminal that knows colours."""
    pid, screen = pty.fork()
    if pid == 0:
        os.environ.update(environ, TERM="xterm-256color")
        os.execv(sys.executable, [sys.executable, "-m", "wakeful", *arguments])
    written = b""
    while True:
        try:
            chunk = os.read(screen, 65_536)
        except OSError:  # the other side is closed
            break
        if not chunk:
            break
        written += chunk
    os.close(screen)
    os.waitpid(pid, 0)
    return written


@pytest.mark.parametrize("arguments", [("--help",), ("dlq",), ("status",), ("nonsense",)])
def test_no_color_is_obeyed_on_a_terminal(arguments, tmp_path):
    written = on_a_terminal(arguments, NO_COLOR="1", WAKEFUL_HOME=str(tmp_path))
    assert written
    assert COLOUR.findall(written) == []


def test_a_terminal_without_that_wish_has_colours_and_bold_headings(tmp_path):
    assert COLOUR.search(on_a_terminal(("--help",), NO_COLOR="", WAKEFUL_HOME=str(tmp_path)))
    assert STYLE.search(on_a_terminal(("status",), NO_COLOR="", WAKEFUL_HOME=str(tmp_path)))
    quiet = on_a_terminal(("status",), NO_COLOR="1", WAKEFUL_HOME=str(tmp_path))
    assert STYLE.findall(quiet) == []
