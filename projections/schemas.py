"""The names of a namespace in Postgres: its schemas and its roles, put into statements. No connection is opened here."""

from __future__ import annotations

import re
from functools import cached_property
from importlib import resources

from psycopg import sql

from ..events.errors import InvalidKey
from ..events.topics import NAMESPACE

SETTING = "wakeful.tenant"
"""What a trusted service sets, for one transaction, to the tenant for whom it asks."""

FOR_TENANT = f"SELECT set_config('{SETTING}', %s, true)"
"""For this transaction only: a connection that is used again has no tenant."""

VERSION = 9
"""Of the rows. Another one is filled beside this one, then the views are switched."""

NAME_MAX = 58
"""Postgres cuts names at 63 bytes without a word; the version's suffix needs some."""

_TAKEN = re.compile(r"pg_.*|public|information_schema|.*_v[0-9]+b?|.*_lock")

_VIEW = re.compile(r"^CREATE OR REPLACE VIEW \{views\}\.(\w+)", re.MULTILINE)


class Schemas:
    """The schemas of a namespace: `views` is what people query, `tables` has the rows, or those `beside` them.

    `lock` has what no reader may name: locks, see `exclusion`, and what was archived. Its roles are `owner`, `app` and `people`: see `tenants`.
    """

    def __init__(self, namespace: str, *, beside: bool = False) -> None:
        if (
            NAMESPACE.fullmatch(namespace) is None
            or len(namespace) > NAME_MAX
            or _TAKEN.fullmatch(namespace)
        ):
            raise InvalidKey(
                f"namespace {namespace!r} cannot name a schema: use up to {NAME_MAX} of a-z 0-9 . _ -, "
                "not starting with 'pg_', not 'public', and not ending like a version ('_v1') or in '_lock'"
            )
        self.views = namespace
        self.live = f"{namespace}_v{VERSION}"
        self.beside = f"{self.live}b"
        self.tables = self.beside if beside else self.live
        self.older = tuple(f"{namespace}_v{n}{b}" for n in range(1, VERSION) for b in ("", "b"))
        self.lock = f"{namespace}_lock"
        self.owner = f"{namespace}_own"
        self.app = f"{namespace}_app"
        self.people = f"{namespace}_sql"
        self.roles = {"owner": self.owner, "app": self.app, "people": self.people}
        self.channel = f"{namespace}.moved"
        self.listen = sql.SQL("LISTEN {}").format(sql.Identifier(self.channel))
        self.moved_notice = sql.SQL("SELECT pg_notify({}, '')").format(sql.Literal(self.channel))

    def fill(self, template: str) -> sql.Composed:
        """A statement with `{tables}`, `{live}`, `{beside}`, `{views}`, `{lock}` and the roles in place."""
        names = {
            "{tables}": self.tables,
            "{live}": self.live,
            "{beside}": self.beside,
            "{views}": self.views,
            "{lock}": self.lock,
            **{f"{{{name}}}": role for name, role in self.roles.items()},
        }
        parts = re.split(r"(\{[a-z]+\})", template)
        return sql.Composed(
            [sql.Identifier(names[part]) if part in names else sql.SQL(part) for part in parts]
        )

    def script(self, name: str) -> sql.Composed:
        """One of the files of statements beside this module."""
        return self.fill(script_text(name))

    @cached_property
    def view_names(self) -> tuple[str, ...]:
        """The views of `views.sql`."""
        return tuple(_VIEW.findall(script_text("views.sql")))


def script_text(name: str) -> str:
    """A file of statements beside this module, as it is written."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")
