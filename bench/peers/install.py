"""Installs the peers, in pinned versions, into a folder under the state folder; `make clean` removes it.

Each peer has a virtual environment of its own, so that nothing of theirs meets what Wakeful depends on. Packages come
through pip and npm as they are configured on this machine. A repeat installs what is missing and nothing else.
"""

import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

PYTHON_PACKAGES = {
    "dbos": ("dbos==3.2.0",),
    "restate": ("restate-sdk==1.3.0", "hypercorn==0.18.0", "httpx==0.28.1"),
}
VERSIONS = {"dbos": "3.2.0", "restate": "server 1.7.12, sdk 1.3.0"}
RESTATE_SERVER = "@restatedev/restate-server"
RESTATE_SERVER_VERSION = "1.7.12"
MACHINES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64"}
LIMIT_S = 600
TOLD_CHARS = 600


class Missing(Exception):
    """A peer cannot be had here; the message says what is missing and what to do."""


@dataclass(frozen=True, slots=True)
class Peer:
    """An installed peer: the python that has its client and worker, and its server where it has one."""

    name: str
    python: Path
    server: Path | None = None


def install(name: str, folder: Path) -> Peer:
    """Makes sure that the peer is installed under `folder`; raises `Missing`."""
    python = _environment(folder / name, PYTHON_PACKAGES[name])
    return Peer(name, python, _restate_server(folder) if name == "restate" else None)


def _environment(folder: Path, packages: Sequence[str]) -> Path:
    python, stamp = folder / "bin" / "python", folder / "installed.json"
    if stamp.exists() and json.loads(stamp.read_text(encoding="utf-8")) == list(packages):
        return python
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], "a virtual environment")
    _run([*pip, "--disable-pip-version-check", *packages], f"pip install {' '.join(packages)}")
    stamp.write_text(json.dumps(list(packages)), encoding="utf-8")
    return python


def _restate_server(folder: Path) -> Path:
    machine = MACHINES.get(platform.machine().lower())
    if sys.platform != "linux" or machine is None:
        raise Missing(
            f"restate-server is taken from its package for Linux on x64 or arm64, this is {sys.platform} on "
            f"{platform.machine()}: leave restate out with --peers dbos"
        )
    npm = shutil.which("npm")
    if npm is None:
        raise Missing("restate-server comes from an npm package and there is no npm: install Node")
    place = folder / f"restate-server-{RESTATE_SERVER_VERSION}"
    package = f"restate-server-linux-{machine}"
    server = place / "node_modules" / "@restatedev" / package / "bin" / "restate-server"
    if not server.exists():
        place.mkdir(parents=True, exist_ok=True)
        # without one of its own, npm would take the nearest package.json above
        (place / "package.json").write_text('{"private": true}\n', encoding="utf-8")
        asked = f"{RESTATE_SERVER}@{RESTATE_SERVER_VERSION}"
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
        _run([npm, "install", *quiet, "--prefix", str(place), asked], f"npm install {asked}")
    if not server.exists():
        raise Missing(f"{RESTATE_SERVER} was installed and holds no {package}: npm left it out")
    return server


def _run(command: Sequence[str], what: str) -> None:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as slow:
        raise Missing(f"{what}: not done after {LIMIT_S} s") from slow
    if done.returncode != 0:
        raise Missing(f"{what}: failed with {done.returncode}: {done.stderr[-TOLD_CHARS:].strip()}")
