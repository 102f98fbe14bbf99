"""Pages that go on by themselves: by their streams, without them by asking, and not at all where nobody looks."""

import re

from playwright.sync_api import Browser, Page, Request, expect

from .conftest import enter, whole
from .running import Running

STREAM = "**/console/stream/**"
PART = "**/console/live/**"


class Asked:
    """What a page asked for since it was watched."""

    def __init__(self, page: Page) -> None:
        self.paths: list[str] = []
        page.on("request", self._note)

    def _note(self, request: Request) -> None:
        self.paths.append(request.url.partition("/console/")[2])

    def count(self, beginning: str) -> int:
        return sum(path.startswith(beginning) for path in self.paths)


def waits_for_payment(desk: Running, session_id: str) -> None:
    desk.ask("payments", session_id, "x")
    desk.until(
        lambda views: any(one["status"] == "Waiting" for one in views.session(session_id)),
        f"{session_id} to wait",
    )


def test_a_sessions_page_moves_by_its_stream_and_does_not_poll(page: Page, desk: Running) -> None:
    waits_for_payment(desk, "live-1")
    with page.expect_request(STREAM):
        page.goto("/console/sessions/live-1")
    expect(page.locator("#live")).to_contain_text("signal paid")
    asked = Asked(page)
    page.wait_for_timeout(2_600)  # a poll, were there any
    assert asked.count("live/") == 0

    with desk.client("bank") as client:
        client.signal("live-1", "paid", 7)
    expect(page.locator("#live")).to_contain_text("paid: 7")
    assert asked.count("stream/") == 0  # the same stream all the time


@whole
def test_the_inbox_shows_a_new_proposal_by_its_stream(page: Page, desk: Running) -> None:
    with page.expect_request(STREAM):
        page.goto("/console/approvals")
    asked = Asked(page)
    page.wait_for_timeout(5_500)  # a poll, were there any
    assert asked.count("live/") == 0
    desk.wants_approval("live-2", "the lamp hums")
    expect(page.locator("#live")).to_contain_text("the lamp hums")


@whole
def test_a_page_that_can_have_no_stream_asks_now_and_then(page: Page, desk: Running) -> None:
    waits_for_payment(desk, "live-3")
    page.route(STREAM, lambda route: route.fulfill(status=503))
    page.goto("/console/sessions/live-3")
    with desk.client("bank") as client:
        client.signal("live-3", "paid", 8)
    expect(page.locator("#live")).to_contain_text("paid: 8")


@whole
def test_a_hidden_page_holds_no_stream_and_catches_up_when_it_is_seen(
    page: Page, desk: Running
) -> None:
    waits_for_payment(desk, "live-4")
    with page.expect_request(STREAM):
        page.goto("/console/sessions/live-4")
    expect(page.locator("#live")).to_contain_text("signal paid")
    turn(page, hidden=True)
    asked = Asked(page)
    with desk.client("bank") as client:
        client.signal("live-4", "paid", 9)
    desk.until(lambda views: views.session("live-4")[0]["last_reply"], "a reply")
    page.wait_for_timeout(2_500)
    assert asked.paths == []
    turn(page, hidden=False)
    expect(page.locator("#live")).to_contain_text("paid: 9")
    assert asked.count("stream/sessions/live-4") == 1


def turn(page: Page, *, hidden: bool) -> None:
    """As a browser does where another tab is chosen."""
    page.evaluate(
        """(hidden) => {
            Object.defineProperty(document, "hidden", {value: hidden, configurable: true});
            document.dispatchEvent(new Event("visibilitychange"));
        }""",
        hidden,
    )


@whole
def test_a_page_of_a_session_that_ended_asks_for_nothing_any_more(
    page: Page, desk: Running
) -> None:
    waits_for_payment(desk, "live-5")
    with page.expect_request(STREAM):
        page.goto("/console/sessions/live-5")
    with desk.client("sue") as client:
        client.cancel("live-5", "enough")
    expect(page.locator(".lead")).to_contain_text("Cancelled")
    page.wait_for_timeout(1_000)  # the stream's last word comes a moment later
    asked = Asked(page)
    page.wait_for_timeout(3_000)
    assert asked.paths == []


