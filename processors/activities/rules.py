"""Approval rules: who is asked about which calls of an activity, `Needs`, and whether such a rule can work."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from ...commands.check import NAME_LENGTH_MAX
from ..durations import Duration
from .signatures import Declined

QUORUM_MAX = 20
"""People who must approve one action."""


@dataclass(frozen=True, slots=True)
class Needs:
    """Who must approve the action (`approver`), for which arguments (`when`, all if absent), and until when.

    `quorum` different people must; with `four_eyes` none of them is the one whose message the turn answers.
    """

    approver: str
    when: Callable[..., bool] | None = None
    expires: Duration = "24h"
    quorum: int = 1
    four_eyes: bool = False


def check_rule(activity: str, rule: object) -> None:
    """`Declined` where it is no rule, or one that nobody could answer. `expires` is checked with the other times."""
    told = f"activity {activity!r} has approval={rule!r}"
    if not isinstance(rule, Needs):
        who = rule if isinstance(rule, str) and rule else "supervisor"
        raise Declined(f"{told}: write approval=Needs({who!r})")
    approver = rule.approver
    if (
        not isinstance(approver, str)
        or not 1 <= len(approver) <= NAME_LENGTH_MAX
        or not approver.isprintable()
    ):
        shown = ascii(approver)[:NAME_LENGTH_MAX]
        raise Declined(
            f"activity {activity!r} needs the approval of {shown}: "
            f"name who is asked, in 1 to {NAME_LENGTH_MAX} printable characters"
        )
    if type(rule.quorum) is not int or not 1 <= rule.quorum <= QUORUM_MAX:
        raise Declined(
            f"activity {activity!r} needs quorum={rule.quorum!r} approvals: give a number from 1 to {QUORUM_MAX}"
        )
    if not isinstance(rule.four_eyes, bool):
        raise Declined(f"activity {activity!r} has four_eyes={rule.four_eyes!r}: say True or False")


def check_when(activity: str, rule: Needs, parameters: tuple[str, ...]) -> None:
    """`Declined` where `when` cannot be asked about these parameters, by name, or its answer would say nothing."""
    when = rule.when
    if when is None:
        return
    told = f"the approval rule of activity {activity!r} has when={when!r}"
    listed = ", ".join(parameters)
    if not callable(when):
        raise Declined(f"{told}: give a function, such as 'lambda {listed}: …', or leave it out")
    if inspect.iscoroutinefunction(when) or inspect.isgeneratorfunction(when):
        raise Declined(
            f"{told}, whose answer is always true: write a plain 'def' that returns True or False"
        )
    try:
        signature = inspect.signature(when)
    except (TypeError, ValueError):
        return  # something built in, which does not say what it takes
    try:
        signature.bind(**dict.fromkeys(parameters))
    except TypeError as error:
        raise Declined(
            f"{told}, which cannot be asked ({error}): it is given all arguments by name, "
            f"so write 'lambda {listed}: …'"
        ) from error
