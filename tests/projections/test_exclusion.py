"""Whoever has to wait is told for whom, as far as that is known, and what to do."""

from wakeful.projections.exclusion import Holder, Seen, told

HOLDER = Holder(7, "ann", "psql", None, tenants=False)
AGAIN = "run it again"


def test_who_is_in_the_way_is_named_with_what_ends_it() -> None:
    assert told(Seen([HOLDER])) == (
        "in the way is process 7 of role 'ann', as 'psql': wait for it, or end it with "
        f"SELECT pg_terminate_backend(7), then {AGAIN}"
    )


def test_whoever_may_not_be_ended_is_told_with_why() -> None:
    said = told(Seen([HOLDER], "'wakeful' may not end it"))
    assert "as 'psql' ('wakeful' may not end it): wait for it" in said


def test_who_is_gone_has_no_name() -> None:
    assert told(Seen()) == f"somebody was in the way, and is gone: {AGAIN}"


def test_who_could_not_be_looked_for_is_not_said_to_be_gone() -> None:
    said = told(Seen((), "nobody can look: too many connections"))
    assert said == f"somebody is in the way (nobody can look: too many connections): {AGAIN}"
