"""Which faults are the database's, for those who may not import its driver: by shape, nobody's type is loaded for a look."""

from __future__ import annotations

NO_VIEWS = frozenset({"UndefinedTable", "InvalidSchemaName"})

SILENT = frozenset({"OperationalError", "ConnectionTimeout", "AdminShutdown", "CannotConnectNow"})


def is_database(error: BaseException) -> bool:
    """Whether Postgres, or the way to it, said so."""
    return type(error).__module__.partition(".")[0] == "psycopg"


def has_no_views(error: BaseException) -> bool:
    """Whether the database has no views of this namespace yet."""
    kind = type(error).__name__
    no_role = kind == "InvalidParameterValue" and str(error).startswith("role ")
    return is_database(error) and (no_role or kind in NO_VIEWS)


def is_silent(error: BaseException) -> bool:
    """Whether the database did not answer; it may do so later."""
    return is_database(error) and type(error).__name__ in SILENT
