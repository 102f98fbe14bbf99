"""Cedar behind the port: who may, who may not, and nothing that goes wrong is a permission."""

import sys
from dataclasses import replace
from typing import Any

import pytest
from tests.processors.policies.sets import CENTS, SUPERVISORS, deciding, executing, published

from wakeful.commands.policy import FORBIDDEN, NOT_PERMITTED, POLICY_ERROR, Question
from wakeful.events import records as r
from wakeful.processors.control import PolicyDamaged
from wakeful.processors.policies import cedar
from wakeful.processors.policies.cedar import load
from wakeful.processors.policies.sets import problems, set_hash

SMALL = """
@id("small-ones-by-anybody")
permit (principal, action == Action::"decide", resource == Tool::"refund")
when { context.arguments has cents && context.arguments.cents <= 500 };
"""

DENIED = {
    "one without the role": (deciding("bob"), NOT_PERMITTED, ()),
    "one who has it in another tenant": (deciding("sue", tenant="other"), NOT_PERMITTED, ()),
    "one who has another role": (deciding("sue", approver="boss"), NOT_PERMITTED, ()),
    "the requester": (deciding("ann"), FORBIDDEN, ("not-ones-own-request",)),
    "one in the requester's name": (
        deciding("sue", on_behalf_of="ann"),
        FORBIDDEN,
        ("not-ones-own-request",),
    ),
    "a write that untrusted content led to": (
        executing(tainted=True),
        FORBIDDEN,
        ("tainted-writes-need-approval",),
    ),
}

ALLOWED = {
    "a supervisor": (deciding("sue"), ("approver-has-the-role",)),
    "a supervisor who rejects his own request": (
        deciding("ann", decision="reject"),
        ("approver-has-the-role",),
    ),
    "an activity": (executing(), ("workflows-may-act",)),
    "a tainted read": (executing(tainted=True, contract="read"), ("workflows-may-act",)),
    "a tainted write that was approved": (
        executing(tainted=True, approved_by=("sue",)),
        ("workflows-may-act",),
    ),
}


@pytest.mark.parametrize(("question", "verdict", "ids"), DENIED.values(), ids=DENIED)
def test_the_default_set_denies(question: Question, verdict: str, ids: tuple[str, ...]) -> None:
    policy = load(published())
    ruling = policy.rule(question)
    assert (ruling.allowed, ruling.verdict, ruling.policy_ids) == (False, verdict, ids)
    assert ruling.set_hash == policy.set_hash
    assert ruling.reasons


@pytest.mark.parametrize(("question", "ids"), ALLOWED.values(), ids=ALLOWED)
def test_the_default_set_allows(question: Question, ids: tuple[str, ...]) -> None:
    ruling = load(published()).rule(question)
    assert (ruling.allowed, ruling.policy_ids, ruling.reasons) == (True, ids, ())


@pytest.mark.parametrize(("cents", "allowed"), [(500, True), (501, False), (None, False)])
def test_a_policy_may_look_at_arguments_that_the_set_declares(cents: Any, allowed: bool) -> None:
    policy = load(published(SMALL, arguments=CENTS))
    ruling = policy.rule(deciding("bob", arguments={"cents": cents, "note": [1]}))
    assert ruling.allowed is allowed


TOO_DEEP = {
    "brackets": "(" * 100_000 + "true" + ")" * 100_000,
    "a chain": "true" + " && true" * 100_000,
    "a sum": "1" + " + 1" * 100_000 + " == 1",
    "questions": "if true then true else " * 100_000 + "true",
    "attributes": "context" + ".arguments" * 100_000,
    "indexes": "context" + '["arguments"]' * 100_000,
    "behind a comment": "true // x\r && " + "(" * 100_000 + "true" + ")" * 100_000,
}


@pytest.mark.parametrize("condition", TOO_DEEP.values(), ids=TOO_DEEP)
def test_a_policy_that_is_too_deep_for_the_engine_is_damaged_and_ends_nothing(
    condition: str,
) -> None:
    with pytest.raises(PolicyDamaged, match="deep, and 150 is the most"):
        load(published(f'@id("deep") permit (principal, action, resource) when {{ {condition} }};'))


WIDE = {
    "brackets": "(" * 140 + "true" + ")" * 140,
    "a chain of many": " && ".join(
        ["(context has arguments && context.arguments has cents)"] * 120
    ),
    "a list of many": "[" + ", ".join(["1 + 1"] * 10_000) + "].contains(1)",
    "brackets in a text": f'context.workflow == "{"(" * 10_000}"',
    "brackets in a comment": f"true // {'(' * 10_000}\n",
}


@pytest.mark.parametrize("condition", WIDE.values(), ids=WIDE)
def test_one_that_is_only_long_is_taken(condition: str) -> None:
    text = f'@id("wide") permit (principal, action, resource) when {{ {condition} }};'
    assert load(published(text, arguments=CENTS)).policy_ids[-1] == "wide"


