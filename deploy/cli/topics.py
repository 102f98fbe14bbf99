"""`topics apply`: the topics of the namespace, from one table."""

from __future__ import annotations

from typing import Annotated

import typer

from .context import AsJson, kafka, load, settings

app = typer.Typer(help="Topics in Kafka.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """A group, even with one command."""


@app.command("apply")
def apply(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="[APP]", help="An app whose activity queues get topics.", show_default=False
        ),
    ] = None,
    *,
    queue: Annotated[
        list[str] | None, typer.Option(help="An activity queue by name; repeat for more.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create the namespace's missing topics; existing ones are checked, never changed."""
    from ..processes import apply_topics
    from .output import note, write_json

    given = settings()
    queues = [*(queue or ()), *(load(target).queues if target else ("default",))]
    with kafka(given, may_be_empty=True) as log:
        created = apply_topics(log, given, queues)
    if as_json:
        write_json({"namespace": given.namespace, "created": created})
        return
    for name in created:
        typer.echo(name)
    note(f"{len(created)} topics created" if created else "all topics are there")
