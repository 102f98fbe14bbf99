"""A clock that is not to be hurried: it goes by the wall's, which may be put back, and leaps not ahead."""

from wakeful.processors.clock import unhurried

HOUR_MS = 3_600_000


class Machine:
    """A wall clock and a steady one."""

    def __init__(self) -> None:
        self.wall_ms, self.steady_s = 5_000_000, 100.0
        self.own_ms = unhurried(lambda: self.wall_ms, lambda: self.steady_s)

    def wait(self, seconds: float) -> None:
        self.wall_ms += int(seconds * 1000)
        self.steady_s += seconds


def test_it_goes_with_the_wall() -> None:
    machine = Machine()
    machine.wait(1.5)
    assert machine.own_ms() == machine.wall_ms == 5_001_500


def test_a_leap_ahead_is_not_followed_and_time_goes_on() -> None:
    machine = Machine()
    machine.wall_ms += 2 * HOUR_MS
    machine.wait(1)
    assert machine.own_ms() == 5_001_000


def test_a_wall_that_is_put_back_is_followed_and_so_is_its_return() -> None:
    machine = Machine()
    machine.wait(10)
    machine.wall_ms -= HOUR_MS
    assert machine.own_ms() == machine.wall_ms
    machine.wall_ms += HOUR_MS
    assert machine.own_ms() == machine.wall_ms == 5_010_000
