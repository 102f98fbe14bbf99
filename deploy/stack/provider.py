"""What the stack asks of whoever provides a service, whether native, in Docker or elsewhere."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from .records import Record

READY_LIMIT_S = 40.0  # with what may follow, a service that fails is reported in under 60 s


@dataclass(frozen=True, slots=True)
class Place:
    """Where a stack lives and what it was told: all that a provider may know of it."""

    home: Path
    environ: Mapping[str, str]
    cluster_id: str
    # called as soon as something runs, before it is ready: a stack forgets nothing that it started
    remember: Callable[[Record], None]

    def port_wanted(self, service: str) -> str | None:
        """Return the port that the environment fixes for a service, if it does."""
        return self.environ.get(f"WAKEFUL_{service.upper()}_PORT")


class Provider(Protocol):
    """Gives one service. Each method may be repeated."""

    @property
    def name(self) -> str:
        """What the records call it: native, docker or external."""
        ...

    @property
    def service(self) -> str:
        """Which service it gives."""
        ...

    def start(self, place: Place, before: Record | None) -> Record:
        """Start the service, on the port and data it had `before`; return when it is ready."""
        ...

    def is_alive(self, record: Record) -> bool:
        """Tell whether what the record speaks of still runs."""
        ...

    def signal(self, record: Record, number: int) -> bool:
        """Signal the service itself; tell whether it was there to hear it."""
        ...

    def stop(self, record: Record) -> None:
        """End the service and keep its data."""
        ...

    def remove(self, record: Record) -> None:
        """Remove the data of a service that was stopped."""
        ...
