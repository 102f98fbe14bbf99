"""`dlq`: records that could not be read or were not let in, byte for byte, with their cause."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Exit, Stopped
from .context import AsJson, check_limit, kafka, settings

if TYPE_CHECKING:
    from ...events.log.protocol import Log, Record
    from ...events.topics import Topics

app = typer.Typer(help="Dead letters: what was not let in, and why.", no_args_is_help=True)

MARKERS = 3
"""Offsets looked at per letter wanted: each transaction adds a marker to those it wrote."""

_ID = re.compile(r"(\d{1,6})@(\d{1,18})")

PREVIEW_BYTES = 512


@app.command("list")
def list_(
    *,
    limit: Annotated[int, typer.Option(help="The newest so many.")] = 50,
    as_json: AsJson = False,
) -> None:
    """List dead letters, the oldest first."""
    from .output import note, table, when, write_json

    given = settings()
    check_limit(limit, most=10_000)
    with kafka(given) as log:
        rows = [_row(record) for record in _newest(log, given.topics, limit)]
    if as_json:
        write_json(rows)
        return
    table(
        ("letter", "died", "reason", "key", "bytes", "from", "detail"),
        [
            (r["id"], when(r["at_ms"]), r["reason"], r["key"], r["bytes"], r["from"], r["detail"])
            for r in rows
        ],
    )
    note("see one with 'wakeful dlq show LETTER'" if rows else "no dead letters")


@app.command("show")
def show(
    letter: Annotated[
        str, typer.Argument(metavar="LETTER", help="Its id: partition@offset, as 'list' shows it.")
    ],
    *,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write its bytes to stdout and nothing else.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter: cause, origin, headers, and what its bytes say if they say anything."""
    from .output import facts, when, write_json

    given = settings()
    with kafka(given) as log:
        record = _find(log, given.topics, letter)
    if raw:
        sys.stdout.buffer.write(record.value or b"")
        return
    row = _row(record)
    row["headers"] = {name: _text(value) for name, value in record.headers}
    row["command"] = _command(record)
    row["value_hex"] = (record.value or b"").hex()
    if as_json:
        write_json(row)
        return
    shown = [(name, row[name]) for name in ("id", "reason", "detail", "from", "key", "bytes")]
    facts([*shown, ("died", when(row["at_ms"]))])
    typer.echo("\nheaders")
    facts((f"  {name}", value) for name, value in row["headers"].items())
    typer.echo("\nvalue")
    typer.echo(f"  {row['command'] or _preview(record.value or b'')}")


def _newest(log: Log, topics: Topics, limit: int) -> list[Record]:
    from ...events.log.protocol import Isolation, Place
    from .reading import to_the_end

    topic = topics.dead_letters
    places = [Place(topic, number) for number in range(log.partitions(topic))]
    ends = log.ends(places, Isolation.COMMITTED)
    starts = {place: max(first, end - limit * MARKERS) for place, (first, end) in ends.items()}
    found = sorted(to_the_end(log, starts), key=lambda r: (r.timestamp_ms, r.partition, r.offset))
    return found[-limit:]


def _find(log: Log, topics: Topics, letter: str) -> Record:
    from ...events.log.protocol import Isolation, Place
    from .reading import to_the_end

    match = _ID.fullmatch(letter)
    if match is None:
        raise Stopped(
            Exit.USAGE, f"{letter!r} is no dead letter's id: write partition@offset, such as 2@15"
        )
    topic, number, offset = topics.dead_letters, int(match[1]), int(match[2])
    if number < log.partitions(topic):
        place = Place(topic, number)
        first, _ = log.ends([place], Isolation.COMMITTED)[place]
        if offset >= first:
            for record in to_the_end(log, {place: offset}):
                if record.offset == offset:
                    return record
                break
    raise Stopped(Exit.NOT_FOUND, f"no dead letter {letter}: see 'wakeful dlq list'")


def _row(record: Record) -> dict[str, Any]:
    from ...events.headers import dead_letter_in

    cause = dead_letter_in(record.headers)
    return {
        "id": f"{record.partition}@{record.offset}",
        "at_ms": record.timestamp_ms,
        "reason": cause.reason if cause else None,
        "detail": cause.detail if cause else None,
        "key": _text(record.key or b""),
        "bytes": len(record.value or b""),
        "from": f"{cause.topic} {cause.partition}@{cause.offset}" if cause else None,
        "sha256": cause.sha256 if cause else None,
    }


def _command(record: Record) -> Any:
    from ...commands.wire import decode_command
    from ...events.errors import Undecodable
    from .words import as_json

    try:
        command = decode_command(record.value, record.headers)
    except Undecodable:
        return None
    return {"kind": type(command.body).__name__, **as_json(command)}


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "0x" + data.hex()


def _preview(data: bytes) -> str:
    more = f" … ({len(data)} bytes; --raw writes all)" if len(data) > PREVIEW_BYTES else ""
    return repr(data[:PREVIEW_BYTES])[2:-1] + more
