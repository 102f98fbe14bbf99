"""What a user's module declares, gathered: its workflows by name and version, its activities by name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ..events.records import Version
from .activities.credentials import Provider
from .activities.definitions import Activity
from .mcp.servers import McpServer
from .workflow.definitions import Workflow


class AppError(Exception):
    """The named app cannot be loaded; says why and what to write."""


@dataclass(slots=True)
class App:
    """The workflows and activities that a processor and its workers know."""

    name: str = "app"
    workflows: dict[str, dict[int, Workflow[Any]]] = field(default_factory=dict)
    activities: dict[str, Activity[Any]] = field(default_factory=dict)
    credentials: Provider[Any] | None = None
    """Who gives the activities their credentials."""

    @property
    def queues(self) -> list[str]:
        """The activity queues in use, sorted."""
        return sorted({a.queue for a in self.activities.values()})

    @property
    def loaded(self) -> tuple[Version, ...]:
        """Every workflow in every version, sorted: what a processor tells of itself."""
        found = ((name, one) for name in self.workflows for one in self.workflows[name])
        return tuple(Version(name, str(one)) for name, one in sorted(found))

    def newest(self, workflow: str) -> Workflow[Any] | None:
        """The highest loaded version of a workflow."""
        versions = self.workflows.get(workflow)
        return versions[max(versions)] if versions else None

    def versions(self, workflow: str) -> list[int]:
        """The loaded versions of a workflow, the lowest first."""
        return sorted(self.workflows.get(workflow, ()))

    def version(self, workflow: str, version: int) -> Workflow[Any] | None:
        """That very version, or null where it is not loaded."""
        return self.workflows.get(workflow, {}).get(version)


def gather(declared: Iterable[object], *, name: str = "app") -> App:
    """An app of these workflows and activities, and the one provider of credentials.

    Refused are two of one name (and version), two providers, and activities that take credentials which nobody gives.
    """
    app = collect(declared, name=name)
    if app.credentials is None:
        for activity in app.activities.values():
            _check_credentials(app, activity)
    return app


def collect(declared: Iterable[object], *, name: str) -> App:
    """The same before it is known whether that is all."""
    app = App(name)
    for item in declared:
        if isinstance(item, Workflow):
            versions = app.workflows.setdefault(item.name, {})
            if versions.setdefault(item.version, item) is not item:
                raise AppError(
                    f"workflow {item.name!r} version {item.version} is declared twice in {name}: "
                    "give one another version, or another name"
                )
            _take(app, item.activities, name)
        elif isinstance(item, Activity):
            _take(app, (item,), name)
        elif isinstance(item, McpServer):
            _take(app, item.tools, name)
        elif isinstance(item, Provider):
            if app.credentials not in (None, item):
                raise AppError(
                    f"{name} has two providers of credentials, {app.credentials.name!r} and {item.name!r}: "
                    "keep one, and let it go by what 'access' says"
                )
            app.credentials = item
    return app


def _take(app: App, activities: Iterable[Activity[Any]], name: str) -> None:
    """These, and those that their contracts name."""
    for activity in activities:
        for each in (activity, *activity.companions):
            if app.activities.setdefault(each.name, each) is not each:
                raise AppError(f"activity {each.name!r} is declared twice in {name}: rename one")


def _check_credentials(app: App, activity: Activity[Any]) -> None:
    """There is no provider, so it must take none."""
    look_up = activity.look_up
    told = f"activity {activity.name!r} takes credentials"
    if look_up is not None and look_up.takes_credentials:
        told = f"the look-up {look_up.name!r} of activity {activity.name!r} takes credentials"
    elif not activity.takes_credentials:
        return
    raise AppError(
        f"{told}, and {app.name} has nobody to give them: write '@credentials' on a "
        "'def vault(access: Access)' that returns them, or import the one that you have"
    )


def load_app(target: str) -> App:
    """Loads `package.module` or `path/to/file.py` and gathers what it declares."""
    app = gather(vars(_import(target)).values(), name=target)
    if not app.workflows and not app.activities:
        raise AppError(
            f"{target} declares no workflow and no activity: decorate one with @workflow(…)"
        )
    return app


def _import(target: str) -> ModuleType:
    try:
        if not target.endswith(".py") and not all(map(str.isidentifier, target.split("."))):
            raise ModuleNotFoundError(name=target)
        if target.endswith(".py"):
            return _import_file(Path(target))
        if "" not in sys.path:
            sys.path.insert(0, "")  # the folder the command runs in, as `python -m` has it
        return importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name is not None and not target.startswith(error.name):
            raise
        raise AppError(
            f"no module {target!r}: give a module such as 'desk.workflows' or a file such as 'desk.py'"
        ) from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise AppError(
            f"no file {str(path)!r}: give a module such as 'desk.workflows' or a file such as 'desk.py'"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise AppError(
            f"{str(path)!r} is not a Python file: give one that ends in .py, or a module"
        )
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module
