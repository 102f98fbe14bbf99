"""A pipe between a supervisor and its children: when it breaks, the supervisor is gone, and so must they be.

Unlike a process group or the kernel's parent-death signal it works for any death of any thread, on any system.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping

VARIABLE = "WAKEFUL_LIFELINE"

GRACE_S = 5.0
"""What an orphan has left to drain: a restarted supervisor's children are at its place by then."""


def hold(environ: Mapping[str, str]) -> None:
    """Makes this process end soon after its supervisor; without one nothing happens."""
    given = environ.get(VARIABLE, "")
    if given.isdigit():
        threading.Thread(target=_wait, args=(int(given),), name="lifeline", daemon=True).start()


def _wait(descriptor: int) -> None:
    try:
        while os.read(descriptor, 1):
            pass
    except OSError:
        return  # not a pipe of ours: a stranger's variable ends nobody
    sys.stderr.write("the supervisor is gone: ending\n")
    sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_S)
    os.kill(os.getpid(), signal.SIGKILL)
