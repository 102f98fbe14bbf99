"""The runs of one home: what each leaves there, which are forgotten, and which was cut and is gone on with.

```
<home>/demo/<namespace>/
    asked             a digest of messages and flags, until the run is over
    cluster           the cluster that has its topics, until they are removed
    book.ndjson       the payment service's book
    papers/           letters and model calls
    logs/             what its processes said
    report.json
```
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from ...events.log.kafka import KafkaLog
from ...events.log.kafka_survey import topic_names
from ...projections.database import drop
from ..settings import Settings
from .console import Beside
from .messages import Incoming
from .papers import Papers
from .refund_desk.shop import Shop
from .report import Promises

ASKED, CLUSTER = "asked", "cluster"
LOST_ANSWERS = 0.2
LATE_MS = 1_200
SLOW_MS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the demo was asked for; `own` says that the messages are its own."""

    calm: bool = False
    ask: bool = False
    dedupe: bool = False
    late_commit: bool = False
    console: Beside = Beside.OFF
    own: bool = True

    @property
    def payment_flags(self) -> list[str]:
        """How the payment service behaves."""
        flags = ["--slow", str(SLOW_MS)]
        if self.late_commit:
            flags += ["--late", str(LOST_ANSWERS), "--late-ms", str(LATE_MS)]
        elif not self.calm:
            flags += ["--drop", str(LOST_ANSWERS)]
        return flags + (["--dedupe"] if self.dedupe else [])

    @property
    def promises(self) -> Promises:
        """What is promised of such a run. A service that honours keys may do without look-ups."""
        return Promises(
            kills_min=0 if self.calm else 2,
            recovered_min=int(self.own and not self.dedupe and (self.late_commit or not self.calm)),
            seconds_max=120.0
            if self.own and not self.ask and self.console is not Beside.YOURS
            else None,
        )

    def digest(self, messages: Sequence[Incoming]) -> str:
        """Equal for runs that were asked for the same."""
        asked = json.dumps([asdict(self), [asdict(message) for message in messages]])
        return hashlib.sha256(asked.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Run:
    """One run: its namespace is its folder's name. `resumed` says that it was cut before."""

    settings: Settings
    resumed: bool = False

    @property
    def papers(self) -> Papers:
        """Letters and model calls."""
        return Papers(self.settings.home / "papers")

    @property
    def book(self) -> Path:
        """The payment service's book."""
        return self.settings.home / "book.ndjson"

    @property
    def shop(self) -> Shop:
        """The orders."""
        return Shop(self.settings.postgres_url, f"{self.settings.namespace}_shop")

    def begin(self, asked: str) -> None:
        """Notes what was asked for, and where."""
        self.papers.prepare()
        cluster = self.settings.cluster_id or ""
        (self.settings.home / CLUSTER).write_text(cluster, encoding="utf-8")
        (self.settings.home / ASKED).write_text(asked, encoding="utf-8")

    def end(self) -> None:
        """It will not be gone on with; a repeat changes nothing."""
        (self.settings.home / ASKED).unlink(missing_ok=True)

    def remove(self) -> None:
        """Removes topics, views, orders and caches; papers, book and report stay. A repeat changes nothing."""
        settings = self.settings
        with KafkaLog(settings.kafka_servers, client_id=f"{settings.namespace}.demo") as log:
            log.delete_topics(topic_names(settings.kafka_servers, f"{settings.namespace}."))
        drop(settings.postgres_url, settings.namespace)
        self.shop.drop()
        shutil.rmtree(settings.home / "processors", ignore_errors=True)
        (settings.home / CLUSTER).unlink(missing_ok=True)
        self.end()


def new_run(settings: Settings) -> Run:
    """A run that nobody has seen before."""
    return Run(_own(settings, f"demo-{secrets.token_hex(3)}"))


def earlier_runs(settings: Settings) -> list[Run]:
    """The runs whose topics this cluster may still have."""
    marks = sorted((settings.home / "demo").glob(f"demo-*/{CLUSTER}"))
    here = settings.cluster_id or ""
    names = [mark.parent.name for mark in marks if mark.read_text(encoding="utf-8") == here]
    return [Run(_own(settings, name), resumed=True) for name in names]


def cut_run(runs: Sequence[Run], asked: str) -> Run | None:
    """The one that was asked for the same and has not ended, the last one if there are several."""
    marks = [(run.settings.home / ASKED, run) for run in runs]
    cut = [(mark, run) for mark, run in marks if mark.exists() and mark.read_text() == asked]
    return max(cut, key=lambda one: one[0].stat().st_mtime)[1] if cut else None


def _own(settings: Settings, namespace: str) -> Settings:
    home = settings.home / "demo" / namespace
    return settings.model_copy(update={"namespace": namespace, "home": home})
