"""What every step of the workload does, the same for Wakeful and for its peers: it says that it ran, and answers.

Every execution appends one line to the effects log (`WAKEFUL_BENCH_EFFECTS`): nanoseconds of the monotonic clock,
pid, session, step, kind. It plays the outside world, and all latencies are read from it.
"""

import os
import time

PAD = "x" * 900
EFFECTS = os.environ.get("WAKEFUL_BENCH_EFFECTS", os.devnull)


def effect(session: str, step: int, kind: str) -> None:
    """Writes one line down; appended whole, and not synced: it is not what is measured."""
    line = f"{time.monotonic_ns()} {os.getpid()} {session} {step} {kind}\n".encode()
    descriptor = os.open(EFFECTS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, line)
    os.close(descriptor)


def model_answer(session: str, step: int) -> dict[str, object]:
    """About 1 KiB."""
    effect(session, step, "model")
    return {"role": "assistant", "step": step, "text": PAD, "usage": {"in": 812, "out": 231}}


def tool_receipt(session: str, step: int, key: str) -> dict[str, object]:
    """About 200 B."""
    effect(session, step, "tool")
    return {"tool": "write", "idempotency_key": key, "status": "ok", "ref": "r" * 100}


def step_result(session: str, step: int) -> dict[str, object]:
    """Even steps are a model's, odd ones a tool's; for engines that leave the key to their users."""
    if step % 2 == 0:
        return model_answer(session, step)
    return tool_receipt(session, step, f"{session}:{step}")
