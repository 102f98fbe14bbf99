"""`dlq`: records that could not be read or were not let in, byte for byte, and what to do about them."""

from __future__ import annotations

import sys
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exits import Exit, Stopped
from .asking import Actor
from .context import AsJson, check_limit, kafka, settings

if TYPE_CHECKING:
    from ...events.log.protocol import Log, Record
    from ..settings import Settings
    from ..telling.dealing import Dealt, How, Mark

app = typer.Typer(
    help="Dead letters: what was not let in, why, and what to do about it.", no_args_is_help=True
)

PREVIEW_BYTES = 512

Chosen = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[LETTER]...",
        help="Ids: partition@offset, as 'list' shows them.",
        show_default=False,
    ),
]
OfReason = Annotated[
    str | None, typer.Option(help="All letters of this reason that nobody has dealt with.")
]
AllTenants = Annotated[
    bool, typer.Option("--all-tenants", help="Also those of other tenants than WAKEFUL_TENANT.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command("list")
def list_(
    *,
    all_of_them: Annotated[
        bool, typer.Option("--all", help="Also those that were redriven or dropped.")
    ] = False,
    limit: Annotated[int, typer.Option(help="The newest so many.")] = 50,
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """List dead letters that nobody has dealt with, the oldest first: this tenant's, and those that name none."""
    from ..telling.dealing import id_of, newest_letters
    from ..telling.text import when
    from .output import note, table, write_json

    given = settings()
    check_limit(limit, most=10_000)
    with kafka(given) as log:
        found = newest_letters(
            *(log, given.topics, limit), all_of_them=all_of_them, tenant=_whose(given, all_tenants)
        )
    rows = [_row(record, found.marks.get(id_of(record))) for record in found.records]
    if as_json:
        write_json(rows)
        return
    table(
        ("letter", "died", "reason", "key", "bytes", "from", "handled", "detail"),
        [
            (
                *(r["id"], when(r["at_ms"]), r["reason"], r["key"], r["bytes"], r["from"]),
                *(r["handled"]["how"] if r["handled"] else None, r["detail"]),
            )
            for r in rows
        ],
    )
    note(
        "see one with 'wakeful dlq show LETTER'; then 'wakeful dlq redrive' or 'drop' it"
        if rows
        else "no dead letters"
    )


@app.command("show")
def show(
    letter: Annotated[
        str, typer.Argument(metavar="LETTER", help="Its id: partition@offset, as 'list' shows it.")
    ],
    *,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write its bytes to stdout and nothing else.")
    ] = False,
    all_tenants: AllTenants = False,
    as_json: AsJson = False,
) -> None:
    """Show one dead letter: cause, origin, headers, and what its bytes say if they say anything."""
    from ..telling.dealing import find_letter
    from ..telling.text import when
    from .output import facts, write_json

    given = settings()
    with kafka(given) as log:
        record, mark = find_letter(log, given.topics, letter, tenant=_whose(given, all_tenants))
    if raw:
        sys.stdout.buffer.write(record.value or b"")
        return
    row = _row(record, mark)
    row["headers"] = {name: _text(value) for name, value in record.headers}
    row["command"] = _command(record)
    row["value_hex"] = (record.value or b"").hex()
    if as_json:
        write_json(row)
        return
    shown = [(name, row[name]) for name in ("id", "reason", "detail", "from", "key", "bytes")]
    facts([*shown, ("died", when(row["at_ms"])), ("handled", _told(mark))])
    typer.echo("\nheaders")
    facts((f"  {name}", value) for name, value in row["headers"].items())
    typer.echo("\nvalue")
    typer.echo(f"  {row['command'] or _preview(record.value or b'')}")


@app.command("redrive")
def redrive(
    letters: Chosen = None,
    *,
    reason: OfReason = None,
    yes: Yes = False,
    vouch: Annotated[
        bool,
        typer.Option(
            "--vouch",
            help="Sign them anew with your own keys: you have looked at what they say, and answer for it.",
        ),
    ] = False,
    all_tenants: AllTenants = False,
    actor: Actor = None,
    as_json: AsJson = False,
) -> int:
    """Send dead commands back to where they came from, byte for byte, once what kept them out is mended.

    A repeat sends nothing. The session decides as ever: what it has applied before under the same command id is a
    repeat and changes nothing, and what was issued too long ago is refused as too_old, which gives a new letter.
    With --vouch what had no signature, or one by a key that is unknown, revoked or over, comes in under yours.
    """
    asked = _Asked(letters or [], reason, yes=yes, all_tenants=all_tenants, actor=actor)
    return _deal("vouched for" if vouch else "redriven", asked, as_json=as_json)


@app.command("drop")
def drop(
    letters: Chosen = None,
    *,
    reason: OfReason = None,
    yes: Yes = False,
    all_tenants: AllTenants = False,
    actor: Actor = None,
    as_json: AsJson = False,
) -> int:
    """Mark dead letters as dealt with: 'list' shows them no more; they stay as long as the topic keeps them."""
    asked = _Asked(letters or [], reason, yes=yes, all_tenants=all_tenants, actor=actor)
    return _deal("dropped", asked, as_json=as_json)


@dataclass(frozen=True)
class _Asked:
    """Which letters are to be dealt with, and by whom."""

    letters: list[str]
    reason: str | None
    _: KW_ONLY
    yes: bool
    all_tenants: bool
    actor: str | None


def _whose(given: Settings, all_tenants: bool) -> str | None:  # noqa: FBT001 as the option is
    return None if all_tenants else given.tenant


def _deal(how: How, asked: _Asked, *, as_json: bool) -> int:
    from ..telling.dealing import deal, find_letter, id_of, open_letters

    letters, reason = asked.letters, asked.reason
    if bool(letters) == (reason is not None):
        raise Stopped(
            Exit.USAGE,
            "say which letters: their ids, as 'wakeful dlq list' shows them, or --reason",
        )
    given = settings()
    whose = _whose(given, asked.all_tenants)
    with kafka(given) as log:
        if reason is None:
            ids = dict.fromkeys(letters)  # each once
            chosen = [find_letter(log, given.topics, one, tenant=whose)[0] for one in ids]
        else:
            chosen = open_letters(log, given.topics, reason, tenant=whose)
        found = ((id_of(record), _why_not(how, record, given)) for record in chosen)
        why_not = {letter: why for letter, why in found if why}
        if why_not and reason is None:
            letter, why = next(iter(why_not.items()))
            raise Stopped(
                Exit.REFUSED,
                f"letter {letter} cannot be sent back: {why}; nothing was sent, 'wakeful dlq drop {letter}' puts it away",
            )
        chosen = [record for record in chosen if id_of(record) not in why_not]
        _ask(how, len(chosen), yes=asked.yes)
        if how == "vouched for":
            chosen = _signed(chosen, given, log)
        dealt = deal(log, given.topics, chosen, how, asked.actor or given.actor)
    return _tell(how, dealt, why_not, as_json=as_json)


def _why_not(how: How, record: Record, given: Settings) -> str:
    """Why this cannot be done with a letter; empty where it can."""
    from ..telling.dealing import why_not_sent_back
    from ..telling.vouching import why_not_vouched

    if how == "dropped":
        return ""
    why = why_not_sent_back(record, given.topics)
    return why or (why_not_vouched(record) if how == "vouched for" else "")


def _signed(letters: list[Record], given: Settings, log: Log) -> list[Record]:
    """These letters under signatures by this keyring's keys; `NoKey` where it has none for one of them.

    Where everybody is believed they may go without: that is said.
    """
    from ..identity import identity_of
    from ..telling.text import counted
    from ..telling.vouching import is_signed, vouched
    from .output import note

    identity = identity_of(given, log)
    signed = [vouched(record, given.topics, identity) for record in letters]
    bare = sum(not is_signed(record) for record in signed)
    if bare:
        note(
            f"WAKEFUL_INSECURE=1 is set and no key here signs for {counted(bare, 'letter')}: sent unsigned, and let in only "
            "where processors believe everybody; 'wakeful keys new' makes keys"
        )
    return signed


def _ask(how: How, count: int, *, yes: bool) -> None:
    """Goes on where a person says yes, or there is nothing to be done."""
    from ..telling.text import counted

    if yes or not count:
        return
    doing = {"redriven": "send back", "vouched for": "vouch for and send back"}.get(how, "drop")
    if not sys.stdin.isatty():
        raise Stopped(
            Exit.USAGE,
            f"asked to {doing} {counted(count, 'letter')}, and nobody can confirm it here: give --yes",
        )
    typer.confirm(f"{doing} {counted(count, 'letter')}?", abort=True, err=True)


def _tell(how: How, dealt: Dealt, why_not: dict[str, str], *, as_json: bool) -> int:
    from ..telling.text import counted
    from .output import note, write_json

    code = Exit.REFUSED if why_not else Exit.DONE
    if as_json:
        before = {letter: _mark_json(mark) for letter, mark in dealt.before.items()}
        write_json({how: dealt.now, "before": before, "refused": why_not})
        return code
    for letter in dealt.now:
        typer.echo(letter)
    for letter, mark in dealt.before.items():
        note(f"{letter} was {_told(mark)}: nothing was done again")
    for letter, why in why_not.items():
        note(f"{letter} cannot be sent back: {why}")
    note(f"{counted(len(dealt.now), 'letter')} {how}")
    if how != "dropped" and dealt.now:
        note(
            "what its session has applied before is a repeat and changes nothing; what is not let in is a letter again"
        )
    return code


def _told(mark: Mark | None) -> str | None:
    from ..telling.text import when

    return None if mark is None else f"{mark.how} by {mark.by} at {when(mark.at_ms)}"


def _mark_json(mark: Mark | None) -> dict[str, Any] | None:
    return None if mark is None else {"how": mark.how, "by": mark.by, "at_ms": mark.at_ms}


def _row(record: Record, mark: Mark | None) -> dict[str, Any]:
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
        "handled": _mark_json(mark),
    }


def _command(record: Record) -> Any:
    from ...commands.wire import decode_command
    from ...events.errors import Undecodable
    from ..telling.words import as_json

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
