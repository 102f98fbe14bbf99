"""The console's pages without a browser: who gets in, who may do what, and what users wrote stays text."""

import html
import re

import httpx
import pytest

from wakeful.deploy.gateway.api_keys import changing, revoked
from wakeful.projections.queries import Queries

from .conftest import whole
from .running import Running, Visitor

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>{{7*7}}\u202e"


@pytest.fixture(scope="module")
def operator(desk: Running) -> Visitor:
    return desk.visitor("sue", "operator")


def bare(desk: Running) -> httpx.Client:
    return httpx.Client(base_url=desk.url, timeout=30.0)


def test_nobody_sees_a_page_before_signing_in_and_is_led_back_after_it(desk: Running) -> None:
    with bare(desk) as http:
        away = http.get("/console/sessions?show=held")
        assert away.status_code == 303
        assert away.headers["location"].endswith("?next=%2Fconsole%2Fsessions%3Fshow%3Dheld")
        form = http.get(away.headers["location"]).text
        assert 'value="/console/sessions?show=held"' in form
        key = desk.key("vic", "viewer")
        entered = http.post(
            "/console/sign-in", data={"api_key": key, "back": "/console/sessions?show=held"}
        )
        assert entered.headers["location"] == "/console/sessions?show=held"


@pytest.mark.parametrize(
    "back", ["https://evil.example", "//evil.example", "/console/../v1", "/\\evil", "/v1/sessions"]
)
def test_signing_in_never_leads_away_from_the_console(desk: Running, back: str) -> None:
    with bare(desk) as http:
        entered = http.post(
            "/console/sign-in", data={"api_key": desk.key("vic", "viewer"), "back": back}
        )
        assert entered.headers["location"] == "/console/"


def test_the_cookie_is_for_this_site_alone_and_no_script_reads_it(desk: Running) -> None:
    with bare(desk) as http:
        entered = http.post("/console/sign-in", data={"api_key": desk.key("vic", "viewer")})
        cookie = entered.headers["set-cookie"]
        assert {"HttpOnly", "SameSite=strict", "Path=/console"} <= set(cookie.split("; "))
        assert "Secure" not in cookie  # over plain HTTP on this machine alone
        elsewhere = http.post(
            "/console/sign-in",
            data={"api_key": desk.key("vic", "viewer")},
            headers={"Host": "console.example"},
        )
        assert "Secure" in elsewhere.headers["set-cookie"]


def test_a_wrong_key_and_a_cookie_that_was_changed_let_nobody_in(desk: Running) -> None:
    with bare(desk) as http:
        wrong = http.post("/console/sign-in", data={"api_key": "wk_00000000_" + "A" * 43})
        assert wrong.status_code == 401
        assert "not valid here" in wrong.text
    visitor = desk.visitor("vic", "viewer")
    name, word = next(iter(visitor.http.cookies.items()))
    body, _, seal = word.partition(".")
    for bad in (body, f"{body}.", f"{body[:-2]}AA.{seal}", f"{body}.{seal[:-2]}AA", "x" * 5_000):
        with bare(desk) as http:
            http.cookies.set(name, bad)
            assert http.get("/console/").status_code == 303


def test_a_key_that_is_revoked_ends_its_sign_ins_at_once(desk: Running) -> None:
    visitor = desk.visitor("gone", "viewer")
    assert visitor.get("").status_code == 200
    with changing(desk.settings.home / "api_keys.json") as keys:
        keys[:] = [revoked(key) if key.actor == "gone" else key for key in keys]
    assert visitor.get("").status_code == 303


def test_a_link_signs_in_once(desk: Running) -> None:
    with bare(desk) as http:
        entered = http.get(desk.link)
        assert (entered.status_code, entered.headers["location"]) == (303, "/console/")
        assert "ann" in http.get("/console/").text
    with bare(desk) as http:
        again = http.get(desk.link)
        assert again.status_code == 401
        assert "used before" in again.text


def test_every_page_has_a_policy_that_runs_no_script_but_ours(operator: Visitor) -> None:
    for path in ("", "sign-in", "sessions", "approvals", "ledger", "dead-letters", "nothing"):
        answer = operator.get(path)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-frame-options"] == "DENY"
        assert not re.search(r"<style|<[^>]+ style=|<[^>]+ on\w+=|<script(?! src=)", answer.text)


def test_a_form_without_its_word_or_from_another_site_changes_nothing(
    desk: Running, operator: Visitor
) -> None:
    desk.ask("payments", "forms-1", "x")
    desk.until(lambda views: views.session("forms-1"), "a session")
    before = operator.token("sessions/forms-1")
    cancel = "/console/sessions/forms-1/ask/cancel"
    stolen = desk.visitor("sue", "operator").token("sessions/forms-1")
    for word in ("", "x", stolen["form_token"]):
        data = {**before, "form_token": word, "text": "no"}
        assert operator.http.post(cancel, data=data).status_code == 403
    foreign = operator.http.post(
        cancel, data={**before, "text": "no"}, headers={"Sec-Fetch-Site": "cross-site"}
    )
    assert foreign.status_code == 403
    assert "forms-1" in operator.get("sessions/forms-1").text
    with views_of(desk) as views:
        assert views.session("forms-1")[0]["cancel_reason"] is None


