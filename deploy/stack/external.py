"""Services that run elsewhere, at the URLs of the environment: checked, never started or ended."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from ...events.log import probe as kafka_probe
from ...projections import probe as postgres_probe
from .errors import StackError
from .native_valkey import ping
from .provider import Place
from .records import Record
from .waiting import NotReadyYetError

REACH_LIMIT_S = 10.0


@dataclass(frozen=True, slots=True)
class External:
    """One service at a URL."""

    service: str
    url: str
    name: str = "external"

    def start(self, place: Place, before: Record | None) -> Record:
        """Prove that the service answers, and that a broker is the one it was before."""
        found = Record(service=self.service, provider=self.name, address=self.url)
        try:
            if self.service == "kafka":
                cluster_id = kafka_probe.cluster_id(self.url, limit_s=REACH_LIMIT_S)
                _check_same(before, self.url, cluster_id)
                found = Record("kafka", self.name, self.url, cluster_id=cluster_id)
            elif self.service == "postgres":
                postgres_probe.prove_ready(self.url, limit_s=REACH_LIMIT_S)
            else:
                ping(self.url, REACH_LIMIT_S)
        except (
            kafka_probe.NotReadyError,
            postgres_probe.NotReadyError,
            NotReadyYetError,
        ) as refused:
            variable = f"WAKEFUL_{self.service.upper()}"
            raise StackError(
                f"cannot reach {variable}={without_password(self.url)} ({refused}): correct it, or "
                f"unset {variable} to have one started here"
            ) from refused
        place.remember(found)
        return found

    def is_alive(self, record: Record) -> bool:
        """What was reached at this URL counts as there; its user will notice when it is not."""
        return record.address == self.url

    def signal(self, record: Record, number: int) -> bool:
        """Refuse: it is not ours to signal."""
        raise StackError(
            f"{self.service} at {without_password(record.address)} was not started here: "
            f"it gets no signal ({number}) from here either"
        )

    def stop(self, record: Record) -> None:
        """Leave it alone."""

    def remove(self, record: Record) -> None:
        """Leave its data alone."""


def without_password(url: str) -> str:
    """Return a URL fit for eyes and logs."""
    if "://" not in url:
        return url
    parts = urlsplit(url)
    if parts.password is None:
        return url
    shown = parts.netloc.replace(f":{parts.password}@", ":***@")
    return parts._replace(netloc=shown).geturl()


def _check_same(before: Record | None, url: str, cluster_id: str) -> None:
    if before and before.address == url and before.cluster_id != cluster_id:
        raise StackError(
            f"the broker at {url} was cluster {before.cluster_id} and is now {cluster_id}: the "
            "state kept here belongs to the old one; run `wakeful reset` to begin anew"
        )