@pytest.mark.parametrize("name", ["größe", "\U0001f600", 'a"b', "a\\b", "a\x01b"])
def test_an_argument_may_have_any_name(name: str) -> None:
    policy = load(published(SMALL, arguments=(*CENTS, r.ToolArgument("refund", name, "Long"))))
    allowed = policy.rule(deciding("bob", arguments={"cents": 500, name: 1}))
    assert allowed.allowed
    assert not policy.rule(deciding("bob", arguments={"cents": 500, name: "1"})).allowed


@pytest.mark.parametrize("cents", [5.0, True, "5", 2**63, [5]])
def test_an_argument_of_another_type_than_declared_is_a_denial(cents: Any) -> None:
    policy = load(published(SMALL, arguments=CENTS))
    ruling = policy.rule(deciding("sue", arguments={"cents": cents}))
    assert (ruling.allowed, ruling.verdict) == (False, POLICY_ERROR)
    assert "'cents' of 'refund' is not a Long" in ruling.reasons[0]


def test_arguments_that_cannot_be_read_are_a_denial_where_a_policy_wants_them() -> None:
    policy = load(published(SMALL, arguments=CENTS))
    assert policy.wants_arguments("refund")
    assert not policy.wants_arguments("ship")
    ruling = policy.rule(deciding("sue"))
    assert (ruling.allowed, ruling.verdict) == (False, POLICY_ERROR)
    assert policy.rule(deciding("sue", tool="ship")).allowed


def test_a_policy_that_fails_denies_although_another_permits() -> None:
    failing = (
        '@id("all") permit (principal, action, resource);\n'
        '@id("overflows") forbid (principal, action, resource) when '
        "{ context.arguments has cents && context.arguments.cents * 9223372036854775807 > 3 };"
    )
    policy = load(published(failing, default=False, arguments=CENTS))
    ruling = policy.rule(deciding("bob", arguments={"cents": 500}))
    assert (ruling.allowed, ruling.verdict) == (False, POLICY_ERROR)
    assert "`overflows`" in ruling.reasons[0]


@pytest.mark.parametrize("actor", ["", "\ud800", 'x"]) permit', "sue\n", "SUE", "acme/sue"])
def test_no_name_is_taken_for_another(actor: str) -> None:
    assert not load(published()).rule(deciding(actor)).allowed


def test_equal_sets_have_equal_hashes_whoever_published_them() -> None:
    later = r.PolicyPublished(9, 9, "eve", "again", *_content(published()))
    assert set_hash(later) == set_hash(published())
    assert set_hash(published(SMALL, arguments=CENTS)) != set_hash(published(arguments=CENTS))


def _content(one: r.PolicyPublished) -> tuple[Any, ...]:
    return one.policies, one.roles, one.arguments


UNRELATED = {
    "a policy about another tool": (
        '@id("x") forbid (principal, action, resource == Tool::"ship");',
        (),
    ),
    "a policy about another tenant": (
        '@id("x") permit (principal in Role::"other/boss", action, resource);',
        (),
    ),
    "a policy about carrying out": (
        '@id("x") forbid (principal, action == Action::"execute", resource);',
        (),
    ),
    "another role": ("", (r.RoleMembers("acme", "boss", ("eve",)),)),
    "the same role elsewhere": ("", (r.RoleMembers("other", "supervisor", ("eve",)),)),
}


def test_who_has_a_role_is_asked_anew_and_leaves_the_applicable_hash() -> None:
    before = load(published(roles=SUPERVISORS))
    after = load(published(roles=(r.RoleMembers("acme", "supervisor", ("sue",)),)))
    assert after.set_hash != before.set_hash
    assert after.applicable_hash(deciding("x")) == before.applicable_hash(deciding("x"))


@pytest.mark.parametrize(("policies", "roles"), UNRELATED.values(), ids=UNRELATED)
def test_what_cannot_apply_leaves_the_applicable_hash(
    policies: str, roles: tuple[Any, ...]
) -> None:
    before = load(published())
    after = load(published(policies, roles=(*SUPERVISORS, *roles)))
    assert after.set_hash != before.set_hash
    assert after.applicable_hash(deciding("x")) == before.applicable_hash(deciding("y"))


RELATED = {
    "a policy about everything": '@id("x") forbid (principal, action, resource);',
    "a policy about this tool": (
        '@id("x") permit (principal, action == Action::"decide", resource == Tool::"refund");'
    ),
}


@pytest.mark.parametrize("policies", RELATED.values(), ids=RELATED)
def test_what_can_apply_changes_it(policies: str) -> None:
    before, after = load(published()), load(published(policies))
    assert after.applicable_hash(deciding("x")) != before.applicable_hash(deciding("x"))


LOOKING = {
    "at nobody": "context.tainted",
    "at who it is for": 'principal == Actor::"acme/ann"',
    "at a role": 'principal in Role::"acme/supervisor"',
    "at the requester": 'context.requester == Actor::"acme/ann"',
    "at whether it is in a name": "context has on_behalf_of",
    "at whose name it is in": 'context has on_behalf_of && context.on_behalf_of == Actor::"acme/ann"',
    "at the contract": 'context.contract == "read"',
    "at the workflow": 'context.workflow == "desk"',
    "at the channel": 'context.channel == "engine"',
    "at an argument": "context.arguments has cents && context.arguments.cents > 100",
    "at who approved": 'context.approved_by.contains(Actor::"acme/sue")',
}


