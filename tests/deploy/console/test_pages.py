"""Pages as their server makes them, without a browser: what they say, keep, and lead to."""

import html
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from tests.deploy.gateway.shelves import MINE, Shelves, secrets_of

from wakeful import Message, Read, Turn, Write, activity, workflow
from wakeful.commands.models import PinSession, RecoverSession
from wakeful.commands.wire import decode_command
from wakeful.deploy.gateway.api_keys import ApiKeys
from wakeful.deploy.gateway.console import app as console
from wakeful.deploy.gateway.console import asking, one_time
from wakeful.deploy.gateway.console.one_time import new_link
from wakeful.deploy.gateway.console.signing import Signer
from wakeful.events import records as r
from wakeful.events.codec import decode_event
from wakeful.testing import NO_ANSWER, Rehearsal, rehearse

SIGNER = Signer(b"k" * 32)
APPROVAL = "approvals/same-name/1.2-same"
LONG = "it came broken " * 60


class Film(BaseModel):
    """What a session of the studio knows."""

    title: str = ""


@activity(contract=Write(idempotent=True))
async def book(title: str, *, key: str) -> str:
    """Books a studio."""
    return key


@activity(contract=Write(idempotent=True))
async def unbook(title: str) -> None:
    """Gives it back."""


@activity(contract=Read())
async def start_render(job_id: str) -> bool:
    """Tells the renderer."""
    return bool(job_id)


@workflow("studio", version=1)
async def studio(turn: Turn, film: Film, message: Message) -> Film:
    """Books a studio, which can be given back, and has a film rendered elsewhere."""
    await turn.attributes({"customer": "ivo", "urgent": True, "takes": 3, "share": 0.5})
    await turn.run(book.call(message.text), compensate=unbook.call(message.text))
    job = turn.job("render", within="2d")
    await turn.run(start_render.call(job.id))
    await turn.say(await job)
    return film


class Visitor:
    """A browser without scripts."""

    def __init__(self, shelves: Shelves, role: str) -> None:
        self.shelves, self.role = shelves, role
        self.http = shelves.client
        self.http.cookies.clear()
        form = {"api_key": shelves.key(MINE, role)}
        entered = self.http.post("/console/sign-in", data=form, follow_redirects=False)
        assert entered.status_code == 303

    def get(self, path: str, status: int = 200) -> str:
        answer = self.http.get(f"/console/{path}")
        assert answer.status_code == status, answer.text
        return html.unescape(answer.text)

    def form(self, path: str, **fields: str) -> dict[str, str]:
        """The hidden fields of a page's last form, and others."""
        page = self.http.get(f"/console/{path}").text
        names = ("form_token", "once", "was_shown")
        found = {name: re.findall(rf'name="{name}" value="([^"]*)"', page) for name in names}
        return {**{name: html.unescape(v[-1]) for name, v in found.items() if v}, **fields}

    def post(self, path: str, fields: dict[str, str]) -> Any:
        return self.http.post(f"/console/{path}", data=fields, follow_redirects=False)


@pytest.fixture(scope="module")
def shelves(postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shelves]:
    """Views with a session of each kind; no test changes what another looks at."""
    folder = tmp_path_factory.mktemp("console")
    one = Shelves(folder, postgres_url, "pages")
    one.settings = one.settings.model_copy(update={"home": folder})
    one.services.settings = one.settings
    one._tell_all(MINE)
    one.scribe.add((MINE, "long"), r.SessionOpened("desk"))
    one.scribe.add((MINE, "long"), r.MessageReceived("m1", one.scribe.payload({"text": LONG})))
    waiting = rehearse(studio, session_id="film-1")
    waiting.send("whales")
    pour(one, "film-1", waiting)
    ended = rehearse(studio, session_id="film-2")
    ended.send("birds")
    ended.complete_job("render", "24 frames")
    ended.send("bees")
    ended.cancel()
    pour(one, "film-2", ended)
    stalled = rehearse(studio, activities={"book": NO_ANSWER}, session_id="film-3")
    stalled.send("storks")
    pour(one, "film-3", stalled)
    rested = rehearse(studio, session_id="film-4")
    rested.send("seals")
    rested.complete_job("render", "12 frames")
    pour(one, "film-4", rested)
    one.project()
    app = console.console_app(one.services, ApiKeys(folder / "api_keys.json"), SIGNER)
    one.client.app.mount("/console", app)  # type: ignore[attr-defined]  # the TestClient's own
    one.client.base_url = one.client.base_url.copy_with(host="127.0.0.1")
    yield one
    one.close()


def pour(shelves: Shelves, session_id: str, session: Rehearsal) -> None:
    """What a rehearsal led to, into the log."""
    for body in session.events:
        shelves.scribe.add((MINE, session_id), body)


@pytest.fixture
def operator(shelves: Shelves) -> Visitor:
    return Visitor(shelves, "operator")


