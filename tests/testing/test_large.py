"""A rehearsal has a store of its own: what is large in production is large in a test, and just as invisible."""

from tests.processors.large import MB, fetch_page, pile
from wakeful.testing import rehearse


def test_large_messages_results_replies_and_state_are_values_to_a_test() -> None:
    desk = rehearse(pile, fetch_page)
    desk.send("m" * MB)
    desk.send({"text": "", "last": True})
    assert [reply["seen"] for reply in desk.replies] == [MB, 0]
    assert desk.replies[1]["page"] == "r" * MB
    assert desk.outcome == {"all": "r" * 2 * MB}
    assert desk.state.text == "r" * 2 * MB


def test_large_arguments_are_values_to_a_test() -> None:
    desk = rehearse(pile, activities={"fetch_page": "f" * MB, "publish": 7})
    desk.send({"text": "x", "publish": True})
    desk.approve("publish")
    (call,) = desk.calls("publish")
    assert call.arguments == {"page": "f" * MB}
    assert desk.replies[-1] == "published 7"


def test_a_crash_at_each_step_leads_to_the_same_large_facts() -> None:
    desk = rehearse(pile, fetch_page)
    desk.crash_everywhere()
    desk.send("m" * MB)
    assert desk.state.text == "r" * MB
