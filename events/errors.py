"""Everything Wakeful raises on purpose, by what happens next."""

from __future__ import annotations


class WakefulError(Exception):
    """The root; each error may carry the session, offset and event it is about.

    ```
    WakefulError
    ├── Rejected             the caller's: never retried as it is
    │   ├── InvalidKey       a tenant, session id or key that cannot be one
    │   ├── PayloadTooLarge  more bytes than one record may carry
    │   ├── InvalidPayload   a value that has no JSON form, or bytes that are not what they say
    │   ├── BlobMissing      a reference to what is not in the store; right again once it is put back
    │   └── Undecodable      stored bytes that are not a record; they go to the dead letters
    ├── Transient            retried with a bound
    │   └── BlobUnavailable  the store did not answer, or cannot be spoken to
    └── Corrupt              an invariant is broken: stop, page a person
        └── BlobDamaged      a blob that is not what its reference says
    ```
    """

    def __init__(
        self,
        message: str,
        *,
        session: str | None = None,
        offset: int | None = None,
        event_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.session = session
        self.offset = offset
        self.event_id = event_id

    def __str__(self) -> str:
        about = (("session", self.session), ("offset", self.offset), ("event", self.event_id))
        told = ", ".join(f"{name} {value}" for name, value in about if value is not None)
        return f"{self.message} ({told})" if told else self.message


class OwnSignal(BaseException):
    """Ends something of ours from inside user code: whoever catches all that user code may raise lets it through."""


class Rejected(WakefulError):
    """The caller's to fix; the same input will be refused again."""


class Transient(WakefulError):
    """May work when tried again; whoever retries has a bound."""


class Corrupt(WakefulError):
    """What is stored contradicts itself; nothing is written until a person has looked."""


class InvalidKey(Rejected):
    """A tenant, session id or record key that is not one."""


class InvalidPayload(Rejected):
    """A value that JSON cannot hold, or stored bytes that do not match what is said of them."""


class PayloadTooLarge(Rejected):
    """More bytes than one record, or a blob, may carry; `size` and `limit` are in bytes."""

    def __init__(
        self,
        what: str,
        *,
        size: int,
        limit: int,
        advice: str = "store it elsewhere and pass a reference",
    ) -> None:
        super().__init__(f"{what} is {size} bytes and the limit is {limit}: {advice}")
        self.size = size
        self.limit = limit
        self.advice = advice


class BlobMissing(Rejected):
    """A reference to what is not in the store."""


class BlobUnavailable(Transient):
    """Whether the store has it cannot be told now: no answer, no access, no store, or no driver for it."""


class BlobDamaged(Corrupt):
    """A blob, or a reference, that is not what the record says: size, digest or name differ."""


class Undecodable(Rejected):
    """Bytes that are not a record we know; `reason` is one word for counters, `detail` a sentence."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


class Unfoldable(Exception):
    """An event cannot follow a state under this code; its session is held until code that can fold it is deployed.

    Not a `WakefulError`: nobody outside of the fold sees it.
    """
