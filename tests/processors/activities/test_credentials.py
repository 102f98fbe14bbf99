"""Credentials belong to one attempt: asked for anew, told what they are for, in no report; a read never gets a write's."""

import pytest
from pydantic import ValidationError

import wakeful
from wakeful import Access, Read, RetryLater, Write, activity, credentials
from wakeful.commands.models import CompleteActivity
from wakeful.events import contracts as words
from wakeful.processors.activities.attempt import Ask, LookUp, Run, Say, Wait, hung, steps_of
from wakeful.processors.activities.definitions import Declined
from wakeful.processors.activities.runner import Runner
from wakeful.processors.activities.telling import hang_in
from wakeful.processors.app import App, AppError, gather, load_app

from .conftest import DIGEST_KEY, played

SECRET = "s3cret/of+the bank"
KEY = "acme/s1/1/1"


class Vault:
    """Gives what it is told to, notes for what, and fails on demand."""

    def __init__(self):
        self.asked, self.used, self.fails, self.gives = [], [], [], SECRET

    def give(self, access):
        self.asked.append(access)
        if self.fails and (fault := self.fails.pop(0)) is not None:
            raise fault
        return f"{'write' if access.writes else 'read'} {access.attempt}"

    def app(self, *, sync=False, look_up_takes=True):
        if sync:

            @credentials
            def vault(access: Access) -> str:
                return self.give(access)

        else:

            @credentials
            async def vault(access: Access) -> str:
                return self.give(access)

        async def find(key: str, *, credentials: str) -> str | None:
            self.used.append(("find", credentials))
            return None

        async def find_openly(key: str) -> str | None:
            return None

        @activity(contract=Write(idempotent=True))
        async def undo(done_key: str = "", *, credentials: str) -> None:
            self.used.append(("undo", credentials))

        async def tool(*, key: str, credentials: str) -> str:
            self.used.append(("tool", credentials))
            return key

        contracts = {
            words.READ: Read(),
            words.IDEMPOTENT: Write(idempotent=True),
            words.LOOKUP: Write(lookup=find if look_up_takes else find_openly),
            words.UNDO: Write(undo=undo),
            words.AT_MOST_ONCE: Write(),
        }
        return gather([vault, *(activity(contract=c, name=w)(tool) for w, c in contracts.items())])


@pytest.fixture
def vault():
    return Vault()


class Attempt:
    """One attempt: the kinds of its steps, and what it said."""

    def __init__(self, bench, app, name, *, fresh=True, over=(), contract=None, **task):
        contract = contract or (words.IDEMPOTENT if name == "undo" else name)
        self.task = bench.task(name, {}, contract=contract, on_behalf_of="bob", **task)
        self.runner = Runner(
            app.activities, worker_id="w1", digest_key=DIGEST_KEY, provider=app.credentials
        )
        over, self.steps = list(over), []
        steps = steps_of(
            self.runner,
            self.task,
            fresh=fresh,
            waited_ms=0,
            is_over=lambda: over.pop(0) if over else False,
        )
        step = next(steps)
        while not isinstance(step, Say):
            self.steps.append(type(step))
            step = steps.send(None if isinstance(step, Wait) else played(step))
        self.body = step.body

    @property
    def failure(self):
        return self.body.failure


ALL = [words.READ, words.IDEMPOTENT, words.LOOKUP, words.UNDO, words.AT_MOST_ONCE]
UNDER = pytest.mark.parametrize("name", ALL)
BOTH = pytest.mark.parametrize("sync", [False, True])


@BOTH
@pytest.mark.parametrize("name", [*ALL, "undo"])
def test_only_a_write_is_given_credentials_that_write(bench, vault, name, sync):
    attempt = Attempt(bench, vault.app(sync=sync), name)
    assert isinstance(attempt.body, CompleteActivity)
    assert attempt.steps == [Ask, Run]
    writes = name != words.READ
    called = "undo" if name == "undo" else "tool"
    assert vault.used == [(called, "write 1" if writes else "read 1")]
    assert vault.asked == [Access(name, writes, "acme", "s1", "bob", 1, KEY)]


