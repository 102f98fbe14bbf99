"""What an assistant may ask over MCP, in the user's name: the same questions and commands as on the command line.

Each call opens what it needs and closes it: a server that waits for days on somebody's desk holds no connection. The
tenant, the actor and the keys are those of the environment; no argument names another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from ..mcp.serving import Arguments, ServedTool
from ..telling.statuses import StatusName

if TYPE_CHECKING:
    from ..settings import Settings

ROWS_MAX = 50

CHANNEL = "mcp"
"""How commands came in, in the record: policy and auditors can tell them from those that a person typed."""

ALLOWED = ("decide", "send")

SessionId = Annotated[str, Field(description="The session's id.", max_length=512)]
Limit = Annotated[int, Field(ge=1, le=ROWS_MAX, description="Rows at most.")]


class Sessions(Arguments):
    """Arguments of `list_sessions`."""

    status: StatusName | None = None
    limit: Limit = 20


class Search(Arguments):
    """Arguments of `search_sessions`."""

    attributes: Annotated[
        list[str],
        Field(min_length=1, max_length=2, description="One or two, as name=value."),
    ]
    status: StatusName | None = None
    limit: Limit = 20


class Session(Arguments):
    """Arguments of `show_session`."""

    session_id: SessionId
    events: Annotated[int, Field(ge=0, le=ROWS_MAX, description="How many of its last.")] = 10


class Explained(Arguments):
    """Arguments of `explain_session`."""

    session_id: SessionId
    turns: Annotated[int, Field(ge=1, le=20, description="The last so many turns.")] = 3


class Ledger(Arguments):
    """Arguments of `read_ledger`."""

    session_id: SessionId | None = None
    status: (
        Literal[
            "requested", "retrying", "withheld", "completed", "failed", "uncertain", "cancelled"
        ]
        | None
    ) = None
    limit: Limit = 20


class Approvals(Arguments):
    """Arguments of `list_approvals`."""

    session_id: SessionId | None = None
    limit: Limit = 20


class Decision(Arguments):
    """Arguments of `decide_approval`."""

    session_id: SessionId
    proposal_id: Annotated[str, Field(max_length=512)]
    digest: Annotated[
        str,
        Field(
            pattern="^([0-9a-f]{2})+$",
            max_length=128,
            description="Of the action that was shown, as list_approvals has it: nothing else is decided.",
        ),
    ]
    decision: Literal["approve", "reject"]
    comment: Annotated[str, Field(max_length=2_000)] = ""


class Message(Arguments):
    """Arguments of `send_message`."""

    session_id: SessionId
    text: Annotated[str, Field(min_length=1, max_length=20_000)]
    message_id: Annotated[
        str, Field(min_length=1, max_length=128, description="Yours: a repeat changes nothing.")
    ]


def tools_of(given: Settings, allowed: frozenset[str]) -> list[ServedTool]:
    """The tools that read, and those that are allowed of the others."""
    asking = Assistance(given)
    tools = [
        ServedTool(
            "list_sessions",
            "Lists sessions, the one with the latest event first: status, what each waits for.",
            Sessions,
            asking.sessions,
        ),
        ServedTool(
            "search_sessions",
            "Finds sessions by their attributes, such as customer=ivo.",
            Search,
            asking.search,
        ),
        ServedTool(
            "show_session",
            "Shows where a session stands: status, waits, open approvals, doubts, last events.",
            Session,
            asking.session,
        ),
        ServedTool(
            "explain_session",
            "Tells a session's story: what happened, what it waits for and since when, what may come next.",
            Explained,
            asking.explained,
        ),
        ServedTool(
            "read_ledger",
            "Lists the consequential steps that were taken, the newest last: who approved each, how it ended.",
            Ledger,
            asking.ledger,
        ),
        ServedTool(
            "list_approvals",
            "Lists proposals that wait for somebody's decision, with what would be done.",
            Approvals,
            asking.approvals,
        ),
    ]
    if "decide" in allowed:
        about = "Approves or rejects one proposal, in the user's name. Ask the user before."
        tools.append(ServedTool("decide_approval", about, Decision, asking.decide, writes=True))
    if "send" in allowed:
        about = "Sends a message to a session, in the user's name."
        tools.append(ServedTool("send_message", about, Message, asking.send, writes=True))
    return tools


class Assistance:
    """The answers, with these settings."""

    def __init__(self, given: Settings) -> None:
        self._given = given

    def sessions(self, asked: Sessions) -> list[dict[str, Any]]:
        """Rows of sessions."""
        return self._sessions(asked.status, None, asked.limit)

    def search(self, asked: Search) -> list[dict[str, Any]]:
        """Rows of sessions with these attributes."""
        from ...events import attributes

        return self._sessions(asked.status, attributes.wanted(asked.attributes), asked.limit)

    def session(self, asked: Session) -> dict[str, Any]:
        """One session, and what was in the way of telling it as of now."""
        from .showing import find_session

        found = find_session(self._given, asked.session_id, events_max=asked.events)
        return {
            **_row(found.row),
            "approvals": [_row(one) for one in found.approvals],
            "uncertain": [_row(one) for one in found.uncertain],
            "events": found.events,
            "notes": found.notes,
        }

    def explained(self, asked: Explained) -> dict[str, Any]:
        """One session in words."""
        from .explaining import told_of

        told, notes = told_of(self._given, asked.session_id)
        return {**told, "story": told["story"][-asked.turns :], "notes": notes}

    def ledger(self, asked: Ledger) -> list[dict[str, Any]]:
        """Rows of steps."""
        from .context import check_session, queries

        with queries(self._given) as views:
            rows = views.newest_steps(
                tenant=self._given.tenant,
                session_id=asked.session_id,
                status=asked.status,
                since=None,
                limit=asked.limit,
            )
            if asked.session_id is not None and not rows:
                check_session(self._given, views, asked.session_id)
        return [_row(row) for row in rows]

    def approvals(self, asked: Approvals) -> list[dict[str, Any]]:
        """Rows of open proposals."""
        from .context import check_session, queries

        with queries(self._given) as views:
            rows = views.approvals(
                tenant=self._given.tenant,
                session_id=asked.session_id,
                status="requested",
                limit=asked.limit,
            )
            if asked.session_id is not None and not rows:
                check_session(self._given, views, asked.session_id)
        return [_row(row) for row in rows]

    def decide(self, asked: Decision) -> dict[str, Any]:
        """What became of the decision."""
        from .asking import answer_json, ask

        answer = ask(
            self._given,
            asked.session_id,
            lambda client: client.decide(
                asked.session_id, asked.proposal_id, asked.digest, asked.decision, asked.comment
            ),
            approves=asked.proposal_id if asked.decision == "approve" else None,
            channel=CHANNEL,
        )
        return answer_json(answer)

    def send(self, asked: Message) -> dict[str, Any]:
        """What became of the message."""
        from .asking import answer_json, ask

        answer = ask(
            self._given,
            asked.session_id,
            lambda client: client.send(asked.session_id, asked.text, asked.message_id),
            channel=CHANNEL,
        )
        return answer_json(answer)

    def _sessions(self, status: str | None, term: str | None, limit: int) -> list[dict[str, Any]]:
        from .context import queries

        with queries(self._given) as views:
            rows = views.sessions(tenant=self._given.tenant, status=status, term=term, limit=limit)
        return [_row(row) for row in rows]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """Without columns that are there to be indexed, and what is empty: a model reads each word."""
    return {
        name: value
        for name, value in row.items()
        if name not in ("tenant", "waits")
        and not name.endswith("_at_ms")
        and value not in (None, [], {}, "")
    }