def test_words_are_shown_as_they_come_and_those_of_a_lost_attempt_are_struck_out(
    page: Page, desk: Running
) -> None:
    words = ["dear ", "<b>maria</b>, ", "we ", "are ", "sorry "]
    with desk.client("maria") as client:
        client.open("writer", "live-8")
        desk.until(lambda views: views.session("live-8"), "a session")
        with page.expect_request(STREAM):
            page.goto("/console/sessions/live-8")
        client.send("live-8", {"words": words, "pause_ms": 250})
    first = page.locator(".attempt").nth(0)
    expect(first).to_contain_text(re.compile("Attempt 1 (says|failed|lost its place)"))
    expect(first.locator(".attempt-text")).to_contain_text("dear <b>maria</b>")
    assert first.locator("b").count() == 0
    second = page.locator(".attempt").nth(1)
    expect(second).to_contain_text("Attempt 2 says")
    lost = "Attempt 1 (failed|lost its place to another): what it said does not count"
    expect(first).to_contain_text(re.compile(lost))
    expect(first.locator("s")).to_contain_text("sorry")
    expect(second.locator(".attempt-text")).to_contain_text("DEAR <B>MARIA</B>")
    expect(second.locator("s")).to_have_count(0)
    expect(page.locator(".item.reply")).to_contain_text("A letter of 5 words.")
    expect(page.locator(".attempt")).to_have_count(0)


@whole
def test_a_page_that_comes_back_in_the_middle_shows_each_word_once(
    page: Page, desk: Running
) -> None:
    words = [f"{n} " for n in range(16)]
    desk.ask("writer", "live-9", {"words": words, "pause_ms": 250})
    desk.until(lambda views: views.session("live-9"), "a session")
    page.goto("/console/sessions/live-9")
    text = page.locator(".attempt").nth(0).locator(".attempt-text")
    expect(text).to_contain_text("3 ")
    turn(page, hidden=True)
    turn(page, hidden=False)
    expect(text).to_contain_text("15 ")
    assert text.inner_text().split() == "".join(words).split()


@whole
def test_a_part_that_is_shown_anew_keeps_the_focus_and_says_what_changed_once(
    page: Page, desk: Running
) -> None:
    waits_for_payment(desk, "live-10")
    page.goto("/console/sessions/live-10")
    summary = page.locator(".item summary").first
    summary.focus()
    with desk.client("bank") as client:
        client.signal("live-10", "paid", 7)
    expect(page.locator("#live")).to_contain_text("paid: 7")
    expect(page.locator("#said")).to_contain_text("Resting")
    expect(summary).to_be_focused()


@whole
def test_a_page_says_when_its_gateway_is_away_and_when_it_is_back(
    chromium: Browser, desk: Running
) -> None:
    waits_for_payment(desk, "live-13")
    window = chromium.new_context(base_url=desk.url)
    page = window.new_page()
    enter(page, desk.key("sue", "operator"))
    page.route(STREAM, lambda route: route.abort())
    page.goto("/console/sessions/live-13")
    away = page.locator("#away")
    expect(away).to_be_hidden()
    page.route(PART, lambda route: route.abort())
    expect(away).to_contain_text("The gateway does not answer. What is shown here is as of")
    page.unroute(PART)
    expect(away).to_be_hidden()
    window.close()


@whole
def test_the_focus_stays_near_what_is_gone(page: Page, desk: Running) -> None:
    asked = desk.wants_approval("live-11")
    page.goto("/console/approvals")
    row = page.locator("[data-row][href*='/live-11/']")
    row.focus()
    with desk.client("sue") as client:
        client.decide("live-11", asked["proposal_id"], asked["digest"], "reject")
    expect(row).to_have_count(0)
    expect(page.locator("#live")).to_be_focused()


@whole
def test_whoever_sent_something_is_led_to_what_became_of_it(page: Page, desk: Running) -> None:
    waits_for_payment(desk, "live-12")
    page.goto("/console/sessions/live-12")
    page.get_by_label("Message").fill("hello")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator("#verdict")).to_be_focused()
