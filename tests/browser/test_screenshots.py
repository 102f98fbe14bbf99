"""Each page as people see it, at desktop and phone width, light and dark: `make screenshots` keeps them in docs/screenshots."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from .conftest import enter, whole
from .png import packed
from .running import Running

SIZES = {"desktop": (1280, 800), "phone": (390, 844)}

BYTES_MAX = 100_000

CUSTOMERS = {
    "order-2041": "My garden chair arrived with a broken leg.",
    "order-2077": "The lamp never worked. I want my money back.",
    "order-2102": "Wrong colour, please refund.",
    "order-2131": "The kettle leaks from below since Tuesday.",
    "order-2156": "The rain coat came in a size too small.",
}

PATHS = {
    "overview": "",
    "approvals": "approvals",
    "sessions": "sessions",
    "session": "sessions/order-2041",
    "session-held": "sessions/odd-request",
    "ledger": "ledger",
    "dead-letters": "dead-letters",
}


@pytest.fixture(scope="module")
def pages(desk: Running) -> dict[str, str]:
    """A desk with something of everything; each page's name and path."""
    for session_id, text in CUSTOMERS.items():
        desk.wants_approval(session_id, text)
    for workflow, session_id in (
        *(("treasury", "treasury-q3"), ("carrier", "parcel-77"), ("labels", "label-19")),
        *(("payments", "invoice-9"), ("broken", "odd-request")),
    ):
        desk.ask(workflow, session_id, "DE02 1203 0000 0000 2020 51", "tomas")
    supervisor = desk.visitor("sue", "operator")
    for session_id in ("order-2041", "order-2131"):
        path = f"approvals/{session_id}/{desk.approval(session_id)['proposal_id']}"
        supervisor.post(
            f"{path}/decide", path, decision="approve", was_shown=supervisor.shown(path)
        )
        desk.until(lambda views, of=session_id: views.session(of)[0]["last_reply"], "a reply")
    with desk.client("keeper") as client:
        client.send("order-9999", "Where is my order?")
        client.change_artifact("order-2102", "refund policy", "2026-02")
    desk.until(
        lambda views: any(one["supersedes"] for one in views.approvals(session_id="order-2102")),
        "a proposal in another's place",
    )
    desk.until(lambda views: views.session("odd-request")[0]["held_reason"], "a hold")
    anew = desk.approval("order-2102")["proposal_id"]
    return {**PATHS, "approval": f"approvals/order-2102/{anew}"}


@whole
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_every_page_is_drawn(
    chromium: Browser, desk: Running, pages: dict[str, str], tmp_path: Path, size: str, theme: str
) -> None:
    folder = Path(os.environ.get("WAKEFUL_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    width, height = SIZES[size]
    window = chromium.new_context(
        base_url=desk.url, viewport={"width": width, "height": height}, color_scheme=theme
    )
    page = window.new_page()
    page.goto("/console/sign-in")
    drawn = {"sign-in": draw(page, folder / f"sign-in-{size}-{theme}.png")}
    enter(page, desk.key("sue", "operator"))
    for name, path in pages.items():
        page.goto(f"/console/{path}")
        page.locator("h1").wait_for()
        drawn[name] = draw(page, folder / f"{name}-{size}-{theme}.png")
    window.close()
    assert {name: count for name, count in drawn.items() if not 2_000 < count < BYTES_MAX} == {}


def draw(page: Page, path: Path) -> int:
    path.write_bytes(packed(page.screenshot(animations="disabled")))
    return path.stat().st_size