def test_a_form_that_is_sent_twice_is_done_once(desk: Running, operator: Visitor) -> None:
    desk.ask("payments", "forms-2", "x")
    desk.until(lambda views: views.session("forms-2"), "a session")
    fields = {**operator.token("sessions/forms-2"), "text": "hello"}
    answers = [
        operator.http.post("/console/sessions/forms-2/ask/message", data=fields) for _ in range(2)
    ]
    places = {one.headers["location"].partition("&at")[0] for one in answers}
    assert len(places) == 1
    assert desk.until(lambda views: views.session("forms-2")[0]["messages"], "messages") == 2
    other = operator.http.post(
        "/console/sessions/forms-2/ask/message", data={**fields, "text": "something else"}
    )
    assert other.status_code == 409


def test_a_viewer_sees_no_buttons_and_may_not_press_them(desk: Running) -> None:
    asked = desk.wants_approval("viewer-1")
    viewer = desk.visitor("vic", "viewer")
    path = f"approvals/viewer-1/{asked['proposal_id']}"
    page = viewer.get(path).text
    assert "Your answer" not in page
    assert "role approver or operator" in page
    assert "Ask something of it" not in viewer.get("sessions/viewer-1").text
    assert "Dead letters" not in page
    assert viewer.get("dead-letters").status_code == 403
    token = viewer.token(path)
    for to, fields in {
        f"{path}/decide": {"decision": "approve"},
        f"{path}/review": {"arguments": "{}"},
        "sessions/viewer-1/ask/message": {"text": "x"},
        "sessions/viewer-1/ask/cancel": {"text": "x"},
        "sessions": {"workflow": "payments"},
        "dead-letters/0@0/deal": {"how": "dropped"},
    }.items():
        refused = viewer.http.post(f"/console/{to}", data={**token, **fields})
        assert refused.status_code == 403, to
        assert "may not" in refused.text, to


def test_another_tenants_ids_are_not_found_and_say_no_more(desk: Running) -> None:
    asked = desk.wants_approval("mine-1")
    stranger = desk.visitor("eve", "operator", tenant="other")
    theirs = desk.visitor("sue", "operator")
    link = re.search(
        r'data-link="(/console/a/[^"]+)"',
        theirs.get(f"approvals/mine-1/{asked['proposal_id']}").text,
    )[1]
    for mine, nobodys in (
        ("sessions/mine-1", "sessions/mine-2"),
        (f"approvals/mine-1/{asked['proposal_id']}", f"approvals/mine-2/{asked['proposal_id']}"),
    ):
        found, missing = stranger.get(mine), stranger.get(nobodys)
        assert (found.status_code, missing.status_code) == (404, 404)
        assert found.text.replace("mine-1", "mine-2") == missing.text
    assert stranger.http.get(link).status_code == 404
    form = stranger.token("sessions")
    posted = stranger.http.post("/console/sessions/mine-1/ask/message", data={**form, "text": "x"})
    assert posted.status_code == 404
    for path in ("", "sessions", "approvals", "ledger", "ledger.csv", "dead-letters"):
        assert "mine-1" not in stranger.get(path).text, path


def test_a_link_to_an_approval_leads_there_after_signing_in_and_lets_nobody_in(
    desk: Running, operator: Visitor
) -> None:
    asked = desk.wants_approval("linked-1")
    path = f"/console/approvals/linked-1/{asked['proposal_id']}"
    link = re.search(r'data-link="(/console/a/[^"]+)"', operator.http.get(path).text)[1]
    with bare(desk) as http:
        first = http.get(link)
        assert first.status_code == 303
        back = re.search(r'name="back" value="([^"]+)"', http.get(first.headers["location"]).text)[
            1
        ]
        entered = http.post(
            "/console/sign-in", data={"api_key": desk.key("sue", "operator"), "back": back}
        )
        assert entered.headers["location"] == link
        assert http.get(link).headers["location"] == path
        assert http.get(link[:-3] + "AAA").status_code == 404
    with bare(
        desk
    ) as http:  # a browser leaves a strict cookie out when a mail program opens the link
        hop = http.get(link, headers={"Sec-Fetch-Site": "cross-site"})
        assert hop.status_code == 200
        assert 'http-equiv="refresh"' in hop.text


