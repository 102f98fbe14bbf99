"""Live streams of a real gateway over real sessions: every event once, tokens of what runs, and nobody else's."""

import json
import socket
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import redis
from tests.deploy.gateway.live_rig import SECRET, Client, Gateway, live_rig, until

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]


@pytest.fixture(scope="module")
def rig(endpoints, postgres_url, keys, tmp_path_factory):
    with live_rig(endpoints, postgres_url, keys, tmp_path_factory.mktemp("live")) as one:
        yield one


@pytest.fixture(scope="module")
def serving(rig):
    one = Gateway(rig.settings)
    try:
        one.start()
        yield one
    finally:
        one.close()


@pytest.fixture
def gateway(serving):
    """The module's; one that a test has ended is started anew."""
    if not serving.is_up():
        serving.start()
    return serving


def tokens(client):
    return [
        (one.kind, one.data["attempt"], one.data.get("text"))
        for one in client.frames
        if one.kind.startswith("token")
    ]


def attempts(client):
    """Number, text and end of each attempt; words that come close together may be shown as one."""
    told, text = [], ""
    for kind, attempt, words in tokens(client):
        if kind == "token":
            text += words
        else:
            told.append((attempt, text, kind))
            text = ""
    assert text == ""
    return told


def test_a_stream_has_every_event_once_and_ends_with_the_session(rig, gateway):
    rig.open("a1")
    with Client(gateway, "/v1/sessions/a1/stream", gateway.key("viewer")) as client:
        rig.say("a1")
        client.until("TurnCompleted")
        rig.say("a1", "ends")
        client.until("end")
        assert client.seqs() == list(range(1, len(client.seqs()) + 1))
        last = client.frames[-1]
        assert (last.data["status"], last.data["seq"]) == ("Completed", client.seqs()[-1])
        assert client.connects == 1
    # Whoever comes later sees the same; whoever comes back sees the rest.
    with Client(gateway, "/v1/sessions/a1/stream", gateway.key("viewer")) as again:
        events = [one for one in client.frames if one.id is not None]
        assert [one for one in again.until("end").frames if one.id is not None] == events
    path = "/v1/sessions/a1/stream?after=3"
    with Client(gateway, path, gateway.key("viewer")) as rest:
        assert rest.until("end").seqs() == client.seqs()[3:]


def test_an_event_is_shown_as_tail_shows_it(rig, gateway, capsys, monkeypatch):
    from wakeful.deploy.cli.main import invoke

    rig.open("t1")
    with Client(gateway, "/v1/sessions/t1/stream", gateway.key("viewer")) as client:
        client.until("SessionOpened")
    for name, value in rig.settings.to_environ().items():
        monkeypatch.setenv(name, value)
    capsys.readouterr()
    invoke(["tail", "--session", "t1", "--from-start", "--no-follow", "--json"])
    shown = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one.data for one in client.frames if one.id is not None] == shown


def test_tokens_come_in_order_and_end_with_the_result(rig, gateway):
    rig.open("k1")
    with Client(gateway, "/v1/sessions/k1/stream", gateway.key("viewer")) as client:
        rig.say("k1", words=("We ", "will ", "see."), pause_ms=100, waits=True)
        rig.heard("k1", client, "We will see.")
        client.until("TurnCompleted")
        assert attempts(client) == [(1, "We will see.", "token-end")]
        kinds = client.kinds()
        assert kinds.index("token-end") == kinds.index("ActivityCompleted") - 1
        shown = [one.data["index"] for one in client.frames if one.kind == "token"]
        assert shown == list(range(len(shown)))


def test_whoever_comes_in_the_middle_is_shown_the_tokens_so_far(rig, gateway):
    rig.open("k2")
    key = gateway.key("viewer")
    with Client(gateway, "/v1/sessions/k2/stream", key) as first:
        rig.say("k2", words=[f"{n} " for n in range(20)], pause_ms=50, waits=True)
        first.until("token", 5)
        with Client(gateway, "/v1/sessions/k2/stream", key, last_id=first.last_id) as second:
            rig.heard("k2", second, "".join(f"{n} " for n in range(20)))
            second.until("token-end")
            first.until("token-end")
            assert tokens(second) == tokens(first)


def test_an_attempt_that_fails_is_reset_before_the_next_is_shown(rig, gateway):
    rig.open("k3")
    with Client(gateway, "/v1/sessions/k3/stream", gateway.key("viewer")) as client:
        rig.say("k3", "flaky", words=("half", " of it"), pause_ms=60, waits=True)
        rig.heard("k3", client, "half of it", "lost")
        client.until("token-reset")
        rig.heard("k3", client, "half of it")
        client.until("TurnCompleted")
        assert attempts(client) == [
            (1, "half of it", "token-reset"),
            (2, "half of it", "token-end"),
        ]


