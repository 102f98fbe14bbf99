"""Loads a user's app, and what Wakeful adds to it; what goes wrong in it is told with the user's own file and line."""

from __future__ import annotations

import traceback

from ..processors.app import App, AppError, load_app
from ..processors.schedules.workflow import BUILT_IN
from .exits import Exit, Stopped

RESERVED = "wakeful."
"""How the names of workflows begin that are not a user's."""


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
    return _with_built_in(target, app)


def _with_built_in(target: str, app: App) -> App:
    """The app with the workflows that are there in every processor; their names are not the user's to take."""
    for name in app.workflows:
        if name.startswith(RESERVED):
            raise Stopped(
                Exit.APP,
                f"workflow {name!r} of {target} has a name that begins with {RESERVED!r}, as Wakeful's own do: rename it",
            )
    for workflow in BUILT_IN:
        app.workflows[workflow.name] = {workflow.version: workflow}
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
