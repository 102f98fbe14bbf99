"""What a provider gave is in no result and no progress, and in nothing that a worker's process prints."""

import io
import json
import logging
import sys
import threading
from base64 import b64encode, urlsafe_b64encode
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from uuid import UUID

import pytest
import structlog
from pydantic import BaseModel, SecretStr

from wakeful import Access, Read, activity, credentials, heartbeat
from wakeful.deploy import logs
from wakeful.events.failures import UNSERIALISABLE_RESULT
from wakeful.events.payloads import load_json
from wakeful.processors.activities.attempt import Say, steps_of
from wakeful.processors.activities.hidden import OUTPUT, STAND_IN, Hidden, Output
from wakeful.processors.activities.runner import Runner
from wakeful.processors.app import gather
from wakeful.testing import rehearse

from .conftest import DIGEST_KEY, played, until

SECRET = 's3cret/of+the "bank"\nand its vault'


class Login(BaseModel):
    """As providers give it: a name that anybody may know, and what nobody may."""

    user: str
    token: SecretStr


def said_of(bench, given, returned, kind=object):
    """What one attempt comes to that was given this, and returned that."""

    @credentials
    def vault(access: Access) -> object:
        return given

    def tool(*, credentials: object):
        return returned

    tool.__annotations__["return"] = kind
    app = gather([vault, activity(contract=Read(), name="read")(tool)])
    runner = Runner(app.activities, worker_id="w1", digest_key=DIGEST_KEY, provider=app.credentials)
    steps = steps_of(runner, bench.task("read", {}), fresh=True, waited_ms=0, is_over=lambda: False)
    step = next(steps)
    while not isinstance(step, Say):
        step = steps.send(played(step))
    return step.body


def test_a_result_that_echoes_a_secret_is_recorded_without_it(bench):
    echo = {
        "headers": {"Authorization": f"Bearer {SECRET}"},
        f"by {SECRET}": [SECRET, 7, None, True, {"url": "https://bank/?token=s3cret%2Fof%2Bthe"}],
    }
    body = said_of(bench, SECRET, echo, dict)
    assert load_json(body.result)["headers"] == {"Authorization": "Bearer ***"}
    assert load_json(body.result)["by ***"][:4] == ["***", 7, None, True]


