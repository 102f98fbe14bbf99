"""Settings: read once from the environment, else from the running local stack; everything else is passed them.

| variable | what | default |
|---|---|---|
| `WAKEFUL_KAFKA` | bootstrap servers | the local stack's |
| `WAKEFUL_POSTGRES` | libpq URL | the local stack's |
| `WAKEFUL_REDIS` | Redis URL | the local stack's |
| `WAKEFUL_CLUSTER_ID` | the only cluster that is meant | the local stack's; another broker's is not checked |
| `WAKEFUL_BLOBS` | where payloads over 256 KiB lie: `file:///…`, `s3://…`; the same for all processes | with the local stack's Kafka: `blobs` in the home; else none |
| `WAKEFUL_NAMESPACE` | first part of topics' names, and schema in Postgres | `wakeful` |
| `WAKEFUL_TENANT` | whose sessions the command line speaks of | `local` |
| `WAKEFUL_ACTOR` | who speaks, in the record | the user's name |
| `WAKEFUL_HOME` | the folder of state and logs | `.wakeful` |
| `WAKEFUL_DIGEST_KEY` | key of all digests: 32 hex digits or more, or text of 16 bytes or more | one that everybody knows |
| `WAKEFUL_KEYS` | the keyring: the keys that commands are signed with, and believed by | `keys.json` in the home, where there is one |
| `WAKEFUL_INSECURE` | believe commands without looking at their signatures | 0 |
| `WAKEFUL_PARTITIONS` | partitions per topic, chosen once; 12 are the advice for production | 4 |
| `WAKEFUL_MIN_INSYNC_REPLICAS` | replicas that must have a record; 2 where brokers keep three, in production | 1 |
| `WAKEFUL_OPEN_POLICY` | while no policy is published, everybody may decide approvals: 0 or 1 | with the local stack's Kafka: 1; else 0 |
| `WAKEFUL_TENANT_QUOTA_COMMANDS` | what one tenant may ask of each partition, such as `100/s`, `6000/min`, `20/h`; see docs/operations.md | no limit |
| `WAKEFUL_TENANT_QUOTA_SESSIONS` | the same for new sessions | no limit |
| `WAKEFUL_WATCH_STALLED_AFTER` | how long a session may be overdue or stand still before a watcher tells, such as `5m` | 5m |
| `WAKEFUL_MODEL_PRICES` | what models cost per million tokens, read and written: `gpt-5=1.25/10,claude-*=3/15` | none: tokens are counted, no cost |
| `WAKEFUL_ALWAYS_REPLAY` | rebuild workflows before every activation (slow, strict) | 0 |
| `WAKEFUL_FAILPOINT` | `p.produced:3` kills the process there on the third pass | none |
| `WAKEFUL_LOG` | debug, info, warning or error | info |
| `WAKEFUL_LOG_FORMAT` | text or json | text |
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ..events.errors import InvalidKey
from ..events.keys import check_id
from ..events.topics import PARTITIONS_LOCAL, PARTITIONS_PRODUCTION, Topics
from ..processors.durations import to_ms
from ..processors.failpoints import Failpoints
from ..processors.rates import Rate
from ..processors.watchers.prices import Prices
from .exits import Exit, Stopped
from .home import KEYS_FILE

if TYPE_CHECKING:
    from ..processors.quotas import Quotas

PREFIX = "WAKEFUL_"

LOCAL_DIGEST_KEY = b"wakeful-local-digest-key"
"""Known to everybody: good for one machine, where the log itself is open, and for nothing else."""

DIGEST_KEY_BYTES_MIN = 16

PARTITIONS_MAX = 1_000

STALLED_AFTER_MIN_MS = 1_000
STALLED_AFTER_MAX_MS = 30 * 86_400_000

REPLICAS_MAX = 10
"""More copies of one record nobody keeps; a typo in it would stop every producer."""

_URL = re.compile(r"[a-z][a-z0-9+.:-]*://.", re.ASCII)

_HEX = re.compile(r"(?:[0-9a-fA-F]{2}){16,}")

_EXPECTED = {
    "partitions": f"a whole number from 1 to {PARTITIONS_MAX}; {PARTITIONS_PRODUCTION} are the advice for production",
    "min_insync_replicas": f"a whole number from 1 to {REPLICAS_MAX}",
    "tenant_quota_commands": "a rate such as 100/s, 6000/min or 20/h",
    "tenant_quota_sessions": "a rate such as 100/s, 6000/min or 20/h",
    "watch_stalled_after": "a duration from 1s to 30d, such as 90s, 5m or 2h",
    "always_replay": "0 or 1",
    "open_policy": "0 or 1",
    "insecure": "0 or 1",
    "blobs": "a URL such as file:///var/lib/wakeful/blobs or s3://bucket/blobs",
    "log": "debug, info, warning or error",
    "log_format": "text or json",
}


class Settings(BaseModel):
    """What the environment says. URLs are null where neither it nor a running stack gives one."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    kafka: str | None = None
    postgres: str | None = Field(default=None, repr=False)
    redis: str | None = Field(default=None, repr=False)
    cluster_id: str | None = None
    blobs: str | None = Field(default=None, repr=False)
    namespace: str = "wakeful"
    tenant: str = "local"
    actor: str = "operator"
    home: Path = Path(".wakeful")
    digest_key: bytes = Field(default=LOCAL_DIGEST_KEY, repr=False)
    keys: Path | None = None
    insecure: bool = False
    partitions: int = Field(default=PARTITIONS_LOCAL, ge=1, le=PARTITIONS_MAX)
    min_insync_replicas: int = Field(default=1, ge=1, le=REPLICAS_MAX)
    open_policy: bool = False
    tenant_quota_commands: str = ""
    tenant_quota_sessions: str = ""
    watch_stalled_after: str = "5m"
    model_prices: str = ""
    always_replay: bool = False
    failpoint: str = ""
    log: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["text", "json"] = "text"

    @field_validator("namespace")
    @classmethod
    def _namespace(cls, value: str) -> str:
        return _fitting(lambda: Topics(value).namespace)

    @field_validator("tenant")
    @classmethod
    def _tenant(cls, value: str) -> str:
        return _fitting(lambda: check_id("tenant", value))

    @field_validator("blobs")
    @classmethod
    def _blobs(cls, value: str | None) -> str | None:
        if value is not None and not _URL.match(value):
            raise ValueError("it is not a URL")
        return value

    @field_validator("failpoint")
    @classmethod
    def _failpoint(cls, value: str) -> str:
        Failpoints.from_text(value)
        return value

    @field_validator("tenant_quota_commands", "tenant_quota_sessions")
    @classmethod
    def _rate(cls, value: str) -> str:
        if value:
            Rate.from_text(value)
        return value

    @field_validator("watch_stalled_after")
    @classmethod
    def _stalled_after(cls, value: str) -> str:
        if not STALLED_AFTER_MIN_MS <= to_ms(value) <= STALLED_AFTER_MAX_MS:
            raise ValueError("it is out of range")
        return value

    @field_validator("model_prices")
    @classmethod
    def _model_prices(cls, value: str) -> str:
        Prices.from_text(value)
        return value

    @field_validator("digest_key", mode="before")
    @classmethod
    def _digest_key(cls, value: object) -> object:
        if isinstance(value, str):
            value = bytes.fromhex(value) if _HEX.fullmatch(value) else value.encode()
        if isinstance(value, bytes) and len(value) < DIGEST_KEY_BYTES_MIN:
            raise ValueError(
                f"it has {len(value)} bytes: give {DIGEST_KEY_BYTES_MIN} or more, as text or as hex digits"
            )
        return value

    @property
    def topics(self) -> Topics:
        """The names of this namespace's topics."""
        return Topics(self.namespace)

    @property
    def quotas(self) -> Quotas:
        """What one tenant may ask of each partition."""
        from ..processors.quotas import Quotas

        commands, sessions = (
            Rate.from_text(text) if text else None
            for text in (self.tenant_quota_commands, self.tenant_quota_sessions)
        )
        return Quotas(commands, sessions)

    @property
    def kafka_servers(self) -> str:
        """The broker's address; says what to do where there is none."""
        return self.kafka or self._missing("kafka")

    @property
    def postgres_url(self) -> str:
        """The database's address; says what to do where there is none."""
        return self.postgres or self._missing("postgres")

    @property
    def default_digest_key(self) -> bool:
        """Whether digests are keyed with what everybody knows."""
        return self.digest_key == LOCAL_DIGEST_KEY

    def to_environ(self) -> dict[str, str]:
        """The variables that give a child process exactly these settings, but for the crash point."""
        given: dict[str, object] = {
            "KAFKA": self.kafka,
            "POSTGRES": self.postgres,
            "REDIS": self.redis,
            "CLUSTER_ID": self.cluster_id,
            "BLOBS": self.blobs,
            "NAMESPACE": self.namespace,
            "TENANT": self.tenant,
            "ACTOR": self.actor,
            "HOME": self.home.absolute(),
            "DIGEST_KEY": self.digest_key.hex(),
            "KEYS": None if self.keys is None else self.keys.absolute(),
            "INSECURE": int(self.insecure),
            "PARTITIONS": self.partitions,
            "MIN_INSYNC_REPLICAS": self.min_insync_replicas,
            "OPEN_POLICY": int(self.open_policy),
            "TENANT_QUOTA_COMMANDS": self.tenant_quota_commands or None,
            "TENANT_QUOTA_SESSIONS": self.tenant_quota_sessions or None,
            "WATCH_STALLED_AFTER": self.watch_stalled_after,
            "MODEL_PRICES": self.model_prices or None,
            "ALWAYS_REPLAY": int(self.always_replay),
            "LOG": self.log,
            "LOG_FORMAT": self.log_format,
        }
        return {PREFIX + name: str(value) for name, value in given.items() if value is not None}

    def _missing(self, service: str) -> NoReturn:
        stopped = (self.home / "stack.json").exists()
        what = f"{service} of the stack in {self.home} is stopped"
        raise Stopped(
            Exit.UNAVAILABLE,
            f"{what if stopped else f'no stack is running in {self.home}'}: run 'wakeful up', "
            f"or set {PREFIX}{service.upper()}",
        )


