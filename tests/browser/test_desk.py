"""The console in a browser: from a message to a refund, what is out of date, the keyboard alone, accessibility, many sessions."""

import re
import time
from pathlib import Path

import pytest
from bench.many_rows import fill
from playwright.sync_api import BrowserContext, Page, expect

from .conftest import enter, whole
from .running import Running

AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")

MANY = 10_000


def test_a_message_is_sent_the_timeline_moves_a_refund_is_approved_and_seen(
    page: Page, desk: Running
) -> None:
    page.goto("/console/sessions")
    page.get_by_text("Open a session").click()
    page.locator("#workflow").fill("refund-desk")
    page.locator("#session_id").fill("browser-1")
    page.get_by_role("button", name="Open", exact=True).click()
    expect(page.get_by_role("heading", name="browser-1")).to_be_visible()

    page.get_by_label("Message").fill("My chair came with a broken leg.")
    page.get_by_role("button", name="Send", exact=True).click()
    expect(page.locator("#verdict")).to_contain_text("Applied.")
    expect(page.locator("#live")).to_contain_text("approval by supervisor")  # by itself: it is live

    page.get_by_role("link", name="Look at it and decide").first.click()
    expect(page.get_by_label("Arguments").first).to_contain_text("My chair came with a broken leg.")
    page.get_by_role("button", name="Approve this action").click()
    expect(page.locator("#verdict")).to_contain_text("Applied.")
    expect(page.locator(".lead")).to_contain_text("granted")

    page.get_by_role("link", name="See what comes of it").click()
    expect(page.locator("#live")).to_contain_text("We have paid back")
    page.goto("/console/ledger?session=browser-1")
    row = page.locator("tbody tr").filter(has_text="refund").first
    expect(row).to_contain_text("sue")


def test_a_decision_from_a_page_that_is_out_of_date_is_refused_and_says_what_changed(
    page: Page, desk: Running
) -> None:
    asked = desk.wants_approval("browser-2")
    page.goto(f"/console/approvals/browser-2/{asked['proposal_id']}")
    with desk.client("keeper") as client:
        client.change_artifact("browser-2", "refund policy", "2026-02")
    desk.until(
        lambda views: views.approvals(session_id="browser-2", status="voided"), "a void proposal"
    )

    page.get_by_role("button", name="Approve this action").click()

    told = page.get_by_role("alert")
    expect(told).to_contain_text("Nothing was sent")
    expect(told).to_contain_text("refund policy was version 2026-01, and is version 2026-02 now")
    told.get_by_role("link", name="look at the new proposal").click()
    expect(page.get_by_role("heading", name="Against the proposal before")).to_be_visible()
    page.get_by_role("button", name="Approve this action").click()
    expect(page.locator("#verdict")).to_contain_text("Applied.")


@whole
def test_an_attempt_that_hangs_is_given_up_where_the_overview_leads(
    page: Page, desk: Running
) -> None:
    desk.ask("writer", "stalled-1", {"words": ["dear "], "pause_ms": 600_000})
    desk.until(lambda views: views.activities(session_id="stalled-1"), "a running step")
    page.goto("/console/sessions/stalled-1#recover")
    attempts = page.get_by_label("What has stalled")  # the address opens what holds it
    expect(attempts).to_contain_text("draft (1.1), attempt 1")
    page.get_by_label("What was seen").fill("its worker hangs")
    page.get_by_role("button", name="Recover it").click()
    expect(page.locator("#verdict")).to_contain_text("Applied.")
    step = page.locator(".item.step").filter(has_text="draft")
    expect(step).to_contain_text("2 attempts")
    page.goto("/console/sessions/stalled-1#recover")
    expect(attempts).to_contain_text("draft (1.1), attempt 2")
    with desk.client("sue") as client:
        client.cancel("stalled-1", "enough")


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=whole)])
def test_axe_finds_no_serious_fault_on_any_page(
    context: BrowserContext, desk: Running, theme: str
) -> None:
    asked = desk.wants_approval(f"browser-3-{theme}")
    desk.ask("broken", f"held-{theme}", "?")
    with desk.client("maria") as client:
        client.send("no-such-session", "hello")
    desk.until(
        lambda views: any(one["held_reason"] for one in views.session(f"held-{theme}")),
        f"a hold of held-{theme}",
    )
    page = context.new_page()
    page.goto("/console/sign-in")
    faults = {"sign-in": serious(page)}
    enter(page, desk.key("sue", "operator"))
    page.emulate_media(color_scheme=theme)
    approval = f"approvals/browser-3-{theme}/{asked['proposal_id']}"
    paths = ["", "approvals", approval, "sessions", f"sessions/browser-3-{theme}"]
    for path in [*paths, f"sessions/held-{theme}", "ledger", "dead-letters", letter(page)]:
        page.goto(f"/console/{path}")
        faults[path] = serious(page)
    assert {path: found for path, found in faults.items() if found} == {}


def letter(page: Page) -> str:
    page.goto("/console/dead-letters")
    return page.locator("[data-row]").first.get_attribute("href").removeprefix("/console/")


def serious(page: Page) -> list[str]:
    """What axe finds that is serious, or worse; it runs beside the page, whose own policy lets no script in."""
    found = page.evaluate(f"{AXE}; axe.run(document, {{resultTypes: ['violations']}})")
    return [
        f"{one['id']}: {one['nodes'][0]['html'][:200]} {one['nodes'][0]['failureSummary'][:300]}"
        for one in found["violations"]
        if one["impact"] in ("moderate", "serious", "critical")
    ]


