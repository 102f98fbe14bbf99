"""Who plays: the app of a rehearsal, from whatever a test has at hand."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from ..activities.credentials import Provider
from ..activities.definitions import Activity
from ..activities.signatures import Declined
from ..app import App, AppError, collect, load_app
from ..mcp.servers import McpServer
from ..workflow.definitions import Workflow
from .errors import Misuse

Declared = Workflow[Any] | Activity[Any] | Provider[Any] | McpServer | App | ModuleType | str
"""A workflow, an activity, a provider of credentials, an MCP server, an app, a module, or the name of one as `wakeful run` takes it."""


def cast(declared: Iterable[Declared], *, credentials: Provider[Any] | None = None) -> App:
    """The app of these, with the activities that the workflows' own modules hold.

    What is given by hand comes before what a workflow names, and that before what else stands in its module. The
    provider of credentials is this one, or that of the app, or that of the workflows' modules.
    """
    try:
        app = collect(_parts(declared), name="this rehearsal")
    except AppError as error:
        raise Misuse(str(error)) from error
    app.credentials = credentials or app.credentials or _provider_of(app)
    for versions in app.workflows.values():
        for workflow in versions.values():
            _add_seen(app, workflow)
    return app


def provider_of(given: Any) -> Provider[Any] | None:
    """What a test gives as `credentials`: a provider, a function of the access, or the credentials themselves."""
    if given is None or isinstance(given, Provider):
        return given
    if not inspect.isroutine(given):
        return Provider(lambda _access: given)
    try:
        return Provider(given)
    except Declined as error:
        raise Misuse(str(error)) from error


def choose_workflow(app: App, name: str | None) -> str:
    """The workflow to rehearse: the one named, or the only one there is."""
    known = ", ".join(sorted(app.workflows)) or "none"
    if name is None and len(app.workflows) == 1:
        return next(iter(app.workflows))
    if name is None:
        raise Misuse(f"which workflow? give workflow='…' (declared: {known})")
    if not isinstance(name, str) or name not in app.workflows:
        raise Misuse(f"no workflow {name!r} is declared here (declared: {known})")
    return name


def _parts(declared: Iterable[Declared]) -> Iterator[object]:
    for item in declared:
        if isinstance(item, Workflow | Activity | Provider | McpServer):
            yield item
        elif isinstance(item, ModuleType):
            yield from vars(item).values()
        elif isinstance(item, App | str):
            app = load_app(item) if isinstance(item, str) else item
            yield from (one for versions in app.workflows.values() for one in versions.values())
            yield from app.activities.values()
            yield app.credentials
        else:
            raise Misuse(
                f"a rehearsal takes workflows, activities, mcp servers, an app, a module or its name, got {item!r}"
            )


def _provider_of(app: App) -> Provider[Any] | None:
    """The one that the modules of the workflows hold."""
    found: list[Provider[Any]] = []
    for workflow in (one for versions in app.workflows.values() for one in versions.values()):
        functions = (workflow.function, *(one.function for one in workflow.activities))
        for function in map(inspect.unwrap, functions):
            for item in list(getattr(function, "__globals__", {}).values()):
                if isinstance(item, Provider) and item not in found:
                    found.append(item)
    if len(found) > 1:
        names = ", ".join(repr(one.name) for one in found)
        raise Misuse(f"the workflows' modules hold several providers, {names}: give credentials=…")
    return found[0] if found else None


def _add_seen(app: App, workflow: Workflow[Any]) -> None:
    """Adds what the workflow's function names, then what else its module holds."""
    function = inspect.unwrap(workflow.function)
    if not isinstance(function, FunctionType):
        return
    named = inspect.getclosurevars(function)
    for item in (*named.nonlocals.values(), *named.globals.values()):
        if isinstance(item, Activity):
            _add(app, item)
    known = set(app.activities)
    for item in list(function.__globals__.values()):
        if not isinstance(item, Activity) or item.name in known:
            continue
        if _add(app, item) is not item:
            raise Misuse(
                f"the module of workflow {workflow.name!r} holds two activities named {item.name!r}: "
                "give the rehearsal the one that is meant"
            )


def _add(app: App, activity: Activity[Any]) -> Activity[Any]:
    """The one of this name, and what undoes it."""
    if activity.undo is not None:
        app.activities.setdefault(activity.undo.name, activity.undo)
    return app.activities.setdefault(activity.name, activity)
