"""An MCP server as a user declares it, and its tools as activities."""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from ...events import contracts as words
from ..activities import declaring
from ..activities.contracts import Retry
from ..activities.definitions import ONCE, Activity
from ..activities.inside import INSIDE
from ..activities.signatures import CREDENTIALS, Declined
from ..durations import Duration, to_ms
from .claims import Terms, terms_of
from .connection import Connections
from .manifest import Manifest, ToolEntry, read_manifest
from .schemas import arguments_of
from .sdk import over_http, over_stdio

CONNECT_TIMEOUT = "20s"
"""To start or reach a server and hear of its tools."""

AGAIN = Retry(attempts=4, initial="500ms", never=("ToolFailed", "ToolRefused", "SchemaChanged"))
"""Of reads and idempotent writes: a connection that broke is made anew; what a tool answered is its answer."""

Given = Mapping[str, str] | Callable[[], Mapping[str, str]]
"""Names and values, or a function that a worker asks for them when it connects."""

NAME_MAX = 64
"""What models take as the name of a tool."""

_NO_ARGUMENTS: dict[str, Any] = {}


class McpTool(Activity[Any]):
    """A tool of an MCP server; its arguments are those of the schema in the manifest, its result is any JSON."""

    def __init__(
        self, name: str, entry: ToolEntry, terms: Terms, server: McpServer, connections: Connections
    ) -> None:
        self.entry = entry

        async def run(**arguments: Any) -> Any:
            inside = INSIDE.get(None)
            key = None if inside is None else inside.beats.task.idempotency_key
            if entry.key_argument is not None:
                arguments[entry.key_argument] = key
            return await connections.call(entry, arguments, key)

        once = terms.contract.word in words.ONCE
        run.__doc__ = entry.described.description
        run.__signature__ = inspect.Signature(return_annotation=Any)  # type: ignore[attr-defined]
        run.__annotations__ = {"return": Any}
        super().__init__(
            run,
            contract=declaring.checked_contract(name, run, terms.contract, terms.approval),
            name=declaring.check_name("activity", name),
            queue=declaring.checked_queue(name, server.queue),
            times=declaring.checked_times(
                name,
                once=once,
                timeout=server.timeout,
                schedule_to_close=server.schedule_to_close,
                heartbeat=None,
            ),
            approval=terms.approval,
            retry=ONCE if once else declaring.checked_retry(name, server.retry),
            untrusted=terms.untrusted,
        )
        self._schema = _without(entry.described.schema, entry.key_argument)
        self._arguments: TypeAdapter[dict[str, Any]] = arguments_of(name, self._schema)
        self._signature = _signature(self._schema)
        self._positional = None
        # a fake of it is compared with this
        run.__signature__ = self._signature  # type: ignore[attr-defined]

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        if args:
            raise self._wrong("the arguments of a tool are given by name")
        return kwargs

    def schema(self) -> dict[str, Any]:
        """The JSON schema of its arguments, as it was reviewed."""
        schema = deepcopy(self._schema)
        properties = schema.setdefault("properties", {})
        for name, each in properties.items():
            properties[name] = each if isinstance(each, dict) else {}
        return schema