@pytest.mark.parametrize("write", [b64encode, urlsafe_b64encode])
@pytest.mark.parametrize("user", ["", "a", "bo", "ann", "somebody@example.org"])
def test_a_header_of_basic_authentication_is_known(bench, write, user):
    secret = "t0ken?>of~the~bank"
    header = write(f"{user}:{secret}".encode()).decode()
    told = load_json(said_of(bench, secret, f"Basic {header}", str).result)
    assert STAND_IN in told
    # What is left of it are the characters at its ends, which it shares with its neighbours.
    rest = told.removeprefix("Basic ").split(STAND_IN)
    assert len(rest) == 2
    assert all(len(part) <= 4 * (len(user) // 3 + 2) for part in rest)


def test_a_number_whose_digits_are_the_secret_is_told_as_little(bench):
    assert load_json(said_of(bench, "4929123412341234", [4929123412341234, 4929], list).result) == [
        "***",
        4929,
    ]


def test_where_a_provider_marks_its_secrets_only_these_are_taken_out_of_data(bench):
    login = Login(user="somebody@example.org", token="t0ken-of-somebody")
    told = {"account of": "somebody@example.org", "with": "t0ken-of-somebody"}
    body = said_of(bench, login, told, dict)
    assert load_json(body.result) == {"account of": "somebody@example.org", "with": "***"}


def test_where_it_marks_none_all_its_texts_are(bench):
    given = {"user": "somebody@example.org", "token": "t0ken-of-somebody"}
    told = ["somebody@example.org", "t0ken-of-somebody"]
    assert load_json(said_of(bench, given, told, list).result) == ["***", "***"]


def test_a_result_whose_type_takes_no_stars_is_a_failure_that_says_so(bench):
    secret = "12345678-1234-5678-1234-567812345678"
    body = said_of(bench, secret, UUID(secret), UUID)
    assert body.failure.kind == UNSERIALISABLE_RESULT
    assert "what its credentials hold stands in it as '***'" in body.failure.message
    assert secret not in repr(body)


def test_what_is_nested_too_deep_is_refused_and_not_searched_for_ever(bench):
    deep = [SECRET]
    for _ in range(500):
        deep = [deep]
    assert said_of(bench, SECRET, deep, object).failure.kind == UNSERIALISABLE_RESULT


@pytest.mark.parametrize("sync", [False, True])
def test_progress_is_told_without_them(guarded, run, sync):
    @credentials
    async def vault(access: Access) -> str:
        return SECRET

    def beats(credentials):
        heartbeat({"page": 7, "with": [credentials]})
        raise ConnectionError(f"cut: {credentials}")

    if sync:

        @activity(contract=Read(), name="read")
        def tool(*, credentials: str) -> None:
            beats(credentials)
    else:

        @activity(contract=Read(), name="read")
        async def tool(*, credentials: str) -> None:
            beats(credentials)

    run(gather([vault, tool]))
    guarded.put(guarded.task("read", {}))
    until(guarded.results, "its failure, and the progress before it")
    told = [record.value for record in guarded.log.dump(guarded.topics.commands)]
    assert any(b'{"page":7,"with":["***"]}' in value for value in told)
    assert not any(b"s3cret" in value for value in told)


def test_output_knows_the_secrets_of_all_attempts_and_forgets_the_oldest():
    output = Output(most=2)
    output.remember(["the first secret", "the second secret"])
    output.remember(["the first secret"])
    output.remember(["the third secret"])
    told = "the first secret, the second secret, the third secret"
    assert output.hide(told) == "***, the second secret, ***"


@contextmanager
def printed(form):
    """What this process prints, as a worker's does: its command sets up all this before it loads the app."""
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        logs.configure("info", form)
        logs.mask(OUTPUT.hide)
        logs.mask(OUTPUT.hide)  # a repeat changes nothing
        assert sys.stderr.encoding == out.encoding
        yield out


def fails():
    """A frame that has the secret among its variables."""
    token = SECRET
    raise ValueError(f"refused: {token}")


def logs_and_prints():
    """All that an activity may do with its credentials, but raise them."""
    structlog.get_logger("app").info(f"asks with {SECRET}", token=SECRET, deep={"t": [SECRET]})
    own = logging.StreamHandler(sys.stderr)  # as an app sets it up for itself
    log = logging.getLogger("app")
    log.addHandler(own)
    try:
        log.error("asks with %s", SECRET)
        try:
            fails()
        except ValueError:
            log.exception("it failed")
            structlog.get_logger("app").exception("it failed")
    finally:
        log.removeHandler(own)
    print("prints", SECRET, json.dumps(SECRET), repr(SECRET))
    sys.stdout.writelines([f"{SECRET}\n", "writes lines\n"])


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_an_activity_logs_and_prints_is_without_them(form, monkeypatch):
    monkeypatch.setattr(threading, "excepthook", threading.__excepthook__)
    Hidden().add(SECRET)
    with printed(form) as out:
        logs_and_prints()
        thread = threading.Thread(target=fails)
        thread.start()
        thread.join()
    told = out.getvalue()
    assert told.count("asks with ***") >= 3
    assert told.count("refused: ***") >= 4
    assert "prints *** " in told
    assert "***\nwrites lines\n" in told
    for part in ("s3cret", "and its vault"):
        assert part not in told


def test_a_traceback_in_the_log_shows_no_variables():
    """Not even what nobody knows to be secret: it may be somebody's data."""
    with printed("text") as out:
        try:
            unknown = "somebody data of"[::-1]  # its own line is shown
            raise ValueError("x")
        except ValueError:
            logging.getLogger("app").exception("it failed")
    assert "it failed" in out.getvalue()
    assert unknown not in out.getvalue()


def test_a_rehearsal_shows_what_would_be_recorded() -> None:
    from tests.testing.test_credentials import bank

    session = rehearse(bank, credentials="a very secret token")
    session.send("read a1")
    assert session.replies == ["a1 with ***"]
