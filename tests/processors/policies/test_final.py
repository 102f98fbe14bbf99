"""Which denials are final: those that stay whoever approves."""

import pytest
from tests.processors.policies.sets import CENTS, deciding, executing, published

from wakeful.commands.policy import NOT_PERMITTED
from wakeful.processors.policies.cedar import load

FORBIDS = 'forbid (principal, action == Action::"execute", resource == Tool::"refund")'
PERMITS = 'permit (principal, action == Action::"execute", resource)'
FINAL = {
    "a policy that looks at nothing": (FORBIDS, True),
    "one that looks at whether anybody approved": (
        FORBIDS + " when { context.approved_by.isEmpty() }",
        False,
    ),
    "one that wants a certain approval": (
        FORBIDS + ' unless { context.approved_by.contains(Actor::"acme/sue") }',
        False,
    ),
    "one that looks at the role of whoever it is for": (
        FORBIDS + ' unless { principal in Role::"acme/boss" }',
        True,
    ),
    "one of each": (
        FORBIDS + ' when { context.approved_by.isEmpty() };\n@id("z") ' + FORBIDS,
        True,
    ),
}


@pytest.mark.parametrize(("policy", "final"), FINAL.values(), ids=FINAL)
def test_a_denial_is_final_where_nothing_that_it_rests_on_looks_at_who_approved(
    policy: str, final: bool
) -> None:
    ruling = load(published(f'@id("x") {policy};')).rule(executing())
    assert (ruling.allowed, ruling.final) == (False, final)


@pytest.mark.parametrize(
    ("policy", "final"),
    [
        (PERMITS + " when { !context.approved_by.isEmpty() }", False),
        (PERMITS + ' when { context.channel == "fax" }', True),
        (PERMITS.replace("resource", 'resource == Tool::"x"'), True),
        ('permit (principal, action == Action::"decide", resource)', True),
    ],
)
def test_where_nothing_permits_it_is_final_unless_a_permit_looks_at_who_approved(
    policy: str, final: bool
) -> None:
    ruling = load(published(f'@id("x") {policy};', default=False)).rule(executing())
    assert (ruling.verdict, ruling.final) == (NOT_PERMITTED, final)


def test_a_decision_and_an_error_are_never_final() -> None:
    assert not load(published()).rule(deciding("bob")).final
    assert not load(published(arguments=CENTS)).rule(executing()).final