@BOTH
def test_a_look_up_of_a_write_is_given_those_that_read(bench, vault, sync):
    attempt = Attempt(bench, vault.app(sync=sync), words.LOOKUP, attempt=2, fresh=False)
    assert attempt.steps == [Wait, Ask, LookUp, Ask, Run]
    assert vault.used == [("find", "read 2"), ("tool", "write 2")]
    assert {access.activity for access in vault.asked} == {words.LOOKUP}


def test_code_that_became_a_write_gets_none_for_what_was_asked_of_a_read(bench, vault):
    Attempt(bench, vault.app(), words.IDEMPOTENT, contract=words.READ)
    Attempt(bench, vault.app(), words.READ, contract=words.IDEMPOTENT)
    assert [access.writes for access in vault.asked] == [False, False]


@UNDER
def test_each_attempt_asks_again(bench, vault, name):
    app = vault.app()
    for number in (1, 2, 3):
        Attempt(bench, app, name, attempt=number)
    assert [access.attempt for access in vault.asked] == [1, 2, 3]
    assert [used[-1] for _, used in vault.used] == ["1", "2", "3"]


def test_they_are_no_argument_of_the_action(bench, vault):
    tool = vault.app().activities[words.READ]
    assert tool.call().arguments == {}
    with pytest.raises(TypeError, match="credentials"):
        tool.call(credentials="mine")
    with pytest.raises(ValidationError):
        tool.typed({"credentials": "mine"})


def test_a_call_does_not_show_them(bench, vault):
    app = vault.app()
    runner = Runner(app.activities, worker_id="w", digest_key=DIGEST_KEY, provider=app.credentials)
    task = bench.task(words.READ, {})
    steps = steps_of(runner, task, fresh=True, waited_ms=0, is_over=lambda: False)
    given = played(next(steps))
    run = steps.send(given)
    assert run.call.arguments["credentials"] == given.credentials == "read 1"
    assert "read 1" not in repr(run) + repr(given)


@BOTH
@UNDER
def test_a_provider_that_raises_says_so_without_its_words_and_nothing_ran(bench, vault, name, sync):
    vault.fails = [PermissionError(f"{SECRET} is no longer valid")]
    attempt = Attempt(bench, vault.app(sync=sync), name)
    failure = attempt.failure
    assert (failure.kind, failure.type) == ("no_credentials", "PermissionError")
    assert "provider 'vault'" in failure.message
    assert name in failure.message
    assert "in give" in failure.detail
    assert SECRET not in repr(failure)
    assert (attempt.steps, vault.used) == ([Ask], [])


def test_a_provider_may_ask_to_be_asked_later(bench, vault):
    vault.fails = [RetryLater("7s")]
    assert Attempt(bench, vault.app(), words.READ).failure.retry_after_ms == 7_000


def test_a_look_up_without_credentials_hides_no_earlier_call(bench, vault):
    vault.fails = [PermissionError(SECRET)]
    failure = Attempt(bench, vault.app(), words.LOOKUP, attempt=2, fresh=False).failure
    assert (failure.kind, failure.type) == ("look_up_failed", "PermissionError")
    assert "no_credentials" in failure.message
    assert SECRET not in repr(failure)


@pytest.mark.parametrize("takes", [False, True])
def test_once_a_look_up_has_found_nothing_it_is_certain_that_nothing_ran(bench, vault, takes):
    vault.fails = [None, PermissionError()] if takes else [PermissionError()]
    app = vault.app(look_up_takes=takes)
    attempt = Attempt(bench, app, words.LOOKUP, attempt=2, fresh=False)
    assert attempt.steps[-2:] == [LookUp, Ask]
    assert attempt.failure.kind == "no_credentials"


def test_after_a_lost_answer_a_look_up_without_credentials_tells_both(bench, vault):
    app = vault.app()

    async def lost(*, key: str, credentials: str) -> str:
        raise ConnectionError(f"no answer to {credentials}-token")

    app.activities[words.LOOKUP].function = lost
    vault.fails = [None, PermissionError(SECRET)]
    failure = Attempt(bench, app, words.LOOKUP).failure
    assert failure.kind == "look_up_failed"
    assert "no answer" in failure.message
    assert "provider 'vault'" in failure.message


