"""Words that only this installation can have written."""

import stat
import threading

import pytest

from wakeful.deploy.exits import Stopped
from wakeful.deploy.gateway.console.one_time import FORGET_MS, USED, first_use
from wakeful.deploy.gateway.console.signing import KEY_FILE, Signer, signer_in

NOW_MS = 1_700_000_000_000


def test_a_word_says_what_was_sealed_until_it_is_over():
    signer = Signer(b"k" * 32)
    word = signer.seal("session", {"key": "a1"}, until_ms=NOW_MS)
    assert signer.open("session", word, NOW_MS) == {"key": "a1", "until_ms": NOW_MS}
    assert signer.open("session", word, NOW_MS + 1) is None


def test_a_link_is_never_taken_for_a_cookie():
    signer = Signer(b"k" * 32)
    word = signer.seal("approval", {"key": "a1"}, until_ms=NOW_MS)
    assert signer.open("session", word, NOW_MS) is None
    assert signer.open("sign_in", word, NOW_MS) is None


@pytest.mark.parametrize("word", ["", ".", "a.b", "é.é", "A" * 5_000, "e30.", "e30.e30", "a.b.c"])
def test_what_nobody_sealed_is_nothing(word):
    assert Signer(b"k" * 32).open("session", word, NOW_MS) is None


def test_every_changed_character_breaks_a_word():
    signer = Signer(b"k" * 32)
    word = signer.seal("session", {"key": "a1"}, until_ms=NOW_MS)
    for n, old in enumerate(word[:-1]):  # the last one has bits that say nothing
        changed = f"{word[:n]}{'A' if old != 'A' else 'B'}{word[n + 1 :]}"
        assert signer.open("session", changed, NOW_MS) is None, n


def test_a_forms_word_is_its_own_sign_ins():
    signer = Signer(b"k" * 32)
    assert signer.form_token("one") != signer.form_token("two")


def test_gateways_of_one_home_have_one_key_and_nobody_else_reads_it(tmp_path):
    made = []
    threads = [threading.Thread(target=lambda: made.append(signer_in(tmp_path))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    words = {one.seal("session", {}, until_ms=NOW_MS) for one in made}
    assert len(made) == 8
    assert len(words) == 1
    assert stat.S_IMODE((tmp_path / KEY_FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [KEY_FILE]


@pytest.mark.parametrize("text", ["", "not hex", "ab" * 8])
def test_a_damaged_key_is_said_with_its_file(tmp_path, text):
    (tmp_path / KEY_FILE).write_text(text)
    with pytest.raises(Stopped, match=KEY_FILE):
        signer_in(tmp_path)


def test_of_two_who_follow_a_link_one_is_the_first(tmp_path):
    assert [first_use(tmp_path, "abc", 0), first_use(tmp_path, "abc", 0)] == [True, False]


def test_what_tells_of_links_that_are_over_is_removed(tmp_path):
    first_use(tmp_path, "old", 0)
    later_ms = int((tmp_path / USED / "old").stat().st_mtime * 1000) + FORGET_MS + 1
    assert first_use(tmp_path, "new", later_ms)
    assert [path.name for path in (tmp_path / USED).iterdir()] == ["new"]
