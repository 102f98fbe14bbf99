"""Any exception as a sentence and an exit code. Users see no traceback unless `WAKEFUL_LOG=debug` asks for one."""

from __future__ import annotations

import os
import traceback
from errno import EDQUOT, EFBIG, ENOSPC

from ...events.errors import Corrupt, Rejected, Transient
from ...events.log.protocol import Fatal, LogFault
from ..exits import Exit, Stopped
from ..faults import has_no_views, is_database, is_silent

FULL = (ENOSPC, EDQUOT, EFBIG)
"""No room where something is written: a full disk, a quota, a limit of one file."""


def explain(error: BaseException) -> tuple[str, int]:
    """What to write on stderr, and the code to exit with."""
    told, code = _explain(error)
    if os.environ.get("WAKEFUL_LOG") == "debug" and not _is_usage(error):
        told = "".join(traceback.format_exception(error)) + told
    return (f"wakeful: {told}" if told else ""), code


def _explain(error: BaseException) -> tuple[str, int]:
    if _is_usage(error):
        return _usage(error)
    match error:
        case Stopped():
            return error.message, error.code
        case KeyboardInterrupt():
            return "", Exit.INTERRUPTED
        case Rejected():
            return str(error), Exit.USAGE
        case Transient():
            return str(error), Exit.NOT_IN_TIME
        case Corrupt():
            return f"what is stored contradicts itself: {error}", Exit.FAULT
        case Fatal():
            return f"kafka: {error}", Exit.UNAVAILABLE
        case LogFault():
            return f"kafka: {error}; check it with 'wakeful status'", Exit.UNAVAILABLE
        case _:
            return _explain_by_name(error)


def _explain_by_name(error: BaseException) -> tuple[str, int]:
    """Those of modules that a command may not have loaded: nobody's type is imported for a look."""
    kind = type(error).__name__
    if kind == "Abort":
        return "stopped: nothing was done", Exit.INTERRUPTED
    if kind in ("StackError", "NotReadyError"):
        return str(error), Exit.UNAVAILABLE
    if isinstance(error, OSError) and error.errno in FULL:
        told = f"cannot write ({(error.strerror or kind).lower()})"
        where = error.filename or "the output or WAKEFUL_HOME"
        return f"{told}: make room where {where} lies, then run it again", Exit.UNAVAILABLE
    if isinstance(error, OSError) and error.filename is not None:
        told = (error.strerror or kind).lower()
        return f"cannot use {error.filename} ({told}): correct it, or set WAKEFUL_HOME", Exit.USAGE
    if is_database(error):
        return _database(error)
    where = traceback.extract_tb(error.__traceback__)[-1:]
    at = f" at {where[0].filename.rpartition('/')[2]}:{where[0].lineno}" if where else ""
    told = f"an error of its own, {kind}{at}: {error}"
    return (
        f"{told}; run it again with WAKEFUL_LOG=debug for the traceback, and report it",
        Exit.FAULT,
    )


def _is_usage(error: BaseException) -> bool:
    """Whether it is one of the command-line parser's; by shape, since its module has moved between releases."""
    return hasattr(error, "format_message") and hasattr(error, "exit_code")


def _usage(error: BaseException) -> tuple[str, int]:
    if type(error).__name__ == "NoArgsIsHelpError":
        return "", Exit.USAGE
    told = str(error.format_message()).rstrip(".")  # type: ignore[attr-defined]  # see _is_usage
    told = told[:1].lower() + told[1:].replace(": Input should", ": it should")
    context = getattr(error, "ctx", None)
    path = getattr(context, "command_path", "wakeful")
    return f"{told}; see '{path} --help'", Exit.USAGE


def _namespace() -> str:
    return os.environ.get("WAKEFUL_NAMESPACE") or "wakeful"


def _database(error: BaseException) -> tuple[str, int]:
    told = " ".join(str(error).split())
    kind = type(error).__name__
    if has_no_views(error):
        return (
            f"there are no views in this database yet for namespace {_namespace()}: start 'wakeful run' or 'wakeful projector', which makes them, or set WAKEFUL_NAMESPACE if another one is meant",
            Exit.UNAVAILABLE,
        )
    if is_silent(error):
        return (
            f"no answer from postgres ({told}): check it with 'wakeful status'",
            Exit.UNAVAILABLE,
        )
    if kind == "InsufficientPrivilege":
        return (
            f"postgres: {told}: views of an older version are not for readers yet, and 'wakeful doctor' tells what else may be wrong",
            Exit.UNAVAILABLE,
        )
    return f"postgres: {told}", Exit.FAULT
