"""What can go wrong between a model and its answer, and the evidence that a failed attempt leaves in the log."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter, ValidationError

from ...events.errors import Rejected, Transient, WakefulError
from ...events.records import Failure

PUBLIC = "wakeful.agents"
"""The module that users import, and that a recorded failure's `type` begins with."""

EVIDENCE = "evidence: "
"""What the last line of a failure's detail begins with."""

PARTIAL_CHARACTERS = (2_000, 1_000, 400, 200)
"""How much of a partial answer's end is kept: the first that fits. The last always does, however it is escaped."""

EVIDENCE_BYTES_MAX = 3_000
"""Of the 4,096 bytes of a failure's detail, whose end is kept where it is too long."""

NAME_CHARACTERS_MAX = 100


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an attempt had heard before it failed; `partial` is its end where it is long, `characters` counts all.

    An endpoint may count tokens only at the end of its stream; then `chunks` is the least that was paid for.
    """

    model: str
    partial: str = ""
    characters: int = 0
    chunks: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    retry_after_ms: int | None = None


_EVIDENCE = TypeAdapter(Evidence)


class ModelFailed(WakefulError):
    """The root of the port's failures. A workflow sees `ActivityError` with these names in `failure.type`.

    ```
    ModelFailed
    ├── StreamCut        part of an answer came, or none, and then no more
    ├── RateLimited      the endpoint wants fewer requests; `retry_after_ms` where it says when
    ├── EndpointFailed   the endpoint answered, and it was its own fault
    ├── Unreachable      no answer at all
    ├── Unreadable       bytes that are not the protocol
    ├── EmptyAnswer      a whole answer without a word
    ├── Refused          the model declined, or a filter did; the same question will be declined again
    ├── RequestRejected  the endpoint declined the request: key, model name, size, quota
    └── ClientMissing    the client library is not installed here
    ```
    The first six are transient, the last three are not.
    """

    __module__ = PUBLIC

    def __init__(self, message: str, *, retry_after_ms: int | None = None) -> None:
        super().__init__(message)
        self.retry_after_ms = retry_after_ms
        self.evidence: Evidence | None = None

    def leave(self, evidence: Evidence) -> None:
        """Keeps the evidence, also as the last line of the traceback: that is how it gets into the log."""
        self.evidence = evidence
        self.__notes__ = [EVIDENCE + _written(evidence)]


class StreamCut(ModelFailed, Transient):
    """The stream ended before the answer did; the next attempt begins from nothing."""

    __module__ = PUBLIC


class RateLimited(ModelFailed, Transient):
    """Too many requests or tokens for now."""

    __module__ = PUBLIC


class EndpointFailed(ModelFailed, Transient):
    """The endpoint is overloaded or broken."""

    __module__ = PUBLIC


class Unreachable(ModelFailed, Transient):
    """No connection, or no first byte in time."""

    __module__ = PUBLIC


class Unreadable(ModelFailed, Transient):
    """The endpoint said something that its protocol does not know."""

    __module__ = PUBLIC


class EmptyAnswer(ModelFailed, Transient):
    """The answer is complete, and nothing but space."""

    __module__ = PUBLIC


class Refused(ModelFailed, Rejected):
    """The model, or a filter before it, would not answer."""

    __module__ = PUBLIC


class RequestRejected(ModelFailed, Rejected):
    """The endpoint will not take this request, however often it is sent."""

    __module__ = PUBLIC


class ClientMissing(ModelFailed, Rejected):
    """The adapter's client library is not installed."""

    __module__ = PUBLIC


FINAL = tuple(f"{PUBLIC}.{kind.__qualname__}" for kind in (Refused, RequestRejected, ClientMissing))
"""The `failure.type`s after which asking again is of no use."""


def evidence_of(failure: Failure) -> Evidence | None:
    """The evidence in a recorded failure, for a workflow that books tokens; null where there is none."""
    last = failure.detail.rstrip("\n").rpartition("\n")[2]
    if not last.startswith(EVIDENCE):
        return None
    try:
        return _EVIDENCE.validate_json(last.removeprefix(EVIDENCE))
    except ValidationError:
        return None  # the last words of some other tool's exception


def _written(evidence: Evidence) -> str:
    """One line of ASCII, at most `EVIDENCE_BYTES_MAX` long; halves of characters, which models do send, become '?'."""
    values = asdict(evidence)
    values["model"] = evidence.model[:NAME_CHARACTERS_MAX]
    for characters in PARTIAL_CHARACTERS:
        end = evidence.partial[-characters:]
        values["partial"] = end.encode("utf-8", "replace").decode("utf-8")
        written = json.dumps(values)
        if len(written) <= EVIDENCE_BYTES_MAX:
            return written
    return json.dumps(values | {"model": ""})
