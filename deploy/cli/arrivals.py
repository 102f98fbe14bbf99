"""`signal` and `session start-turn`: what reaches a session besides messages."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..exits import Exit, Stopped
from .asking import Actor, Detach, ExpectedSeq, SessionId, Timeout, Wait, named
from .context import AsJson


def signal(
    session_id: SessionId,
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the agent waits for.")],
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="JSON", help="What to hand it; '-' reads it from stdin. (default: null)"
        ),
    ] = None,
    *,
    data_option: Annotated[
        str | None, typer.Option("--data", metavar="JSON", help="The same, as an option.")
    ] = None,
    signal_id: Annotated[
        str | None,
        typer.Option(help="Your id of the signal: a repeat changes nothing.", callback=named),
    ] = None,
    expected_seq: ExpectedSeq = None,
    actor: Actor = None,
    wait: Wait = False,
    timeout: Timeout = 60.0,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Send a signal: the turn that asks for this name gets it, now or later.

    With --wait, stop when it was taken and the session rests.
    """
    from ...commands import inputs
    from .asking import ask_and_tell

    inputs.name("signal", name)
    value = data_of_signal(data, data_option)
    return ask_and_tell(
        session_id,
        lambda client: client.signal(session_id, name, value, signal_id, expected_seq=expected_seq),
        actor=actor,
        detach=detach,
        wait=wait,
        timeout=timeout,
        follow_message=True,
        as_json=as_json,
        done=f"received: a turn that asks for {name!r} gets it",
    )


def start_turn(
    session_id: SessionId,
    *,
    trigger: Annotated[
        str, typer.Option(metavar="KIND", help="The kind of occasion, such as schedule.")
    ],
    reason: Annotated[str, typer.Option(help="The occasion in words, for the record.")] = "",
    data: Annotated[
        str, typer.Option(metavar="JSON", help="What to hand the turn; '-' reads it from stdin.")
    ] = "null",
    trigger_id: Annotated[
        str | None,
        typer.Option(help="Your id of the occasion: a repeat changes nothing.", callback=named),
    ] = None,
    expected_seq: ExpectedSeq = None,
    actor: Actor = None,
    wait: Wait = False,
    timeout: Timeout = 60.0,
    detach: Detach = False,
    as_json: AsJson = False,
) -> int:
    """Start a turn without a message; it queues behind the turn that runs."""
    from ...commands import inputs
    from . import typed
    from .asking import ask_and_tell

    inputs.trigger(trigger)
    value = typed.json_value("--data", data)
    return ask_and_tell(
        session_id,
        lambda client: client.start_turn(
            session_id, trigger, reason, value, trigger_id, expected_seq=expected_seq
        ),
        actor=actor,
        detach=detach,
        wait=wait,
        timeout=timeout,
        follow_message=True,
        as_json=as_json,
        done="received: a turn starts when the session is free",
    )


def data_of_signal(argument: str | None, option: str | None) -> Any:
    """The data of a signal, as an argument or as `--data`; null where it is neither."""
    from . import typed

    if argument is not None and option is not None:
        raise Stopped(
            Exit.USAGE, f"the data is given twice, as {argument!r} and as --data: give it once"
        )
    if option is not None:
        return typed.json_value("--data", option)
    return typed.json_value("the data of the signal", "null" if argument is None else argument)
