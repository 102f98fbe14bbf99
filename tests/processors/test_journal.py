"""A journal is shared without copies, and no branch sees what another appended."""

import pytest

from wakeful.events import records as r
from wakeful.processors.journal import Journal

ENVELOPE = r.Envelope(
    "acme",
    "s1",
    1,
    0,
    "ann",
    None,
    "test",
    r.Cause("c", 0, 0, "c1", None, None),
    0,
    None,
    bytes(32),
)


def fact(name: str) -> r.Event:
    return r.Event(ENVELOPE, r.SessionHeld(name, ""))


def asked(activity_id: str) -> r.Event:
    payload = r.Payload("json", b"1", None, b"", 1, None)
    body = r.ActivityRequested(
        activity_id, 1, 1, "a", "q", "read", payload, b"", "k", 1, 1, 1, "none", None, None
    )
    return r.Event(ENVELOPE, body)


def test_the_branch_that_goes_on_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "_part", lambda _: pytest.fail("copied"))
    live = Journal()
    for number in range(100):
        scratch = live.branch()
        scratch.append(fact(f"{number}"))
        assert len(live) == number
        live = scratch
    assert [event.body.reason for event in live] == [f"{n}" for n in range(100)]


def test_what_a_discarded_branch_appended_is_seen_by_nobody() -> None:
    live = Journal([fact("a")])
    discarded, second = live.branch(), live.branch()
    discarded.append(fact("lost"))
    discarded.append(asked("1.1"))
    second.append(fact("b"))
    assert live == [fact("a")]
    assert second == [fact("a"), fact("b")]
    assert discarded == [fact("a"), fact("lost"), asked("1.1")]
    live.append(fact("c"))
    assert second == [fact("a"), fact("b")]
    assert second.request_of("1.1") is None
    assert discarded.request_of("1.1") == asked("1.1")


def test_it_is_read_like_a_list_of_its_own_length() -> None:
    live = Journal([fact("a"), fact("b"), fact("c")])
    live.branch().append(fact("d"))
    assert (live[0], live[-1], live[-2:], live[1:9]) == (
        fact("a"),
        fact("c"),
        [fact("b"), fact("c")],
        [fact("b"), fact("c")],
    )
    with pytest.raises(IndexError):
        live[3]
    assert list(reversed(live)) == [fact("c"), fact("b"), fact("a")]
    assert live != [fact("a")]
    assert live != 3
    assert "SessionHeld" in repr(live)
    assert not Journal()


def test_a_request_is_found_without_a_search(monkeypatch: pytest.MonkeyPatch) -> None:
    live = Journal([fact("a"), *(asked(f"1.{n}") for n in range(50))])
    monkeypatch.setattr(Journal, "__iter__", lambda _: pytest.fail("searched"))
    assert live.request_of("1.7") == asked("1.7")
    assert live.request_of("2.7") is None
