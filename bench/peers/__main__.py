"""`make bench-peers`, or `python -m bench.peers`: Wakeful and its peers in turn, round after round, and their ratios.

One JSON line per engine, round and window on stdout; at the end, on stderr, the table and the ratios of each round. The
servers (broker, Postgres, Valkey, restate-server) stay up through all rounds; an engine's own processes run in its turn
alone. Every turn begins with a warm-up of as many sessions as the largest window.

docs/benchmarks.md says what the figures mean, and what is not fair about them.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from bench import turns
from bench.driver import AFTER, BEFORE
from bench.durability import CHOICES
from bench.measure import Meter, Report, say
from bench.peers.install import PYTHON_PACKAGES, VERSIONS, Missing, Peer, install
from bench.peers.servers import Served, served
from bench.rig import Bed, made_bed, rigged
from bench.table import table

PEERS = tuple(sorted(PYTHON_PACKAGES, reverse=True))
IDLE_S = 5.0
QUICK = {"n": 40, "window": [8], "rounds": 1}
ROOT = Path(__file__).parents[2]


class Broken(Exception):
    """A peer's turn did not come to its end; the message holds its last words."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A peer that is installed, and its servers that run."""

    peer: Peer
    served: Served


def main() -> None:
    """Runs the rounds; exits with 1 where a peer is missing or has broken off."""
    asked = arguments()
    found, lacking = installed(asked)
    report = Report(asked.out)
    with made_bed(report) as bed, ExitStack() as open_servers:
        rivals = []
        for peer in found:
            try:
                rivals.append(Rival(peer, open_servers.enter_context(served(peer, bed))))
            except Missing as missing:
                lacking.append(f"{peer.name}: {missing}")
                say(lacking[-1])
        idle(bed, rivals)
        for number in range(asked.rounds):
            for durability in asked.durability:
                own_turn(bed, asked, durability, number)
            for rival in rivals:
                try:
                    peer_turn(bed, asked, rival, number)
                except Broken as broken:
                    lacking.append(str(broken))
                    say(str(broken))
    say("\n" + table(report.lines))
    for missing in lacking:
        say(f"missing from this table: {missing}")
    sys.exit(1 if lacking else 0)


def installed(asked: argparse.Namespace) -> tuple[list[Peer], list[str]]:
    """Those that can be had, and what is missing for the others."""
    found, lacking = [], []
    for name in asked.peers:
        say(f"{name}: installing {VERSIONS[name]} under {asked.folder}")
        try:
            found.append(install(name, asked.folder))
        except Missing as missing:
            lacking.append(f"{name}: {missing}")
            say(lacking[-1])
    return found, lacking


def idle(bed: Bed, rivals: list[Rival]) -> None:
    """What all servers take together while nobody works: each engine's turn bears the others'."""
    parts = dict(bed.servers)
    for rival in rivals:
        parts.update({f"{rival.peer.name}_{k}": v for k, v in rival.served.parts.items()})
    parts.pop("dbos_postgres", None)  # it is the stack's
    time.sleep(IDLE_S)  # what they do once, at their start, is not meant
    meter = Meter(parts)
    time.sleep(IDLE_S)
    spent = meter.spent_s()
    del spent["driver"]
    cores = {f"idle_cpu_cores_{name}": round(s / IDLE_S, 3) for name, s in spent.items()}
    bed.report.emit(measure="servers_idle", peer="all", durability="default", **cores)


def own_turn(bed: Bed, asked: argparse.Namespace, durability: str, number: int) -> None:
    """Wakeful's."""
    with rigged(bed, "rounds", durability=durability) as rig:
        turns.warm_up(rig, max(asked.window))
        for window in asked.window:
            turns.throughput(rig, sessions=asked.n, window=window, round=number)


def peer_turn(bed: Bed, asked: argparse.Namespace, rival: Rival, number: int) -> None:
    """A peer's, driven by a process in its own environment; raises `Broken`."""
    name = rival.peer.name
    turn = {
        "peer": name,
        "name": f"{name}-{number}-{os.getpid()}",
        "round": number,
        "sessions": asked.n,
        "windows": asked.window,
        "warm": max(asked.window),
        "before": BEFORE,
        "after": AFTER,
        "effects": str(bed.home / f"{name}-effects.log"),
        "log": str(bed.home / f"{name}-worker.log"),
        "parts": rival.served.parts,
        "version": VERSIONS[name],
        "worker": rival.served.worker,
        "given": rival.served.given,
    }
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "WAKEFUL_"))}
    with subprocess.Popen(
        [str(rival.peer.python), "-m", "bench.peers.drive", json.dumps(turn)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env=environ,
        text=True,
    ) as driver:
        for line in driver.stdout or ():
            if line.startswith("{"):
                bed.report.take(json.loads(line))
            else:
                say(f"{name}: {line.rstrip()}")
    if driver.returncode:
        raise Broken(
            f"{name}: round {number} broke off with {driver.returncode}; {last_words(turn['log'])}"
        )


def last_words(log: str) -> str:
    """The end of a worker's log."""
    path = Path(log)
    text = path.read_text(encoding="utf-8", errors="replace").strip() if path.exists() else ""
    return f"its worker's last words: {text[-500:]}" if text else "its worker said nothing"


def arguments() -> argparse.Namespace:
    """What was asked for; `--quick` gives small numbers to all that is not given."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    home = Path(os.environ.get("WAKEFUL_HOME") or ".wakeful").absolute()
    parser.add_argument("--peers", nargs="*", choices=PEERS, default=list(PEERS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--n", type=int, default=1_000, help="sessions per window")
    parser.add_argument("--window", type=int, nargs="+", default=[64, 500], help="open at once")
    parser.add_argument("--durability", nargs="+", choices=CHOICES, default=list(CHOICES))
    parser.add_argument("--folder", type=Path, default=home / "peers", help="where peers lie")
    parser.add_argument("--out", type=Path, help="a file to add the lines to")
    parser.add_argument("--quick", action="store_true", help="small numbers: does it all work?")
    if parser.parse_known_args()[0].quick:
        parser.set_defaults(**QUICK)
    asked = parser.parse_args()
    asked.folder = asked.folder.absolute()
    return asked


if __name__ == "__main__":
    main()