def load_settings(environ: Mapping[str, str]) -> Settings:
    """Settings from these variables; what a running stack knows fills in the URLs that are not given.

    Raises `Stopped` naming the variable, its value and what it should be. An empty variable counts as not set.
    """
    given: dict[str, Any] = {
        name: environ[variable]
        for name in Settings.model_fields
        if environ.get(variable := PREFIX + name.upper())
    }
    given.setdefault("actor", _user())
    settings = _checked(given)
    if settings.keys is None and (own := settings.home / KEYS_FILE).exists():
        given["keys"] = own.absolute()
        settings = _checked(given)
    if settings.kafka and settings.postgres and settings.redis:
        return settings
    return _with_stack(settings, given, environ)


def _checked(given: dict[str, Any]) -> Settings:
    try:
        return Settings(**given)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)[0]
        name = str(found["loc"][0])
        value = "(not shown)" if name == "digest_key" else str(given[name])[:100]
        told = _EXPECTED.get(name)
        why = f"expected {told}" if told else found["msg"].removeprefix("Value error, ")
        raise Stopped(Exit.USAGE, f"{PREFIX}{name.upper()}={value}: {why}") from None


def _fitting(check: Callable[[], str]) -> str:
    try:
        return check()
    except InvalidKey as error:
        raise ValueError(error.message) from error


def _with_stack(settings: Settings, given: dict[str, Any], environ: Mapping[str, str]) -> Settings:
    from .stack import Stack, StackError

    try:
        stack = Stack(settings.home, environ=environ)
        filled: dict[str, Any] = dict(stack.addresses())
        cluster_id = stack.cluster_id()
    except StackError as error:
        raise Stopped(Exit.UNAVAILABLE, str(error)) from error
    if settings.kafka in (None, filled.get("kafka")):
        if cluster_id:
            filled["cluster_id"] = cluster_id
        filled["open_policy"] = True
        filled["blobs"] = (settings.home.absolute() / "blobs").as_uri()
    return _checked({**filled, **given})


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container's user without a name
        return "operator"
