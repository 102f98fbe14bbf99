"""Loads a user's app; what goes wrong in it is told with the user's own file and line."""

from __future__ import annotations

import traceback

from ..processors.app import App, AppError, load_app
from .exits import Exit, Stopped


def load_user_app(target: str, *, need_workflows: bool = False) -> App:
    """The app; `Stopped` says what to mend. `need_workflows`: an app of activities alone will not do."""
    try:
        app = load_app(target)
    except AppError as error:
        raise Stopped(Exit.APP, str(error)) from error
    except (Exception, SystemExit) as error:
        raise Stopped(Exit.APP, _told(target, error)) from error
    if need_workflows and not app.workflows:
        raise Stopped(
            Exit.APP,
            f"{target} declares no workflow, so no session could run: decorate one with @workflow(…)",
        )
    return app


def _told(target: str, error: BaseException) -> str:
    message = " ".join(str(error).split()) or "(no message)"
    if isinstance(error, SyntaxError):
        return f"{target} cannot be imported: {error.msg} ({error.filename}, line {error.lineno})"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_user_code(f.filename)]
    at = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{target} cannot be imported: {type(error).__name__}: {message}{at}"


def _is_user_code(filename: str) -> bool:
    own = __file__.rpartition("/deploy/")[0]
    return not (filename.startswith(("<frozen", own + "/")) and "/examples/" not in filename)
