"""The reader of a rebuild goes no further than it was told."""

from wakeful.events.log.protocol import EndOfPartition, Place
from wakeful.projections.rebuild_ports import Bounded


def test_a_bounded_reader_stops_at_its_limits_and_reads_on_when_they_rise(scribe, list_reader):
    place = scribe.places[0]
    for _ in range(3):
        scribe.append(0, b"k", b"v")
    scribe.commit()
    scribe.append(0, b"k", b"v")
    bounded = Bounded(list_reader(scribe))
    bounded.limit({place: 2})
    bounded.assign({place: 0})
    found = bounded.poll(10, 0)
    assert [x.offset for x in found] == [0, 1, 2]
    assert isinstance(found[-1], EndOfPartition)
    assert bounded.poll(10, 0) == []
    bounded.limit({place: 4})  # behind the marker, before the last record
    assert [x.offset for x in bounded.poll(10, 0)] == [2, 4]
    bounded.limit({place: 5, Place(scribe.topic, 1): 0})
    assert [x.offset for x in bounded.poll(1, 0)] == [4, 5]
    assert bounded.poll(10, 0) == []