class McpServer:
    """The tools of an MCP server as activities, by its reviewed manifest.

    `command` starts the server on the worker's machine and speaks to it by stdin and stdout; `url` is the address of one
    that runs elsewhere, over streamable HTTP. `env` is what such a process gets besides `PATH` and the like, `headers` what
    goes with each request; either may be a function, which the worker asks when it connects, so that a processor needs no
    secret. `queue`, `timeout`, `schedule_to_close` and `retry` are those of its activities; what is called at most once is
    not retried. A tool's activity is called `<name>_<tool>`, unless the manifest names it.

    Nothing is started and nobody is asked before a worker's first call. `WrongManifest`, `Declined` where a tool cannot
    be an activity.
    """

    def __init__(
        self,
        name: str,
        *,
        manifest: str | Path,
        command: Sequence[str] | None = None,
        url: str | None = None,
        env: Given | None = None,
        headers: Given | None = None,
        queue: str = "default",
        timeout: Duration | None = None,
        schedule_to_close: Duration | None = None,
        retry: Retry = AGAIN,
        connect_timeout: Duration = CONNECT_TIMEOUT,
    ) -> None:
        self.name = declaring.check_name("mcp server", name)
        self.queue, self.timeout, self.retry = queue, timeout, retry
        self.schedule_to_close = schedule_to_close
        self._command, self._url = _one_of(name, command, url)
        if headers is not None and url is None:
            raise Declined(
                f"mcp server {name!r} has headers=, and no url=: a process is given env="
            )
        if env is not None and command is None:
            raise Declined(f"mcp server {name!r} has env=, and no command=: requests have headers=")
        self._env, self._headers = env or _NO_ARGUMENTS, headers or _NO_ARGUMENTS
        self.manifest = read_manifest(Path(manifest))
        if self.manifest.server != name:
            raise Declined(
                f"mcp server {name!r} is given the manifest of {self.manifest.server!r}: {str(manifest)!r}"
            )
        self.connections = Connections(name, self._open, to_ms(connect_timeout) / 1000)
        self._tools = _tools(self, self.manifest)

    @property
    def tools(self) -> list[McpTool]:
        """All tools that the manifest uses, as it lists them: for `AgentLoop(tools=…)`."""
        return list(self._tools.values())

    def __getitem__(self, tool: str) -> McpTool:
        """The tool of this name, as the server calls it; `Declined` where the manifest does not use one."""
        found = self._tools.get(tool)
        if found is None:
            known = ", ".join(self._tools) or "none"
            raise Declined(
                f"mcp server {self.name!r} has no tool {tool!r}: its manifest has {known}"
            )
        return found

    def __iter__(self) -> Iterator[McpTool]:
        return iter(self.tools)

    def __repr__(self) -> str:
        return f"<mcp server {self.name!r}>"

    def _open(
        self, closed: Callable[[], None], changed: Callable[[], None]
    ) -> AbstractAsyncContextManager[Any]:
        if self._url is not None:
            return over_http(self._url, _asked(self._headers), changed)
        return over_stdio(self.name, self._command, _asked(self._env), closed, changed)


def mcp_tools(name: str, **options: Any) -> list[McpTool]:
    """The tools of one server, where nothing else is wanted of it: `McpServer(name, …).tools`."""
    return McpServer(name, **options).tools


def _tools(server: McpServer, manifest: Manifest) -> dict[str, McpTool]:
    tools: dict[str, McpTool] = {}
    names: dict[str, str] = {}
    for tool, entry in manifest.tools.items():
        if not entry.use:
            continue
        name = entry.activity or re.sub(r"[^A-Za-z0-9_-]", "_", f"{server.name}_{tool}")
        told = f"tool {tool!r} of mcp server {server.name!r}"
        if len(name) > NAME_MAX or name in names:
            why = f"is that of {names[name]!r}, too" if name in names else "is too long for models"
            raise Declined(f'{told}: the name {name!r} {why}; give it name = "…" in the manifest')
        names[name] = tool
        terms = terms_of(
            entry.described.claims, entry.said, trusted=manifest.trusted, approver=manifest.approver
        )
        if entry.key_argument is not None and terms.contract.word == words.READ:
            raise Declined(f"{told} is a read, which needs no key: leave key_argument out")
        tools[tool] = McpTool(name, entry, terms, server, server.connections)
    return tools


def _one_of(
    name: str, command: Sequence[str] | None, url: str | None
) -> tuple[list[str], str | None]:
    if (command is None) == (url is None):
        raise Declined(f"mcp server {name!r} has either command=[…] or url=…: give one of them")
    if command is not None and (isinstance(command, str) or not command):
        raise Declined(
            f"mcp server {name!r} has command={command!r}: give a list, ['python', 'desk.py']"
        )
    if url is not None and not url.startswith(("http://", "https://")):
        raise Declined(f"mcp server {name!r} has url={url!r}: it begins with http:// or https://")
    return [str(word) for word in command or ()], url


def _asked(given: Given) -> Mapping[str, str]:
    return given() if callable(given) else given


def _without(schema: dict[str, Any], argument: str | None) -> dict[str, Any]:
    if argument is None:
        return schema
    kept = deepcopy(schema)
    kept["properties"].pop(argument)
    if "required" in kept:
        kept["required"] = [name for name in kept["required"] if name != argument]
    return kept


def _signature(schema: Mapping[str, Any]) -> inspect.Signature:
    """For people and for fakes: the arguments that Python has names for."""
    required = schema.get("required", ())
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if name in required else None,
        )
        for name in schema.get("properties", {})
        if name.isidentifier() and not keyword.iskeyword(name) and name != CREDENTIALS
    ]
    return inspect.Signature(parameters)
