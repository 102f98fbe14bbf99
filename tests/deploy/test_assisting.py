"""Wakeful as an MCP server: asked by a real client, over real views, it tells one tenant's sessions and no more."""

import asyncio
import json
import sys
from contextlib import contextmanager

import mcp
import pytest
from tests.deploy.gateway.shelves import MINE, THEIRS, Shelves, secrets_of

from wakeful.deploy.cli import context, explaining, showing
from wakeful.deploy.cli.assisting import tools_of
from wakeful.deploy.cli.errors import explain
from wakeful.deploy.mcp.serving import ANSWER_CHARACTERS_MAX, bounded, server_of

READS = [
    "list_sessions",
    "search_sessions",
    "show_session",
    "explain_session",
    "read_ledger",
    "list_approvals",
]
SESSION = {"session_id": "same-name"}


@pytest.fixture(scope="module")
def shelves(postgres_url, tmp_path_factory):
    one = Shelves(tmp_path_factory.mktemp("mcp"), postgres_url, "shelves-mcp")
    one.fill()
    yield one
    one.close()


@pytest.fixture
def ask(shelves, monkeypatch):
    """Calls one tool as a tenant; gives whether it failed, and its words."""

    @contextmanager
    def kafka(_given, *, may_be_empty=False):
        yield shelves.log

    for module in (context, showing, explaining):
        monkeypatch.setattr(module, "kafka", kafka)

    def asked(name, of=MINE, **arguments):
        given = shelves.settings.model_copy(update={"tenant": of})

        async def call():
            server = server_of(tools_of(given, frozenset()), explain)
            async with mcp.Client(server) as client:
                return await client.call_tool(name, arguments)

        answer = asyncio.run(call())
        return answer.is_error, answer.content[0].text

    return asked


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("list_sessions", {"status": "Waiting", "limit": 50}),
        ("show_session", {**SESSION, "events": 50}),
        ("explain_session", SESSION),
        ("read_ledger", SESSION),
        ("list_approvals", {}),
    ],
)
def test_a_tenant_is_told_its_own_and_nothing_of_another(ask, name, arguments):
    for tenant, other in ((MINE, THEIRS), (THEIRS, MINE)):
        failed, told = ask(name, tenant, **arguments)
        assert not failed, told
        assert "same-name" in told
        assert secrets_of(other) not in told
        json.loads(told)


@pytest.mark.parametrize(
    "name", ["show_session", "explain_session", "read_ledger", "list_approvals"]
)
def test_another_tenants_session_is_nobodys(ask, shelves, name):
    theirs = next(
        row["session_id"]
        for row in json.loads(ask("list_sessions", "t2", limit=50)[1])
        if row["session_id"] != "same-name"
    )
    for session_id in (theirs, "no-such-session"):
        failed, told = ask(name, session_id=session_id)
        assert failed
        assert f"no session '{session_id}' of tenant {MINE}" in told


def test_a_search_finds_by_attributes(ask):
    assert ask("search_sessions", attributes=["customer=nobody"]) == (False, "[]")
    assert ask("search_sessions", attributes=["nonsense"])[0]


@pytest.mark.parametrize(
    ("name", "arguments", "told"),
    [
        ("list_sessions", {"limit": 5_000}, "limit: Input should be less than or equal to 50"),
        ("list_sessions", {"tenant": THEIRS}, "tenant: Extra inputs are not permitted"),
        ("list_sessions", {"status": "'; DROP TABLE sessions"}, "status: Input should be"),
        ("show_session", {"session_id": "a\0b"}, "session id"),
        ("decide_approval", {}, "no tool 'decide_approval'"),
        ("send_message", {}, "no tool 'send_message'"),
    ],
)
def test_what_it_does_not_take_is_refused_in_words(ask, name, arguments, told):
    failed, words = ask(name, **arguments)
    assert failed
    assert told in words


def test_it_only_reads_unless_it_is_allowed_more(shelves):
    def listed(*allowed):
        return {tool.name: tool.writes for tool in tools_of(shelves.settings, frozenset(allowed))}

    assert listed() == dict.fromkeys(READS, False)
    assert listed("decide") == {**listed(), "decide_approval": True}
    assert listed("send") == {**listed(), "send_message": True}


def test_answers_are_bounded_and_their_rows_are_kept():
    rows = [{"id": n, "text": "x" * 10_000} for n in range(50)]
    told = bounded(rows)
    assert len(told) <= ANSWER_CHARACTERS_MAX
    assert [row["id"] for row in json.loads(told)] == list(range(50))
    assert len(bounded(["x" * 10] * 100_000)) < ANSWER_CHARACTERS_MAX + 50


def test_the_command_serves_on_stdio(shelves, alone):
    given = {
        "WAKEFUL_HOME": str(alone),
        "WAKEFUL_POSTGRES": shelves.url,
        "WAKEFUL_NAMESPACE": shelves.namespace,
        "WAKEFUL_TENANT": MINE,
        "WAKEFUL_KAFKA": "127.0.0.1:1",
    }
    program = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "wakeful", "mcp", "serve"], env=given
    )

    async def call():
        async with mcp.Client(program) as client:
            listed = await client.list_tools()
            answer = await client.call_tool("list_approvals", {})
            return listed.tools, answer.content[0].text

    tools, told = asyncio.run(asyncio.wait_for(call(), 60))
    assert [tool.name for tool in tools] == READS
    assert all(tool.annotations.read_only_hint for tool in tools)
    assert [row["session_id"] for row in json.loads(told)].count("same-name") == 1