def test_a_session_with_attributes_effects_and_a_job_is_one_page(operator: Visitor) -> None:
    page = operator.get("sessions/film-1")
    assert "job render" in page
    for text in ("ivo", "true", "3", "0.5"):
        assert re.search(rf"<dd><a href=[^>]+>{re.escape(text)}</a></dd>", page), text
    assert 'attribute=urgent%3Dtrue"' in page
    assert ">True<" not in page
    assert "urgent=true" in operator.get("sessions?attribute=urgent%3Dtrue").partition("<tbody>")[2]


def test_one_that_took_back_what_it_did_tells_of_all_of_it(operator: Visitor) -> None:
    page = operator.get("sessions/film-2")
    assert "was cancelled" in page
    assert page.count("unbook") >= 2
    assert "24 frames" in page
    assert "It was done" not in page  # nobody waits for a job any more


def test_whoever_may_deliver_says_what_became_of_a_job(
    shelves: Shelves, operator: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WAIT_S", 0)  # nobody decides anything here
    page = operator.get("sessions/film-1")
    (job_id,) = set(re.findall(r'name="activity_id" value="(film-1:[^"]+)"', page))
    sent = operator.post(
        "sessions/film-1/ask/job-completed",
        operator.form("sessions/film-1", activity_id=job_id, text='{"frames": 24}'),
    )
    assert sent.status_code == 303
    found = shelves.log.dump(shelves.settings.topics.commands)
    assert [job_id.encode() in (record.value or b"") for record in found][-1:] == [True]
    wrong = operator.post(
        "sessions/film-1/ask/job-completed",
        operator.form("sessions/film-1", activity_id=job_id, text="24 frames"),
    )
    assert (wrong.status_code, "is no JSON" in wrong.text) == (422, True)
    silent = operator.post(
        "sessions/film-1/ask/job-failed",
        operator.form("sessions/film-1", activity_id=job_id, text=" "),
    )
    assert (silent.status_code, "say why it will not be done" in silent.text) == (422, True)
    user = Visitor(shelves, "user")
    bare = user.get("sessions/film-1")
    assert "It was done" not in bare
    refused = user.post(
        "sessions/film-1/ask/job-completed",
        user.form("sessions/film-1", activity_id=job_id, text="1"),
    )
    assert refused.status_code == 403


def asked_of(shelves: Shelves, session_id: str) -> list[Any]:
    """The commands to this session that the log has."""
    found = shelves.log.dump(shelves.settings.topics.commands)
    commands = (decode_command(record.value or b"", record.headers) for record in found)
    return [one.body for one in commands if one.header.session_id == session_id]


def test_an_operator_gives_up_an_attempt_that_has_stalled(
    shelves: Shelves, operator: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WAIT_S", 0)
    assert '<option value="1.2 1">book (1.2), attempt 1</option>' in operator.get("sessions/film-3")
    where, form = "sessions/film-3/ask/recover", ("sessions/film-3",)
    said = operator.form(*form, activity_id="1.2 1", text="its worker hangs")
    assert operator.post(where, said).status_code == 303
    assert asked_of(shelves, "film-3") == [RecoverSession("1.2", 1, "its worker hangs")]
    wrong = operator.post(where, operator.form(*form, activity_id="1.2 x", text="why"))
    assert (wrong.status_code, "names no attempt" in wrong.text) == (422, True)
    for waits_or_ended in ("film-1", "film-2"):
        assert "Recover what has stalled" not in operator.get(f"sessions/{waits_or_ended}")
    user = Visitor(shelves, "user")
    assert "Recover what has stalled" not in user.get("sessions/film-3")
    refused = user.post(where, user.form(*form, activity_id="1.2 1", text="why"))
    assert refused.status_code == 403


def test_an_operator_takes_a_session_back_to_what_a_turn_left(
    shelves: Shelves, operator: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "WAIT_S", 0)
    page = operator.get("sessions/film-4")
    assert re.findall(r'<option value="(\d+)">', page) == ["1", "0"]
    where, form = "sessions/film-4/ask/reset", ("sessions/film-4",)
    sent = operator.post(where, operator.form(*form, name="1", text="a wrong film"))
    assert sent.status_code == 303
    (asked,) = asked_of(shelves, "film-4")
    assert (asked.to_turn, asked.answers_again, asked.reason) == (1, True, "a wrong film")
    assert asked.state.digest == rehearsed_state(shelves, "film-4")
    for turn, told in (("7", "no end of turn 7"), ("one", "is no turn"), ("", "is no turn")):
        wrong = operator.post(where, operator.form(*form, name=turn, text="why"))
        assert (wrong.status_code, told in html.unescape(wrong.text)) == (422, True)


@pytest.mark.parametrize(("version", "kept"), [("2", 2), ("", None), ("0", 422), ("two", 422)])
def test_an_operator_keeps_a_session_on_a_version(
    shelves: Shelves,
    operator: Visitor,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    kept: int | None,
) -> None:
    monkeypatch.setattr(asking, "WAIT_S", 0)
    before = asked_of(shelves, "film-1")
    said = operator.form("sessions/film-1", name=version, text="until it is mended")
    sent = operator.post("sessions/film-1/ask/pin", said)
    new = asked_of(shelves, "film-1")[len(before) :]
    if kept == 422:
        assert (sent.status_code, "is no version" in sent.text, new) == (422, True, [])
    else:
        assert (sent.status_code, new) == (303, [PinSession(kept, "until it is mended")])


def rehearsed_state(shelves: Shelves, session_id: str) -> bytes:
    """The digest of what the session's newest turn left."""
    events = (decode_event(x.value, x.headers) for x in shelves.scribe.records)
    ends = [
        event.body.state
        for event in events
        if event.envelope.session_id == session_id and isinstance(event.body, r.TurnCompleted)
    ]
    return ends[-1].digest


def test_an_attribute_that_cannot_be_looked_for_stays_in_the_form(operator: Visitor) -> None:
    page = operator.get("sessions?attribute=customer&workflow=studio", 422)
    assert "attribute 'customer' is not name=value" in page
    assert 'value="customer"' in page
    assert 'value="studio"' in page
    assert "Go to the overview" not in page


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("sessions?colour=red", "nothing is called 'colour' here: show, workflow, q"),
        ("approvals?status=granted&status=voided", "'status' is given twice"),
        ("ledger?limit=5", "nothing is called 'limit' here"),
        ("sessions/film-1?turn=3", "nothing is called 'turn' here"),
        ("?x=1", "nothing is called 'x' here"),
    ],
)
def test_what_an_address_cannot_mean_is_said(operator: Visitor, path: str, told: str) -> None:
    assert told in operator.get(path, 422)