def test_an_attempt_whose_worker_was_killed_is_reset_and_shown_anew(rig, gateway):
    rig.open("k4")
    with Client(gateway, "/v1/sessions/k4/stream", gateway.key("viewer")) as client:
        rig.say("k4", "dies", words=("half", " of it"), pause_ms=60, waits=True)
        rig.heard("k4", client, "half of it", "lost")
        client.until("token-reset")
        rig.heard("k4", client, "half of it")
        client.until("TurnCompleted")
        ends = [(text, how) for _, text, how in attempts(client)]
        assert ends == [("half of it", "token-reset"), ("half of it", "token-end")]


def test_a_secret_in_tokens_is_masked_wherever_it_is_cut(rig, gateway):
    rig.open("k5")
    with Client(gateway, "/v1/sessions/k5/stream", gateway.key("viewer")) as client:
        rig.say("k5", "leaks")
        rig.heard("k5", client, "[***]" * (len(SECRET) - 1))
        client.until("TurnCompleted")
        text = "".join(one.data["text"] for one in client.frames if one.kind == "token")
    assert text == "[***]" * (len(SECRET) - 1) + "***"
    with redis.Redis.from_url(rig.settings.redis) as server:
        stored = b"".join(
            key + (server.dump(key) or b"")
            for key in server.scan_iter(f"{rig.settings.namespace}*")
        )
    assert b"k5" in stored
    assert SECRET[:12].encode() not in stored


def test_streams_of_another_tenant_are_not_found_and_its_tokens_not_shown(rig, gateway):
    rig.open("mine")
    rig.open("mine", "theirs", tenant="other")
    key = gateway.key("viewer")
    status, told, _ = gateway.get("/v1/sessions/theirs/stream", key)
    assert (status, told["type"]) == (404, "urn:wakeful:problem:unknown_session")
    unknown = gateway.get("/v1/sessions/no-such/stream", key)[1]
    assert told["detail"].replace("theirs", "X") == unknown["detail"].replace("no-such", "X")
    for crossing in ("other%2Fmine", "..%2Fother%2Fmine", "other/mine", "mine%00", "*", "mine:x/y"):
        assert gateway.get(f"/v1/sessions/{crossing}/stream", key)[0] == 404
    with (
        Client(gateway, "/v1/sessions/mine/stream", key) as ours,
        Client(
            gateway, "/v1/sessions/mine/stream", gateway.key("viewer", tenant="other")
        ) as others,
        Client(gateway, "/v1/stream", key) as all_of_ours,
    ):
        others.until("SessionOpened")
        rig.say("mine", tenant="other", pause_ms=100, waits=True)
        rig.heard("mine", others, "We will see.")
        others.until("TurnCompleted")
        rig.say("mine", "ends")
        ours.until("end")
        all_of_ours.until("SessionCompleted")
    assert {one.data["tenant"] for one in ours.frames if one.id} == {"acme"}
    assert {one.data["tenant"] for one in all_of_ours.frames if one.id} == {"acme"}
    assert tokens(ours) == tokens(all_of_ours) == []
    assert attempts(others) == [(1, "We will see.", "token-end")]


def test_what_is_wrong_before_a_stream_begins_is_a_problem(rig, gateway):
    rig.open("p1")
    path, key = "/v1/sessions/p1/stream", gateway.key("viewer")
    for status, given, asked in (
        (401, None, path),
        (401, "wk_00000000_" + "x" * 43, path),
        (403, gateway.key("hook"), path),
        (404, key, "/v1/sessions/p2/stream"),
        (422, key, f"{path}?after=-1"),
        (422, key, f"{path}?after=1e3"),
        (401, None, "/v1/stream"),
        (403, gateway.key("hook"), "/v1/stream"),
        (422, key, "/v1/stream?after=x"),
        (409, key, "/v1/stream?after=0:999999999"),
        (409, key, "/v1/stream?after=99:0"),
    ):
        answered, told, headers = gateway.get(asked, given)
        assert (answered, told["status"]) == (status, status)
        assert headers["content-type"] == "application/problem+json"
        assert told["type"].startswith("urn:wakeful:problem:")
        assert told["detail"]


def test_an_id_that_no_event_has_is_a_problem_and_nothing_is_skipped(rig, gateway):
    rig.open("p3")
    with Client(gateway, "/v1/sessions/p3/stream?after=77", gateway.key("viewer")) as client:
        client.until("problem")
        assert client.frames[-1].data["type"] == "urn:wakeful:problem:unknown_position"
        assert client.seqs() == []


