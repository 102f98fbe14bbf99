"""A seat of its own in the group: who was killed and comes back waits for nobody."""

import pytest
from tests.processors.activities.test_core import orders


@pytest.mark.parametrize("instance", ["a", None])
def test_a_killed_worker_has_its_tasks_back_at_once_where_it_has_a_seat_of_its_own(
    bench, hands, instance
):
    bench.put(*orders(bench, 1, 2, 3))
    first = hands("w1", instance=instance)
    cut = [job.command_id for job in first.take()]
    first.core._group.kill()
    again = [job.command_id for job in hands("w1", instance=instance).take()]
    assert len(cut) == 3
    # without one they wait for the end of the dead one's session
    assert again == (cut if instance else [])
