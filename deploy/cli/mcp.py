"""`mcp`: describe another's MCP server in a manifest; serve Wakeful as one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ..exits import Exit, Stopped

app = typer.Typer(
    help="The Model Context Protocol: tools of servers for agents, and sessions for assistants.",
    no_args_is_help=True,
)


@app.command("describe")
def describe(
    server: Annotated[str, typer.Argument(metavar="SERVER", help="What you call the server.")],
    command: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- COMMAND...]", help="Starts it, for one that speaks on stdio."),
    ] = None,
    *,
    url: Annotated[str | None, typer.Option(help="Its address, for one that speaks HTTP.")] = None,
    header: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=VARIABLE",
            help="A header of each request, and the environment variable that holds it; may be repeated.",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="The manifest that there is: what people wrote there is kept.",
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help="Write nothing; tell what the server says otherwise than this manifest, and fail if it does.",
        ),
    ] = None,
) -> int:
    """Ask a server for its tools and write their manifest to stdout, for people to review."""
    from ...processors.mcp import manifest as manifests
    from ..logs import configure
    from ..mcp.describing import describe as ask
    from ..mcp.describing import drifted

    if (url is None) == (not command):
        raise Stopped(Exit.USAGE, "give the command after --, or its --url: one of them")
    configure("error", "console")
    before = keep or check
    kept = None if before is None else manifests.read_manifest(before)
    found = ask(server, command=command or (), url=url, headers=_headers(header or []))
    if check is not None and kept is not None:
        told = drifted(kept, found)
        for line in told:
            typer.echo(line)
        return int(Exit.REFUSED if told else Exit.DONE)
    typer.echo(manifests.write(found if kept is None else manifests.merged(kept, found)), nl=False)
    return int(Exit.DONE)


@app.command("serve")
def serve(
    *,
    allow: Annotated[
        str,
        typer.Option(help="Commands besides the reads: decide, send, or both with a comma."),
    ] = "",
) -> None:
    """Serve sessions, approvals and the ledger to an assistant on stdin and stdout; it only reads, unless allowed more."""
    from ..mcp.serving import serve as run
    from .assisting import ALLOWED, tools_of
    from .context import settings
    from .errors import explain

    allowed = frozenset(word.strip() for word in allow.split(",") if word.strip())
    unknown = sorted(allowed - set(ALLOWED))
    if unknown:
        raise Stopped(Exit.USAGE, f"--allow {unknown[0]!r}: expected {' or '.join(ALLOWED)}")
    run(tools_of(settings(), allowed), explain)


def _headers(given: list[str]) -> dict[str, str]:
    """From the environment, since what stands in a command is read by others."""
    headers = {}
    for one in given:
        name, _, variable = one.partition("=")
        value = os.environ.get(variable)
        if not variable or value is None:
            raise Stopped(
                Exit.USAGE, f"--header {one!r}: give NAME=VARIABLE, of a variable that is set"
            )
        headers[name] = value
    return headers