def carrying_out() -> list[Question]:
    """Each differs from the first in one thing that policies may look at."""
    plain = executing()
    acts = [
        {"requester": "bob"},
        {"contract": "read"},
        {"workflow": "shop"},
        {"tainted": True},
        {"approved_by": ("sue",)},
        {"tool": "ship"},
        {"arguments": {"cents": 50}},
        {"arguments": {"cents": 500}},
        {"arguments": {"cents": "many"}},
        {"arguments": {}},
    ]
    wholes = [
        {"actor": "bob"},
        {"on_behalf_of": "ann"},
        {"on_behalf_of": "bob"},
        {"channel": "cli"},
        {"tenant": "other"},
    ]
    return [plain, *(executing(**one) for one in acts), *(replace(plain, **one) for one in wholes)]


@pytest.mark.parametrize("looks", LOOKING.values(), ids=LOOKING)
@pytest.mark.parametrize("effect", ["forbid", "permit"])
def test_a_ruling_that_is_remembered_is_the_one_that_would_be_given(
    effect: str, looks: str
) -> None:
    policy = (
        f'@id("x") {effect} (principal, action == Action::"execute", resource) when {{ {looks} }};'
    )
    made = published(policy, default=effect == "forbid", arguments=CENTS)
    policy, questions = load(made), carrying_out()
    for question in (*questions, *reversed(questions)):
        assert policy.rule(question) == policy._rule(question)


def test_what_is_remembered_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cedar, "REMEMBERED_MAX", 3)
    policy = load(published())
    for number in (*range(5), *range(5)):
        question = executing(tool=f"tool {number}", tainted=number % 2 == 0)
        assert policy.rule(question) == policy._rule(question)
        assert policy.applicable_hash(question) == policy._hash_applicable(
            "execute", question.action.tool, "acme"
        )
        assert max(map(len, (policy._rulings, policy._looks, policy._applicable))) <= 3


FAULTS = {
    "no Cedar": ("\npermit (principal, action, resource) when { 1 = 2 };", None, 2, "not Cedar"),
    "an end too early": ('@id("a")\npermit (principal,', None, 1, "unexpected end"),
    "no name": ("permit (principal, action, resource);", "", 1, '@id("what-it-says")'),
    "one name twice": (
        '@id("a") permit (principal, action, resource);\n@id("a") forbid (principal, action, resource);',
        "a",
        2,
        "that of the policy at line 1",
    ),
    "a word that the schema does not know": (
        '// "; \n@id("a") permit (principal, action, resource) when { context.mood == "good" };',
        "a",
        2,
        "`mood`",
    ),
    "an argument that is not declared": (
        '@id("a") permit (principal, action, resource) when { context.arguments has cents && context.arguments.cents > 1 };',
        "a",
        1,
        "cents",
    ),
    "what is never in the context": (
        '@id("a") permit (principal, action, resource) when { context has mood };',
        "a",
        1,
        "'mood' is never",
    ),
    "a name without a tenant": (
        '@id("a") permit (principal in Role::"boss", action, resource);',
        "a",
        1,
        'Role::"TENANT/boss"',
    ),
}


@pytest.mark.parametrize(("text", "policy_id", "line", "told"), FAULTS.values(), ids=FAULTS)
def test_a_fault_is_told_with_its_policy_and_line(
    text: str, policy_id: str | None, line: int, told: str
) -> None:
    found = problems(published(text, default=False))
    assert any(
        told in p.told and p.line == line and p.policy_id == (policy_id or "") for p in found
    ), found
    with pytest.raises(PolicyDamaged):
        load(published(text, default=False))


def test_templates_arguments_and_roles_that_cannot_be_are_told() -> None:
    template = '@id("t") permit (principal == ?principal, action, resource);'
    assert "templates" in problems(published(template, default=False))[0].told
    kinds = (
        *CENTS,
        r.ToolArgument("ship", "cents", "String"),
        r.ToolArgument("ship", "x", "Float"),
    )
    told = " ".join(p.told for p in problems(published(arguments=kinds)))
    assert "'cents' is a Long of 'refund' and a String of 'ship'" in told
    assert "'x' of 'ship' is declared as 'Float'" in told
    twice = " ".join(p.told for p in problems(published(roles=SUPERVISORS * 2)))
    assert "given twice" in twice


def test_the_port_and_what_holds_without_a_set_need_no_engine() -> None:
    import subprocess

    code = (
        "import sys, wakeful.commands.policy, wakeful.processors.loop, wakeful.deploy.processes; "
        "sys.exit('cedarpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("text", ["", "  \n", "// nothing yet\n"])
def test_a_set_without_a_policy_is_none(text: str) -> None:
    (found,) = problems(published(text, default=False))
    assert "there is no policy in it" in found.told