def test_a_tenants_stream_has_all_sessions_filters_and_goes_on_from_a_position(rig, gateway):
    key = gateway.key("viewer")
    with Client(gateway, "/v1/stream", key) as everything:
        until(lambda: everything.last_id, "the position of a stream that has begun")
        start = everything.last_id
        rig.open("all1", "all2")
        everything.until("SessionOpened", 2)
        with (
            Client(gateway, "/v1/stream?kind=MessageReceived&kind=ReplySent", key) as some,
            Client(gateway, "/v1/stream?session_id=all2", key) as second,
        ):
            until(lambda: some.last_id and second.last_id, "both to begin")
            rig.say("all1")
            rig.say("all2")
            everything.until("TurnCompleted", 2)
            some.until("ReplySent", 2)
            second.until("TurnCompleted")
            assert set(some.kinds()) == {"MessageReceived", "ReplySent"}
            assert {one.data["session_id"] for one in second.frames} == {"all2"}
        with Client(gateway, "/v1/stream", key, last_id=start) as again:
            again.until("TurnCompleted", 2)

            def by_session(client):
                found = {}
                for one in client.frames:
                    found.setdefault(one.data["session_id"], []).append(one.data["seq"])
                return found

            assert by_session(again) == by_session(everything)
        middle = everything.frames[4].id
        with Client(gateway, "/v1/stream", key, last_id=middle) as rest:
            rest.until("TurnCompleted", 2)
            places = [(one.data["partition"], one.data["offset"]) for one in everything.frames[5:]]
            assert sorted((o.data["partition"], o.data["offset"]) for o in rest.frames) == sorted(
                places
            )


def test_without_redis_work_and_streams_go_on(rig, gateway):
    rig.open("n1")
    with Client(gateway, "/v1/sessions/n1/stream", gateway.key("viewer")) as client:
        rig.say("n1", words=[f"{n} " for n in range(20)], pause_ms=50, waits=True)
        client.until("token", 2)
        with redis.Redis.from_url(rig.settings.redis) as server:
            server.flushall()
        rig.heard("n1", client, "".join(f"{n} " for n in range(20)))
        client.until("TurnCompleted")
        assert client.seqs() == list(range(1, len(client.seqs()) + 1))


def test_fifty_clients_see_each_event_once_though_the_gateway_is_killed_in_the_middle(rig, gateway):
    sessions = [f"f{n}" for n in range(50)]
    rig.open(*sessions)
    key = gateway.key("viewer")
    clients = [Client(gateway, f"/v1/sessions/{one}/stream", key) for one in sessions]
    for one in clients:
        one.until("SessionOpened")
    with rig.commands() as commands:
        for turn in range(4):
            for one in sessions:
                commands.send(one, {"session": one, "mood": "ok", "words": [f"{turn}"]})
            if turn in (1, 2):
                until(partial(some_have, clients, turn), "replies")
                gateway.kill()
                gateway.start()
        for one in sessions:
            commands.send(one, {"session": one, "mood": "ends"})
    for one in clients:
        one.until("end").close()
        assert one.seqs() == list(range(1, len(one.seqs()) + 1))
        assert one.kinds().count("ReplySent") == 4
        assert one.connects >= 2


def some_have(clients, turn):
    return sum(one.has("ReplySent", turn) for one in clients) > 10


def test_a_client_that_reads_nothing_is_cut_off_after_a_while_and_others_go_on(rig):
    """Given more than it takes in, when a client leaves it unread, then its connection ends."""
    rig.open("stuck-1")
    rig.say("stuck-1", words=["x" * 100_000] * 2)
    gateway = Gateway(rig.settings, WAKEFUL_HTTP_UNREAD_S="0.5")
    try:
        gateway.start()
        key = gateway.key("viewer")
        with Client(gateway, "/v1/sessions/stuck-1/stream", key) as reads:
            reads.until("TurnCompleted")
            with socket.socket() as stuck:
                stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                stuck.connect(("127.0.0.1", urlsplit(gateway.url).port))
                asked = "GET /v1/sessions/stuck-1/stream HTTP/1.1\r\nHost: 127.0.0.1"
                stuck.sendall(f"{asked}\r\nAuthorization: Bearer {key}\r\n\r\n".encode())
                assert stuck.recv(12) == b"HTTP/1.1 200"
                until(lambda: gateway.connections() == 1, "the stuck client to be cut off")
            rig.say("stuck-1", "ends")
            reads.until("end")
            assert reads.connects == 1
    finally:
        gateway.close()


def test_clients_that_are_gone_leave_no_thread_and_no_socket_behind(rig, gateway):
    rig.open("g1")
    key = gateway.key("viewer")
    with Client(gateway, "/v1/sessions/g1/stream", key) as first:
        first.until("SessionOpened")
    until(lambda: gateway.connections() == 0, lambda: f"{gateway.connections()} connections")
    threads = len(list(Path(f"/proc/{gateway.pid}/task").iterdir()))
    for _ in range(3):
        clients = [Client(gateway, "/v1/sessions/g1/stream", key) for _ in range(20)]
        for one in clients:
            one.until("SessionOpened")
        assert gateway.connections() == 20
        for one in clients:
            one.close()
        until(lambda: gateway.connections() == 0, lambda: f"{gateway.connections()} connections")
    # Threads that answer questions are kept, and are as many as were ever needed at once: no more than 40.
    assert len(list(Path(f"/proc/{gateway.pid}/task").iterdir())) <= threads + 45


def test_a_gateway_that_is_told_to_end_does_not_wait_for_its_streams(rig, gateway):
    rig.open("e1")
    client = Client(gateway, "/v1/sessions/e1/stream", gateway.key("viewer"))
    client.until("SessionOpened")
    assert gateway.stop() < 4.0
    client.until("closing").close()
