"""Every released version of the workflows that we ship still takes the path of its recorded histories, for ever."""

import pytest

from tests.golden.recordings import FOLDER, PLAYED, history_of, load
from wakeful.commands.check import Facts
from wakeful.deploy.auditing.differing import Driver, of_version
from wakeful.deploy.auditing.exported import open_export
from wakeful.events import records as r
from wakeful.events.blobs import MemoryBlobs
from wakeful.events.codec import decode_event
from wakeful.processors.testing.engine import DIGEST_KEY

AGAIN = "python -m tests.golden.recordings"


def sessions_in(path: object) -> dict[str, list[r.Event]]:
    found: dict[str, list[r.Event]] = {}
    for record in open_export(path).records():
        event = decode_event(record.value, record.headers)
        found.setdefault(event.envelope.session_id, []).append(event)
    return found


@pytest.mark.parametrize("target", PLAYED)
def test_each_version_decides_as_its_histories_say(target: str) -> None:
    app = load(target)
    for name, versions in app.workflows.items():
        for version in versions:
            path = history_of(name, version)
            assert path.exists(), f"{name} v{version} has no history: run '{AGAIN}'"
            driver = Driver(of_version(app), Facts(DIGEST_KEY, blobs=MemoryBlobs()))
            sessions = sessions_in(path)
            changed = [one for events in sessions.values() for one in driver.changed(events)]
            assert changed == [], f"raise the version of {name}, or guard the change"
            assert driver.turns >= len(sessions) > 0


def test_no_history_is_left_of_a_version_that_is_not_loaded_any_more() -> None:
    loaded = {
        history_of(name, version).name
        for target in PLAYED
        for name, versions in load(target).workflows.items()
        for version in versions
    }
    assert loaded == {path.name for path in FOLDER.iterdir()}


def test_a_step_that_is_changed_in_one_version_is_found_by_its_history() -> None:
    app = load("examples/saga.py")
    workflow = app.workflows["trips"][1]
    before = workflow.function

    async def asks_first(turn, made, message):
        await turn.say("Are you sure?")
        return await before(turn, made, message)

    driver = Driver(of_version(app), Facts(DIGEST_KEY, blobs=MemoryBlobs()))
    workflow.function = asks_first
    try:
        events = next(iter(sessions_in(history_of("trips", 1)).values()))
        (found,) = driver.changed(events)
    finally:
        workflow.function = before
    assert (found.turn, found.step) == (1, 1)
    assert "activity book_flight" in found.expected
