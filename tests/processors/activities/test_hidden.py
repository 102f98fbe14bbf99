"""What a provider gave is not told by what a tool raises: as it is, in other writing, in models, and where a text is cut."""

import dataclasses
import html
import json

import pytest
from pydantic import BaseModel, SecretStr

from wakeful import Access, NothingDone, Read, activity, credentials
from wakeful.processors.activities.attempt import Say, steps_of
from wakeful.processors.activities.runner import Runner
from wakeful.processors.app import gather

from .conftest import DIGEST_KEY, played

SECRET = "s3cret/of+the bank"


class Login(BaseModel):
    name: str
    password: SecretStr


@dataclasses.dataclass
class Pair:
    login: Login
    more: dict


GIVEN = [
    SECRET,
    SECRET.encode(),
    SecretStr(SECRET),
    Login(name="bob", password=SECRET),
    Pair(Login(name=SECRET, password="x"), {}),
    Pair(Login(name="bob", password="x"), {"tokens": [SECRET]}),
]


def said_of(bench, app, session="s1"):
    """The failure that one attempt of `read` comes to."""
    runner = Runner(app.activities, worker_id="w1", digest_key=DIGEST_KEY, provider=app.credentials)
    task = bench.task("read", {}, session)
    steps = steps_of(runner, task, fresh=True, waited_ms=0, is_over=lambda: False)
    step = next(steps)
    while not isinstance(step, Say):
        step = steps.send(played(step))
    return step.body.failure


def failed(bench, given, raises):
    """What is said of a tool that was given this, and raised."""

    @credentials
    def vault(access: Access) -> object:
        return given

    @activity(contract=Read(), name="read")
    def tool(*, credentials: object) -> str:
        raises()
        return ""

    return said_of(bench, gather([vault, tool]))


@pytest.mark.parametrize("given", GIVEN, ids=lambda given: type(given).__name__)
def test_a_secret_in_a_tools_exception_is_not_told(bench, given):
    def raises():
        try:
            raise KeyError(SECRET)
        except KeyError as error:
            error.add_note(f"a note on {SECRET}")
            raise ConnectionError(f"401 for {SECRET}, sent by bob") from error

    failure = failed(bench, given, raises)
    assert failure.message == "401 for ***, sent by bob"
    assert SECRET not in failure.detail
    assert "a note on ***" in failure.detail


@pytest.mark.parametrize(
    "told",
    [
        "https://bank/?token=s3cret%2Fof%2Bthe%20bank",
        "https://bank/?token=s3cret%2Fof%2Bthe+bank",
        "https://bank/?token=s3cret%2fof%2bthe%20bank",
        "https://login/?next=https%3A%2F%2Fbank%2F%3Ftoken%3Ds3cret%252Fof%252Bthe%2520bank",
        repr([SECRET.encode()]),
    ],
)
def test_a_secret_is_known_in_other_writing(bench, told):
    def raises():
        raise ConnectionError(told)

    failure = failed(bench, SECRET, raises)
    assert "s3cret" not in failure.message + failure.detail
    assert "***" in failure.message


QUOTED = 's3cret "and" back\\slash, ünder <lock>'


@pytest.mark.parametrize(
    "writes",
    [
        json.dumps,
        lambda text: json.dumps(text, ensure_ascii=False),
        lambda text: json.dumps({"body": json.dumps({"password": text})}),
        lambda text: json.dumps(json.dumps(text, ensure_ascii=False), ensure_ascii=False),
        html.escape,
        ascii,
        lambda text: repr(text.encode()),
    ],
    ids=[
        *("json", "json unescaped", "json in json", "the same unescaped", "html"),
        *("ascii", "bytes"),
    ],
)
def test_a_secret_with_marks_of_its_own_is_known_as_other_formats_write_it(bench, writes):
    def raises():
        raise ConnectionError(f"sent {writes(QUOTED)}")

    failure = failed(bench, QUOTED, raises)
    assert "s3cret" not in failure.message + failure.detail
    assert "lock" not in failure.message + failure.detail


def test_a_secret_of_many_lines_is_known_line_by_line_and_as_repr(bench):
    pem = "-----BEGIN KEY-----\nabcdefghijkl\nmno\n-----END KEY-----"

    def raises():
        raise ExceptionGroup("both", [ValueError(pem), KeyError(pem)])

    failure = failed(bench, pem, raises)
    assert "abcdefghijkl" not in failure.detail
    assert "mno" not in failure.detail.partition("| KeyError")[2]


def test_a_secret_is_not_told_by_halves_where_a_message_is_cut(bench):
    secret = "0123456789" * 10

    def raises():
        raise ValueError("x" * 950 + secret + "y" * 5_000 + secret + "z" * 4_060)

    failure = failed(bench, secret, raises)
    assert "0123" not in failure.message
    assert "6789" not in failure.detail


def test_short_words_are_no_secrets(bench):
    def raises():
        raise ValueError("the account is closed")

    assert failed(bench, "account", raises).message == "the account is closed"


def test_what_cannot_be_hidden_is_not_given(bench):
    class Odd(dict):
        def values(self):
            raise RuntimeError(SECRET)

    failure = failed(bench, Odd(), lambda: None)
    assert (failure.kind, failure.type) == ("no_credentials", "RuntimeError")
    assert SECRET not in repr(failure)


def test_one_attempts_secret_is_not_hidden_in_anothers(bench):
    @credentials
    def vault(access: Access) -> str:
        return f"token of {access.session_id}"

    @activity(contract=Read(), name="read")
    def tool(*, credentials: str) -> str:
        raise NothingDone("token of s1, token of s2")

    app = gather([vault, tool])
    assert said_of(bench, app, "s1").message == "***, token of s2"
    assert said_of(bench, app, "s2").message == "token of s1, ***"