@pytest.mark.parametrize("name", [words.LOOKUP, words.UNDO, words.AT_MOST_ONCE])
def test_what_is_over_when_the_provider_answers_does_not_run(bench, vault, name):
    attempt = Attempt(bench, vault.app(), name, over=[False, True])
    assert (attempt.steps, attempt.body, vault.used) == ([Ask], None, [])


def test_a_worker_without_a_provider_runs_nothing_that_needs_one(bench, vault):
    app = vault.app()
    app.credentials = None
    failure = Attempt(bench, app, words.AT_MOST_ONCE).failure
    assert failure.kind == "no_credentials"
    assert "no provider" in failure.message


def test_a_provider_that_hangs_has_given_none_unless_an_earlier_call_may_hide(bench, vault):
    kinds = {}
    for name in ALL:
        attempt = Attempt(bench, vault.app(), name)
        said = [
            hung(attempt.runner, attempt.task, hang_in(None), fresh=fresh, begun=False).failure
            for fresh in (True, False)
        ]
        kinds[name] = [failure.kind for failure in said]
        assert "provider 'vault'" in said[0].message
    assert kinds.pop(words.LOOKUP) == ["no_credentials", "look_up_failed"]
    assert {kind for both in kinds.values() for kind in both} == {"no_credentials"}


@activity(contract=Read())
async def needy(*, credentials: str) -> None: ...


async def find_needily(key: str, *, credentials: int) -> str | None: ...


@activity(contract=Write(lookup=find_needily))
async def looks(*, credentials: str) -> str:
    return ""


@activity(
    contract=Write(undo=activity(contract=Write(idempotent=True), name="undo")(needy.function))
)
async def undone() -> None: ...


@credentials
def one(access: Access) -> str:
    """Gives what is asked for."""
    return access.activity


@credentials
async def other(access: Access) -> str:
    return ""


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        (needy, "activity 'needy' takes credentials"),
        (looks, "the look-up 'find_needily' of activity 'looks' takes credentials"),
        (undone, "activity 'undo' takes credentials"),
    ],
)
def test_an_app_that_lacks_a_provider_is_told_what_to_write(declared, told):
    with pytest.raises(AppError, match=f"{told}, and app has nobody to give them: write '@cred"):
        gather([declared])
    assert gather([declared, one, one]).credentials is one
    assert gather([one]).credentials is one


def test_an_app_has_one_provider():
    with pytest.raises(AppError, match="two providers of credentials, 'one' and 'other'"):
        gather([one, other])


def test_a_module_declares_its_provider_as_it_declares_the_rest(tmp_path):
    path = tmp_path / "banking_with_credentials.py"
    text = "from wakeful import Read, activity, credentials, Access\n"
    text += "@activity(contract=Read())\nasync def find(*, credentials: str) -> None: ...\n"
    path.write_text(text)
    with pytest.raises(AppError, match="nobody to give them"):
        load_app(str(path))
    path.write_text(f"{text}@credentials\ndef safe(access: Access) -> str:\n    return ''\n#\n")
    provider = load_app(str(path)).credentials
    assert provider is not None
    assert (provider.name, provider.is_sync) == ("safe", True)


def test_a_provider_is_its_function_for_its_own_tests():
    access = Access(
        "find", writes=False, tenant="t", session_id="s", on_behalf_of=None, attempt=1, key="k"
    )
    assert one(access) == "find"
    assert (repr(one), one.__doc__) == ("<credentials 'one'>", "Gives what is asked for.")
    assert App().credentials is None
    assert wakeful.credentials is credentials


def test_declarations_that_cannot_work_are_declined():
    with pytest.raises(Declined, match=r"'none' cannot be asked .*: write 'def none\(access: Acc"):

        @credentials
        def none() -> str: ...

    with pytest.raises(Declined, match="'yields' yields"):

        @credentials
        def yields(access):
            yield ""

    with pytest.raises(Declined, match="is not a function"):
        credentials(object())
    with pytest.raises(Declined, match="activity 'find' takes 'credentials' by position"):

        @activity(contract=Read())
        async def find(credentials: str) -> None: ...

    async def seek(key: str, credentials: str) -> str | None: ...

    with pytest.raises(Declined, match="look-up 'seek' of activity 'pay' takes 'credentials' by"):

        @activity(contract=Write(lookup=seek))
        async def pay() -> str: ...