@whole
def test_an_approval_is_found_and_decided_by_the_keyboard_alone(page: Page, desk: Running) -> None:
    asked = desk.wants_approval("browser-4", "the kettle leaks")
    keys = page.keyboard
    page.goto("/console/")
    keys.press("g")
    keys.press("a")
    page.get_by_role("heading", name="Approvals").wait_for()
    wanted = f"/console/approvals/browser-4/{asked['proposal_id']}"
    for _ in range(60):
        keys.press("j")
        if page.evaluate("document.activeElement.getAttribute('href')") == wanted:
            break
    keys.press("Enter")
    page.wait_for_url(f"**{wanted}")
    keys.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    keys.press("Escape")
    keys.press("r")
    keys.type("Ask for a photo first.")
    keys.press("Tab")
    keys.press("Enter")
    expect(page.locator("#verdict")).to_contain_text("Applied.")
    expect(page.locator(".lead")).to_contain_text("answered")


@whole
def test_keys_do_nothing_where_somebody_types_or_has_turned_them_off(
    page: Page, desk: Running
) -> None:
    asked = desk.wants_approval("browser-5")
    page.goto(f"/console/approvals/browser-5/{asked['proposal_id']}")
    page.keyboard.press("d")
    comment = page.locator("#c-reject")
    expect(comment).to_be_focused()
    page.keyboard.type("dear?")
    expect(comment).to_have_value("dear?")
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("?")
    page.get_by_label("Single keys do something").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("a")
    assert page.evaluate("document.activeElement.tagName") != "BUTTON"


@whole
def test_every_page_can_be_walked_by_tab_and_shows_where_the_focus_is(
    page: Page, desk: Running
) -> None:
    desk.wants_approval("browser-6")
    page.goto("/console/approvals")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    ring = page.evaluate(
        "getComputedStyle(document.activeElement).outlineStyle + getComputedStyle(document.activeElement).outlineWidth"
    )
    assert re.fullmatch(r"solid[1-9].*", ring), ring


@whole
def test_an_edit_shows_its_difference_and_what_is_no_argument_is_told(
    page: Page, desk: Running
) -> None:
    asked = desk.wants_approval("browser-7")
    page.goto(f"/console/approvals/browser-7/{asked['proposal_id']}")
    page.locator("summary", has_text="Edit, then approve").click()
    box = page.get_by_label("Arguments, as JSON")
    before = box.input_value()
    box.fill(before.replace("order_id", "order"))
    page.get_by_role("button", name="Review the change").click()
    expect(page.get_by_role("alert")).to_contain_text("unknown: order; missing: order_id")
    expect(page.get_by_role("alert")).to_be_focused()
    cents = re.search(r'"cents": (\d+)', before)[1]
    page.get_by_label("Arguments, as JSON").fill(before.replace(cents, "500"))
    page.get_by_role("button", name="Review the change").click()
    expect(page.locator(".diff .plus")).to_contain_text('"cents": 500')
    page.go_back()
    expect(page.get_by_role("alert")).to_contain_text("unknown: order")
    page.go_forward()
    page.get_by_role("button", name="Approve it so").click()
    expect(page.locator("#verdict")).to_contain_text("Applied.")
    expect(page.locator("#since-card")).not_to_contain_text("by now")
    page.go_back()  # to what was reviewed, which is decided by now
    expect(page.get_by_role("heading", name="Review the change")).to_have_count(0)
    expect(page.get_by_role("heading", name="refund", exact=True)).to_be_visible()
    desk.until(
        lambda views: "5.00" in str(views.session("browser-7")[0]["last_reply"]), "a refund of 5.00"
    )


@whole
def test_lists_stay_usable_with_ten_thousand_sessions(
    context: BrowserContext, desk: Running
) -> None:
    fill(desk.settings.postgres_url, desk.settings.namespace, {"many": MANY})
    page = context.new_page()
    enter(page, desk.key("sue", "operator", tenant="many"))
    for path in ("", "sessions", "sessions?show=Waiting", "approvals", "ledger"):
        began = time.monotonic()
        page.goto(f"/console/{path}")
        page.locator("[data-row]").first.wait_for()
        assert time.monotonic() - began < 3, path
    page.goto("/console/sessions")
    seen = set()
    for _ in range(4):
        rows = page.locator("tbody th a").all_inner_texts()
        assert len(rows) == 50
        assert not seen.intersection(rows)
        seen |= set(rows)
        page.get_by_role("link", name="More").click()
        page.wait_for_load_state()
    page.keyboard.press("/")
    page.keyboard.type("s-9999")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)


OUTSIDE = """
() => [...document.querySelectorAll("body *")].filter((one) => {
  const box = one.getBoundingClientRect();
  if (!box.width || one.closest(".sr, .skip, thead")) return false;
  return box.right > innerWidth + 1 || box.left < -1;
}).map((one) => one.outerHTML.slice(0, 80))
"""
"""What begins or ends beyond the window: it is cut off, or has to be scrolled to."""


@pytest.mark.parametrize("width", [320, 390, 1280])
@whole
def test_no_page_is_wider_than_its_window_and_nothing_on_it_is_cut_off(
    page: Page, desk: Running, width: int
) -> None:
    asked = desk.wants_approval(f"wide-{width}", "W" * 300)
    page.set_viewport_size({"width": width, "height": 800})
    one = f"approvals/wide-{width}/{asked['proposal_id']}"
    for path in ("", "approvals", one, "sessions", f"sessions/wide-{width}", "ledger"):
        page.goto(f"/console/{path}")
        over = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert over <= 0, path
        assert page.evaluate(OUTSIDE) == [], path
