"""`topics apply` and `topics asyncapi`: the topics of the namespace, made and described from one table."""

from __future__ import annotations

from typing import Annotated

import typer

from .context import AsJson, kafka, load, settings

app = typer.Typer(help="Topics in Kafka.", no_args_is_help=True)


Target = Annotated[
    str | None,
    typer.Argument(
        metavar="[APP]", help="An app whose activity queues have topics.", show_default=False
    ),
]

Queue = Annotated[
    list[str] | None, typer.Option(help="An activity queue by name; repeat for more.")
]


@app.command("apply")
def apply(target: Target = None, *, queue: Queue = None, as_json: AsJson = False) -> None:
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


@app.command("asyncapi")
def asyncapi(target: Target = None, *, queue: Queue = None) -> None:
    """Print the topics as an AsyncAPI 3.0 document: keys, headers, Avro schemas, retention, who may do what."""
    from ..telling.asyncapi import asyncapi as document
    from .output import write_json

    given = settings()
    queues = [*(queue or ()), *(load(target).queues if target else ())]
    replicas = given.min_insync_replicas
    made = document(given.topics, given.partitions, queues=queues, min_insync_replicas=replicas)
    write_json(made)
