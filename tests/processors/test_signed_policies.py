"""Who may decide is said by publishers alone: what nobody vouches for, and what is older, changes nothing and stops nobody."""

from collections.abc import Callable

import pytest
from structlog.testing import capture_logs

from tests.commands.keys import CLUSTER, NOW_MS, identity, key
from tests.processors.test_control import Desk, started
from wakeful.commands.identity import INSECURE, Signed, Unchecked
from wakeful.commands.keyring import REVOKED, Keyring
from wakeful.commands.policy import EVERYBODY, NO_POLICY, NOBODY, POLICY_ERROR, Policy
from wakeful.events import records as r
from wakeful.events.codec import encode_control
from wakeful.events.headers import FINGERPRINT, record_headers
from wakeful.processors.control import POLICY_KEY

OURS = (
    key("client", tenants=frozenset({"acme"})),
    key("worker", "worker"),
    key("engine", "processor"),
    key("carol", "publisher", actor="carol"),
    key("leaked", "publisher", status=REVOKED),
    key("ended", "publisher", not_after_ms=1),
    key("publisher", "publisher"),
)
EVERY_KIND = frozenset().union(*(one.kinds for one in OURS))


def by(kid: str, *, cluster: str = CLUSTER) -> Signed:
    """Somebody with this key's secret in his hands, who signs with it whatever he likes."""
    return identity(key(kid, kinds=EVERY_KIND), cluster=cluster)


@pytest.fixture
def desk() -> Desk:
    """Sue may decide, by a set that is signed; a refund waits for her."""
    desk = Desk(identity=identity(*OURS))
    desk.publish(["sue"], version=3)
    started(desk).asked()
    return desk


def ignored(desk: Desk, act: Callable[[], None]) -> list[str]:
    """Why what is done here is ignored, as the log says."""
    with capture_logs() as logs:
        act()
        desk.run()
    told = [line for line in logs if line["log_level"] == "error"]
    assert all("set is ignored" in line["event"] and line["why"] for line in told)
    assert all("wakeful policy publish" in line["next_step"] for line in told)
    return [line["reason"] for line in told]


FORGED = {
    "unsigned": (INSECURE, {}, "unsigned"),
    "by a key that nobody knows": (by("stranger"), {}, "unknown_key"),
    "by a worker": (by("worker"), {}, "wrong_kind"),
    "by a processor": (by("engine"), {}, "wrong_kind"),
    "by a client of one tenant": (by("client"), {}, "wrong_tenant"),
    "by a publisher who speaks for another": (by("carol"), {}, "forged_actor"),
    "by a revoked key": (by("leaked"), {}, "revoked_key"),
    "by a key that is over": (by("ended"), {}, "expired_key"),
    "copied from another topic": (by("publisher"), {"topic": "other.v1"}, "bad_signature"),
    "copied from another cluster": (by("publisher", cluster="x"), {}, "bad_signature"),
}


@pytest.mark.parametrize("how", FORGED)
@pytest.mark.parametrize("members", [["eve"], ["sue", "eve"]])
def test_a_set_that_no_publisher_vouches_for_changes_nothing_and_is_told(
    desk: Desk, how: str, members: list[str]
) -> None:
    forger, more, reason = FORGED[how]
    before = desk.loops[0]._control.policy.set_hash
    assert ignored(desk, lambda: desk.publish(members, version=9, by=forger, **more)) == [reason]
    granted = desk.decided()
    assert isinstance(granted, r.ApprovalGranted)
    assert granted.policy_hash == before
    assert [seen.policy_offset for seen in desk.seen()] == [0]


def test_a_stranger_cannot_stop_decisions_by_damage_nor_take_the_policy_back(desk: Desk) -> None:
    other = encode_control(r.PolicySeen("x", 0, None, 0))
    headers = record_headers(other, "x")
    assert ignored(desk, lambda: desk.put(POLICY_KEY, b"\0\0")) == ["unsigned"]
    assert ignored(desk, lambda: desk.put(POLICY_KEY, other.value, headers)) == ["unsigned"]
    assert ignored(desk, lambda: desk.put(POLICY_KEY, None)) == ["unsigned"]
    assert isinstance(desk.decided(), r.ApprovalGranted)


