"""Stands between a worker and an MCP server on this machine: the server and all it began end with the worker.

Run as a script, by path and with the standard library alone: `guard.py LIFELINE COMMAND…`. It leads a process group,
starts the command in it on its own stdin and stdout, and waits. LIFELINE is the reading end of a pipe that breaks when the
worker ends, whatever ended it. The worker kills the group where it ends in good order.
"""

import os
import select
import signal
import subprocess
import sys
import time

GRACE_S = 0.5
"""What a server has to end by itself once its stdin has closed, before its group is killed."""

POLL_S = 0.1
"""How often it is asked whether the server has ended, where the system has no descriptor for that."""


def main(lifeline: int, command: list[str]) -> int:
    """Runs the command; its exit code, or none where the worker went first."""
    try:
        server = subprocess.Popen(command)  # noqa: S603 it is what the worker's user declared
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        return 127
    for descriptor in (0, 1):
        os.close(descriptor)  # so that they close when the server does
    watched = [lifeline]
    if hasattr(os, "pidfd_open"):
        watched.append(os.pidfd_open(server.pid))
    poll_s = None if len(watched) > 1 else POLL_S
    while server.poll() is None:
        ready, _, _ = select.select(watched, [], [], poll_s)
        if lifeline in ready:
            _end(server)
    return server.returncode


def _end(server: "subprocess.Popen[bytes]") -> None:
    until = time.monotonic() + GRACE_S
    while server.poll() is None and time.monotonic() < until:
        time.sleep(0.02)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