def test_what_users_wrote_stays_text_on_every_page(desk: Running, operator: Visitor) -> None:
    asked = desk.wants_approval("hostile-1", HOSTILE)
    one = f"approvals/hostile-1/{asked['proposal_id']}"
    answered = operator.post(
        f"{one}/decide", one, decision="respond", answer=HOSTILE, was_shown=operator.shown(one)
    )
    assert answered.status_code == 303
    desk.until(lambda views: views.session("hostile-1")[0]["last_reply"], "a reply")
    second = desk.wants_approval("hostile-2", HOSTILE)
    two = f"approvals/hostile-2/{second['proposal_id']}"
    declined = operator.post(
        f"{two}/decide", two, decision="reject", comment=HOSTILE, was_shown=operator.shown(two)
    )
    assert declined.status_code == 303
    with desk.client(HOSTILE.replace("\u202e", "")) as client:
        client.send("hostile-1", {"text": HOSTILE, HOSTILE: [HOSTILE]})
        client.signal("hostile-1", "<b>name</b>", HOSTILE)
        client.send("no-such-session", HOSTILE)
    desk.until(lambda views: views.session("hostile-1")[0]["messages"] == 2, "a message")
    letters = re.findall(r'href="/console/(dead-letters/[^"]+)"', operator.get("dead-letters").text)
    paths = [
        "",
        "sessions",
        "sessions/hostile-1",
        "sessions/hostile-2",
        one,
        two,
        "ledger",
        *letters,
    ]
    paths += ["approvals?status=rejected", "approvals?status=answered"]
    seen = 0
    for path in paths:
        page = operator.get(path).text
        assert "<script>alert" not in page, path
        assert "<img src=x" not in page, path
        assert "<b>name" not in page, path
        assert "49" not in re.findall(r"img src=x onerror=alert\(2\)&gt;(..)", page), path
        seen += "alert(1)" in html.unescape(page)
    assert seen >= 6
    for path in (
        "sessions?q=",
        "sessions?workflow=",
        "ledger?session=",
        "ledger?action=",
        "sign-in?next=",
    ):
        assert "<script>" not in operator.http.get(f"/console/{path}<script>alert(1)</script>").text


def test_no_page_shows_a_secret(desk: Running, operator: Visitor) -> None:
    secrets = [key.split("_", 2)[2] for key in desk.keys.values()]
    secrets += [desk.settings.digest_key.hex(), desk.settings.digest_key.decode(errors="replace")]
    secrets += re.findall(r'"secret": "([0-9a-f]+)"', desk.settings.keys.read_text())
    secrets.append((desk.settings.home / "console_key").read_text())
    for path in ("", "sessions", "approvals", "ledger", "dead-letters"):
        page = operator.get(path).text
        assert not [secret for secret in secrets if secret in page], path


def test_a_letter_is_put_away_once_and_sent_back_only_by_an_operator(
    desk: Running, operator: Visitor
) -> None:
    with desk.client("maria") as client:
        client.send("letters-1", "hello")

    def listed() -> list[str]:
        page = operator.get("dead-letters").text
        return re.findall(
            r'href="/console/(dead-letters/[^"]+)"[^>]*>(?:(?!</a>).)*letters-1', page
        )

    desk.until(lambda _: listed(), "a dead letter")
    path = listed()[0]
    token = operator.token(path)
    done = operator.http.post(f"/console/{path}/deal", data={**token, "how": "dropped"})
    assert done.headers["location"].endswith("?done=dropped")
    assert "put away" in operator.http.get(done.headers["location"]).text
    again = operator.http.post(f"/console/{path}/deal", data={**token, "how": "redriven"})
    assert again.status_code == 409
    assert "by sue before" in html.unescape(again.text)
    assert not listed()


def test_the_ledger_is_a_file_with_what_its_filters_give(desk: Running, operator: Visitor) -> None:
    desk.wants_approval("file-1")
    lines = operator.get("ledger.csv?session=file-1").text.splitlines()
    assert lines[0].startswith("session_id,activity_id,")
    assert [line.split(",")[0] for line in lines[1:]] == ["file-1"]
    rows = operator.get("ledger.ndjson?session=file-1")
    assert "attachment" in rows.headers["content-disposition"]
    assert rows.text.count("\n") == 1


@whole
@pytest.mark.parametrize(
    "path",
    [
        *("sessions?show=nonsense", "sessions?after=nonsense", "ledger?since=nonsense"),
        *("ledger?status=completed", "approvals?status=nonsense", "sessions?show=held&workflow=x"),
        *("approvals?after=nonsense", "ledger?session=a&status=failed", "sessions/x?turns=many"),
    ],
)
def test_what_cannot_be_shown_is_said_on_a_page(operator: Visitor, path: str) -> None:
    answer = operator.get(path)
    assert answer.status_code in (404, 422)
    assert "text/html" in answer.headers["content-type"]
    assert 'class="problem"' in answer.text


def views_of(desk: Running) -> Queries:
    return Queries(desk.settings.postgres_url, desk.settings.namespace, tenant=desk.settings.tenant)