def test_where_only_a_stranger_published_it_is_as_if_nothing_were() -> None:
    desk = Desk(identity=identity(*OURS))
    desk.publish(["sue"], by=by("stranger"))
    started(desk).asked()
    refused = desk.decided()
    assert (refused.check, refused.reason) == ("authority", NO_POLICY)


@pytest.mark.parametrize("unpublished", [EVERYBODY, NOBODY])
def test_where_the_only_sets_key_was_revoked_nobody_may_until_a_good_one_is_published(
    unpublished: Policy,
) -> None:
    desk = Desk(unpublished, identity=identity(*OURS))
    desk.publish(["sue"], version=5, by=by("leaked"))
    started(desk).asked()
    refused = desk.decided()
    assert (refused.check, refused.reason) == ("authority", POLICY_ERROR)
    assert "is revoked" in refused.detail
    assert "wakeful policy publish" in refused.detail
    desk.publish(["sue"], version=6)
    desk.run()
    assert isinstance(desk.decided(), r.ApprovalGranted)


@pytest.mark.parametrize("unpublished", [EVERYBODY, NOBODY])
def test_a_revoked_key_of_another_role_closes_nothing(unpublished: Policy) -> None:
    desk = Desk(unpublished, identity=identity(*OURS, key("dropped", "worker", status=REVOKED)))
    desk.publish(["sue"], version=5, by=by("dropped"))
    started(desk)
    assert desk.loops[0]._control.policy is unpublished


def test_an_older_set_that_is_appended_again_is_not_in_force_again_and_an_equal_one_counts(
    desk: Desk,
) -> None:
    desk.publish(["eve"], version=4)
    (first, *_) = [x for x in desk.log.dump(desk.topics.control) if x.key == POLICY_KEY]
    assert ignored(desk, lambda: desk.put(POLICY_KEY, first.value, first.headers)) == [
        "older_version"
    ]
    assert isinstance(desk.decided(), r.CommandRefused)
    assert ignored(desk, lambda: desk.publish(["sue"], version=4)) == []
    assert isinstance(desk.decided(), r.ApprovalGranted)


def test_a_set_whose_header_names_another_schema_is_none(desk: Desk) -> None:
    made = r.PolicyPublished(9, 0, "root", "", "", (), ())
    other = encode_control(r.PolicySeen("x", 0, None, 0))
    encoded = encode_control(made)
    mark = by("publisher").sign_published(made, desk.topics.control, POLICY_KEY, encoded.value)
    headers = [(FINGERPRINT, other.fingerprint), *mark]
    assert ignored(desk, lambda: desk.put(POLICY_KEY, encoded.value, headers)) == ["other_schema"]


def test_the_newest_keys_are_looked_for_where_a_publishers_key_is_unknown() -> None:
    ring, asked = Keyring(OURS), []

    def newest() -> Keyring:
        asked.append(1)
        return Keyring((*OURS, key("new", "publisher")))

    desk = Desk(identity=Signed(lambda: ring, CLUSTER, newest=newest))
    desk.publish(["sue"], by=by("new"))
    started(desk).asked()
    assert isinstance(desk.decided(), r.ApprovalGranted)
    assert asked == [1]


def test_where_everybody_is_believed_an_unsigned_set_counts() -> None:
    desk = Desk(identity=Unchecked(lambda: Keyring(OURS), CLUSTER))
    desk.publish(["sue"], by=INSECURE)
    started(desk).asked()
    assert isinstance(desk.decided(), r.ApprovalGranted)


def test_a_publishers_key_is_for_all_tenants_and_signs_in_its_own_name_alone() -> None:
    with pytest.raises(ValueError, match="policy sets and rollouts speak of all"):
        key("publisher", "publisher", tenants=frozenset({"acme"}))
    carol = identity(key("carol", "publisher", actor="carol"))
    assert carol.may_sign("PolicyPublished", "carol", NOW_MS)
    assert not carol.may_sign("PolicyPublished", "root", NOW_MS)
