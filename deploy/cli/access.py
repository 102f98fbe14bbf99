"""`access`: logins for people who ask in SQL, each for one tenant and read-only."""

from __future__ import annotations

from typing import Annotated

import typer

from ..exits import Exit
from .context import POSTGRES_LIMIT_S, AsJson, settings

app = typer.Typer(help="Logins for SQL, each for one tenant.", no_args_is_help=True)

LoginName = Annotated[str, typer.Argument(metavar="LOGIN", help="The login's name in Postgres.")]


@app.command("grant")
def grant(
    name: LoginName,
    *,
    tenant: Annotated[
        str | None,
        typer.Option("--tenant", help="Whose rows it is shown; WAKEFUL_TENANT if not given."),
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Make a login that may read the views of one tenant, and nothing else; its URL is shown this once."""
    from ...projections import logins
    from ..processes import prove_postgres
    from .output import note, write_json

    given = settings()
    prove_postgres(given, POSTGRES_LIMIT_S)
    whose = tenant or given.tenant
    password = logins.grant(given.postgres_url, given.namespace, name, tenant=whose)
    url = logins.address(given.postgres_url, name, password)
    left = logins.left_to_logins(given.postgres_url, given.namespace)
    if as_json:
        also = [one.may for one in left]
        write_json({"login": name, "tenant": whose, "url": url, "may_also": also})
        return Exit.DONE
    typer.echo(f'psql "{url}"')
    note(
        f"{name} is shown the rows of tenant {whose}; the password is kept nowhere: pass this line on now"
    )
    if left:
        note(
            f"here every login may also {'; '.join(one.may for one in left)}: see 'wakeful access confine'"
        )
    return Exit.DONE


@app.command("revoke")
def revoke(name: LoginName) -> int:
    """Take the access of a login away: its connections are ended, and it is shown nothing any more."""
    from ...projections import logins
    from ..processes import prove_postgres
    from .output import note

    given = settings()
    prove_postgres(given, POSTGRES_LIMIT_S)
    gone = logins.revoke(given.postgres_url, given.namespace, name)
    note(
        f"{name} has no access any more"
        + ("" if gone else "; the role stays, without login, since it owns something")
    )
    return Exit.DONE


@app.command("confine")
def confine(*, as_json: AsJson = False) -> int:
    """Take from everybody in this database what a login could do besides reading; show what a superuser has to take.

    Large objects, temporary tables, advisory locks, tables in public, and the functions that write to the log of changes
    (WAL), use up transaction ids and export snapshots: whoever else uses this database loses them, too, but for superusers. 'access grant' does the same by itself where nobody else has a table in it.
    """
    from ...projections import logins
    from ..processes import prove_postgres
    from .output import note, write_json

    given = settings()
    prove_postgres(given, POSTGRES_LIMIT_S)
    left = logins.confine_logins(given.postgres_url, given.namespace)
    if as_json:
        write_json([one._asdict() for one in left])
        return Exit.REFUSED if left else Exit.DONE
    for one in left:
        typer.echo(f"{one.statement};")
    if left:
        note(
            f"logins may still {'; '.join(one.may for one in left)}: let a superuser run these lines in this database"
        )
        return Exit.REFUSED
    note("logins may read the views, and make nothing in this database")
    return Exit.DONE


@app.command("list")
def show(*, as_json: AsJson = False) -> int:
    """Show the logins, and whose rows each is shown."""
    from ...projections import logins
    from ..processes import prove_postgres
    from .output import note, table, write_json

    given = settings()
    prove_postgres(given, POSTGRES_LIMIT_S)
    found = logins.logins(given.postgres_url, given.namespace)
    if as_json:
        write_json([one._asdict() for one in found])
        return Exit.DONE
    table(("login", "tenant"), found)
    if not found:
        note("no logins: 'wakeful access grant LOGIN --tenant TENANT' makes one")
    return Exit.DONE