def test_only_a_page_that_shows_it_otherwise_says_how_an_approval_stands_by_now(
    operator: Visitor,
) -> None:
    page = operator.get(APPROVAL)
    assert "It is requested by now" not in page
    seen, other = (
        operator.get(f"live/{APPROVAL}?seq=1&was={was}") for was in ("requested", "granted")
    )
    assert "by now" not in seen
    assert "It is requested by now" in other
    assert re.search(r'value="http://127\.0\.0\.1/console/a/[^"]+" data-link', page)


def test_a_wrong_edit_has_the_focus_and_what_was_written(operator: Visitor) -> None:
    fields = operator.form(APPROVAL, arguments="{note: 1", comment="why not")
    answer = operator.post(f"{APPROVAL}/review", fields)
    where = answer.headers["location"].removeprefix("/console/")
    assert (answer.status_code, where.startswith(f"{APPROVAL}?draft=")) == (303, True)
    page = operator.get(where)
    assert re.search(r'role="alert" id="wrong" tabindex="-1" autofocus>the arguments are no', page)
    assert "{note: 1" in page
    assert 'value="why not"' in page
    long = operator.post(f"{APPROVAL}/review", {**fields, "arguments": noise()[:-1]})
    assert (long.status_code, "the arguments are no JSON" in long.text) == (422, True)


def test_an_edit_is_reviewed_at_an_address_that_one_may_go_back_to(
    shelves: Shelves, operator: Visitor
) -> None:
    fields = operator.form(APPROVAL, arguments='{"note": "less"}', comment="")
    answer = operator.post(f"{APPROVAL}/review", fields)
    where = answer.headers["location"].removeprefix("/console/")
    assert (answer.status_code, where.startswith(f"{APPROVAL}/review?draft=")) == (303, True)
    for _ in range(2):
        page = operator.get(where)
        assert '"less"' in page
        assert secrets_of(MINE) in page
        assert "Approve it so" in page
    long = operator.post(f"{APPROVAL}/review", {**fields, "arguments": noise()})
    assert (long.status_code, "Approve it so" in long.text) == (200, True)
    other = Visitor(shelves, "approver")  # nobody is led to a page that somebody else has filled in
    led = other.http.get(f"/console/{where}", follow_redirects=False)
    assert (led.status_code, led.headers["location"]) == (303, f"/console/{APPROVAL}")


def noise() -> str:
    """Arguments that no address has room for."""
    return json.dumps({"note": "".join(chr(0x4E00 + n * 7 % 20_000) for n in range(2_000))})


def test_a_long_message_is_folded(operator: Visitor) -> None:
    page = operator.get("sessions/long")
    assert f"All {len(LONG)} characters" in page
    assert f"<p>{LONG[:500]}…</p>" in page


def test_a_link_that_was_used_lets_whoever_is_in_go_on(
    shelves: Shelves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_time, "FORGET_MS", 1 << 60)  # files are of another clock here
    keys = shelves.settings.home / "api_keys.json"
    link = new_link(
        SIGNER,
        keys,
        base_url="",
        tenant=MINE,
        actor="sue",
        roles=("operator",),
        now_ms=shelves.scribe.now_ms,
    )
    one = shelves.client
    one.cookies.clear()
    for _ in range(2):
        entered = one.get(link, follow_redirects=False)
        assert (entered.status_code, entered.headers["location"]) == (303, "/console/")
    one.cookies.clear()
    spent = one.get(link, follow_redirects=False)
    assert (spent.status_code, "was used before" in spent.text) == (401, True)
    looked = one.head(link, follow_redirects=False)  # as mail programs do
    assert looked.status_code == 405
