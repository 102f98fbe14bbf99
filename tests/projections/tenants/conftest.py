"""A database with rows of three tenants, and a login for one of them."""

import os
import random
from contextlib import contextmanager

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import make_conninfo

from wakeful.events import records as r
from wakeful.events.attributes import attributes_of
from wakeful.events.codec import decode_event
from wakeful.projections import logins
from wakeful.projections.database import drop, install
from wakeful.projections.postgres import PostgresViews
from wakeful.projections.projector import Projector
from wakeful.projections.rows import TABLES
from wakeful.projections.schemas import Schemas
from wakeful.projections.stretches import APART

from ..conftest import ListReader, Scribe, finish

NAMESPACE = "apart"
SCHEMAS = Schemas(NAMESPACE)
MINE, THEIRS = "t0", "t1"

ANN, BOB, EVE, KIM, LEE = (f"{name}{os.getpid()}" for name in ("ann", "bob", "eve", "kim", "lee"))
"""Logins belong to the server, and tests of another process use it, too."""
DENIED = psycopg.errors.InsufficientPrivilege
NO_TABLE = (psycopg.errors.WrongObjectType, psycopg.errors.ObjectNotInPrerequisiteState)
"""What is told of a view that nobody can write."""

REFUSED = r.CommandRefused("SendMessage", "ordering", "too_old", "send it anew")

_RELATIONS = """
SELECT n.nspname, c.relname, c.relkind::text, EXISTS (
    SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname = 'tenant')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE starts_with(n.nspname, %s) AND c.relkind NOT IN ('i', 'c', 'I') ORDER BY 1, 2
"""


def decode(record):
    return decode_event(record.value, record.headers)


@pytest.fixture(scope="module")
def told():
    """Stories of three tenants, and a timer, a refusal and a far event for each, so that no table is empty for any."""
    scribe = Scribe()
    scribe.tell_many(20, random.Random(11))
    for tenant in (MINE, THEIRS):
        key = (tenant, "same-name")
        scribe.add(key, r.SessionOpened("desk", attributes_of({"customer": "ivo"})))
        scribe.add(key, r.ReplySent(1, 1, scribe.payload(f"secret of {tenant}")))
        scribe.add(key, REFUSED)
        for place in scribe.places:
            scribe.ends[place] += APART
        scribe.add(key, r.TimerSet("1.9", 1, 9, 1 << 42))
        scribe.add(key, r.JobAwaited("s1:1.8-0", 1, 8, "render", 1 << 42))
        said = scribe.payload("go")
        scribe.add(key, r.ChildStarted("s1:1.7-0", 1, 7, "researcher", said, 1 << 42))
        scribe.add(key, r.ResourceAttached("1.6", 1, 6, "sandbox", said, 1 << 42))
    scribe.commit()
    return scribe


@pytest.fixture(scope="module")
def filled(postgres_url, told):
    """The database's URL, with rows of all tenants, and with statistics as a database that runs has them."""
    install(postgres_url, NAMESPACE)
    loosen(postgres_url)
    project(postgres_url, told)
    archived(postgres_url)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("ANALYZE")
    yield postgres_url
    drop(postgres_url, NAMESPACE)


@pytest.fixture(scope="module")
def made(filled):
    return as_login(filled, ANN, logins.grant(filled, NAMESPACE, ANN, tenant=MINE))


@pytest.fixture
def ann(filled, made):
    """The URL of a login for one tenant, of which the database asks as little as it can."""
    loosen(filled)
    return made


def loosen(url):
    """Gives readers what this database would refuse them by itself: rows are to be kept apart even then."""
    with psycopg.connect(url) as connection:
        connection.execute(SCHEMAS.fill("GRANT USAGE ON SCHEMA {live}, {lock} TO {app}, {people}"))
        database = sql.Identifier(connection.info.dbname)
        granted = sql.SQL("GRANT TEMPORARY ON DATABASE {} TO ").format(database)
        connection.execute(granted + SCHEMAS.fill("{people}"))
        if connection.execute("SELECT FROM pg_event_trigger WHERE evtname = 'apart_sql'").rowcount:
            connection.execute(SCHEMAS.fill("ALTER EVENT TRIGGER {people} DISABLE"))


def project(url, told, namespace=NAMESPACE):
    views = PostgresViews(url, namespace)
    projector = Projector(ListReader(told), views, told.places, decode)
    finish(projector.steps(), lambda: projector.caught_up)
    views.close()


def archived(url):
    """A session of each tenant is in an archive."""
    insert = """
    INSERT INTO {lock}.archived (tenant, session_id, status, seq, finished_at_ms, archived_at, part)
    VALUES (%s, 'same-name-once', 'Failed', 9, 1, now(), 1)
    """
    with psycopg.connect(url) as connection:
        for tenant in (MINE, THEIRS):
            connection.execute(SCHEMAS.fill(insert), (tenant,))


def as_login(url, name, password):
    return make_conninfo(url, user=name, password=password)


@contextmanager
def asked_as(url, *before):
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in before:
            connection.execute(SCHEMAS.fill(statement))
        yield connection


def relations(url):
    with psycopg.connect(url) as connection:
        return connection.execute(_RELATIONS, (NAMESPACE,)).fetchall()


def tenanted(url):
    """Every table and view with a tenant, as SQL names it, but for the table of logins itself."""
    found = [
        sql.Identifier(schema, name).as_string()
        for schema, name, _, has_tenant in relations(url)
        if has_tenant and name != "logins"
    ]
    assert len(found) >= len(TABLES) + 7
    return found


def tenants_in(connection, relation):
    found = connection.execute(f"SELECT DISTINCT tenant FROM {relation}").fetchall()
    return {tenant for (tenant,) in found}
