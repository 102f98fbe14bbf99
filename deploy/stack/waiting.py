"""Waiting until a service is ready: with a limit, and an explanation when it never is."""

from collections.abc import Callable
from time import monotonic, sleep

from .errors import StackError

POLL_S = 0.02
READY_STEP_S = 2.0  # between two looks at whether the service still lives


class NotReadyYetError(Exception):
    """The service does not answer as it should (yet): the message is its last word."""


class EndedError(Exception):
    """The service ended by itself while it was waited for."""


def wait_ready(
    ready: Callable[[float], None],
    *,
    is_alive: Callable[[], bool],
    explain: Callable[[], str],
    service: str,
    limit_s: float,
) -> None:
    """Return once `ready` does; it is given the seconds it may take and raises NotReadyYetError.

    Raises EndedError when the service has ended, StackError with an explanation after `limit_s`.
    """
    limit = monotonic() + limit_s
    last = "nothing was heard of it"
    while is_alive():
        left_s = limit - monotonic()
        if left_s <= 0:
            raise StackError(
                f"{service} was not ready in {limit_s:.0f} s: run 'wakeful up' again once the machine has less to do, "
                f"what is up stays; if it is idle, look for the reason below. {service} last said: {last}; {explain()}"
            )
        try:
            ready(min(left_s, READY_STEP_S))
        except NotReadyYetError as waiting:
            last = str(waiting)
            sleep(POLL_S)
        else:
            return
    raise EndedError(
        f"{service} ended by itself: mend what its log names as the reason, then run 'wakeful up' again; {explain()}"
    )
