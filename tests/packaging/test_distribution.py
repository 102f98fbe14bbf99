"""What is built and installed: one package, whole, from any way there is to get it."""

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINKS = ("commands", "deploy", "events", "processors", "projections", "schemas")
RUN_LIMIT_S = 120


def run(*arguments: str | Path, cwd: Path, check: bool = True) -> subprocess.CompletedProcess:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(argument) for argument in arguments],
        cwd=cwd,
        env=kept,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=RUN_LIMIT_S,
        check=False,
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="session")
def repository() -> str:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    return f"file://{ROOT}"


@pytest.fixture(scope="session")
def clone(repository: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clone") / "wakeful"
    run("git", "clone", "--quiet", repository, folder, cwd=ROOT)
    return folder


@pytest.fixture(scope="session")
def built(clone: Path) -> Path:
    """A folder with the sdist of the clone and the wheel that was made from that sdist."""
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", "built", cwd=clone)
    return clone / "built"


def data_files(clone: Path) -> set[str]:
    endings = (".avsc", ".sql", ".lock", ".html", ".jsonl", "py.typed")
    shown = run("git", "ls-files", *LINKS, cwd=clone).stdout.split()
    return {f"wakeful/{name}" for name in shown if name.endswith(endings)}


@pytest.mark.slow
def test_the_wheel_is_one_package_with_its_data(built: Path, clone: Path) -> None:
    (wheel,) = built.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"wakeful"}
    assert {"wakeful/py.typed", "wakeful/__main__.py"} <= names
    assert {f"wakeful/{link}/__init__.py" for link in LINKS} <= names
    assert data_files(clone) <= names
    sources = {f"wakeful/{n}" for n in run("git", "ls-files", *LINKS, cwd=clone).stdout.split()}
    assert {name for name in sources if name.endswith(".py")} <= names
    shown = run("git", "ls-files", "examples/refund_desk", cwd=clone).stdout.split()
    desk = {name.replace("examples/", "wakeful/deploy/demo/") for name in shown}
    assert desk
    assert desk <= names, "the demo's link to its example was not followed"
    assert any(name.endswith("/licenses/LICENSE") for name in names)


@pytest.mark.slow
def test_the_sdist_needs_no_links(built: Path) -> None:
    (sdist,) = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        assert not [member.name for member in archive if member.issym() or member.islnk()]


@pytest.mark.slow
def test_it_installs_from_a_git_url(repository: str, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    # what it depends on is installed already, beside us: only wakeful itself is under test
    (packages,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    ours = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "beside.pth").write_text(ours + "\n", encoding="utf-8")
    pip = (sys.executable, "-m", "pip", "--python", python, "install", "--quiet")
    run(*pip, "--no-deps", "--no-build-isolation", f"git+{repository}", cwd=tmp_path)
    shown = run(
        python,
        "-c",
        "import wakeful, wakeful.events, wakeful.deploy.stack; print(wakeful.__file__)",
        cwd=tmp_path,
    ).stdout
    assert Path(shown.strip()).is_relative_to(packages)
    assert (tmp_path / "venv" / "bin" / "wakeful").exists()


def test_a_checkout_without_links_fails_with_one_sentence(repository: str, tmp_path: Path) -> None:
    folder = tmp_path / "flat"
    flat = ("git", "-c", "core.symlinks=false", "clone", "--quiet", "-c", "core.symlinks=false")
    run(*flat, repository, folder, cwd=tmp_path)
    assert (folder / "src" / "wakeful" / "events").is_file()
    # -S: no site packages, so that only the checkout can be found
    done = run(sys.executable, "-S", "-c", "import wakeful", cwd=folder / "src", check=False)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: this checkout of wakeful has text files where links")
    assert "git clone -c core.symlinks=true" in last


@pytest.mark.parametrize("missing", ["typer"])  # which brings rich
def test_the_command_line_without_its_extra_says_what_to_install(
    missing: str, tmp_path: Path
) -> None:
    pytest.importorskip("wakeful.deploy.cli")
    program = (
        f"import sys, runpy; sys.modules[{missing!r}] = None; "
        "sys.argv = ['wakeful', '--help']; runpy.run_module('wakeful', run_name='__main__')"
    )
    done = run(sys.executable, "-c", program, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"wakeful: the command line needs {missing}: pip install 'wakeful[service]'\n"
    )
