"""Is this database there, and may we use it?"""

from time import monotonic, sleep
from urllib.parse import urlsplit

import psycopg
from psycopg import conninfo, sql

RETRY_S = 0.05
CONNECT_LIMIT_S = 5  # for one try


class NotReadyError(Exception):
    """The database did not answer in time: the message carries its last word."""


def prove_ready(url: str, *, limit_s: float) -> str:
    """Return the server's version once a query has worked at `url`; raises NotReadyError."""
    limit = monotonic() + limit_s
    while True:
        try:
            with psycopg.connect(url, connect_timeout=CONNECT_LIMIT_S) as connection:
                row = connection.execute("SHOW server_version").fetchone()
                return str(row[0]) if row else ""
        except psycopg.Error as refused:
            if monotonic() > limit:
                raise NotReadyError(" ".join(str(refused).split())) from refused
            sleep(RETRY_S)


def create_database(url: str, name: str) -> str:
    """Make an empty database beside the one at `url` and return its address, in the same form."""
    with psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_LIMIT_S) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    if "://" in url:
        return urlsplit(url)._replace(path=f"/{name}").geturl()
    return conninfo.make_conninfo(url, dbname=name)


def drop_database(url: str, name: str) -> None:
    """Remove a database whoever is still connected to it. A repeat does nothing."""
    statement = sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
    with psycopg.connect(url, autocommit=True, connect_timeout=CONNECT_LIMIT_S) as connection:
        connection.execute(statement)
