"""Dead letters in pages: each that is mine once, the newest first, whatever lies between them and comes meanwhile."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wakeful.deploy.telling.dealing import deal, find_letter, id_of
from wakeful.deploy.telling.letter_pages import page_of_letters
from wakeful.events.headers import dead_letter_headers
from wakeful.events.log.memory import MemoryLog
from wakeful.events.log.protocol import Record
from wakeful.events.topics import Topics

TOPICS = Topics("desk")
PARTITIONS = 3


class Pile:
    """A log with dead letters at times that are set."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.log = MemoryLog(now_ms=lambda: self.now_ms)
        self.log.create_topics(TOPICS.specs(["default"], PARTITIONS))

    def put(self, partition: int, at_ms: int = 1_000, key: bytes = b"acme/s1") -> None:
        self.now_ms = at_ms
        record = Record(TOPICS.commands, partition, 0, 900, key, b"x", ())
        producer = self.log.producer()
        headers = dead_letter_headers(record, "unreadable", "it is")
        producer.produce(
            TOPICS.dead_letters, key=key, value=b"x", headers=headers, partition=partition
        )
        producer.flush(1_000)

    def drop(self, *letters: str) -> None:
        found = [find_letter(self.log, TOPICS, letter)[0] for letter in letters]
        deal(self.log, TOPICS, found, "dropped", "ann")

    def page(self, limit: int, below=None, *, all_of_them: bool = False):
        return page_of_letters(
            self.log,
            TOPICS,
            limit,
            mine=lambda record: record.key == b"acme/s1",
            below=below,
            all_of_them=all_of_them,
        )

    def pages(self, limit: int, **options) -> list[list[str]]:
        told, below = [], None
        while below is not None or not told:
            page = self.page(limit, below, **options)
            told.append([id_of(record) for record in page.records])
            below = page.below
        return told


@settings(deadline=None)
@given(
    letters=st.lists(
        st.tuples(
            st.integers(0, PARTITIONS - 1),
            st.integers(1_000, 1_009),
            st.sampled_from([b"acme/s1", b"other/s1", b"nobody"]),
        ),
        max_size=60,
    ),
    limit=st.integers(1, 7),
)
def test_each_letter_that_is_mine_comes_once_whatever_the_clocks_said(letters, limit) -> None:
    pile, mine = Pile(), []
    for partition, at_ms, key in letters:
        offset = sum(one[0] == partition for one in letters[: len(mine)])
        mine.append((f"{partition}@{offset}", key == b"acme/s1"))
        pile.put(partition, at_ms, key)
    pages = pile.pages(limit)
    told = [letter for page in pages for letter in page]
    assert sorted(told) == sorted(letter for letter, is_mine in mine if is_mine)
    assert all(len(page) == limit for page in pages[:-1])


def test_where_clocks_agree_the_newest_of_all_partitions_come_first() -> None:
    pile = Pile()
    for n in range(9):
        pile.put(n % PARTITIONS, 1_000 + n)
    assert pile.pages(4) == [
        ["2@2", "1@2", "0@2", "2@1"],
        ["1@1", "0@1", "2@0", "1@0"],
        ["0@0"],
    ]


def test_what_lies_behind_many_that_were_dealt_with_is_not_passed_over() -> None:
    """Partition 0 has a letter that is newer than all of partition 1, behind a hundred that are done."""
    pile = Pile()
    for n in range(20):
        pile.put(1, 1_000 + n)
    pile.put(0, 2_000)
    for n in range(100):
        pile.put(0, 3_000 + n)
    pile.drop(*(f"0@{n}" for n in range(1, 101)))
    assert pile.pages(2)[0] == ["0@0", "1@19"]
    shown = pile.page(2, all_of_them=True)
    assert [id_of(record) for record in shown.records] == ["0@100", "0@99"]
    assert shown.marks["0@100"].by == "ann"


@pytest.mark.parametrize("added", [0, 1, 50])
def test_what_comes_meanwhile_moves_nothing_to_another_page(added: int) -> None:
    pile = Pile()
    for n in range(6):
        pile.put(0, 1_000 + n)
    first = pile.page(3)
    for n in range(added):
        pile.put(0, 2_000 + n)
        pile.put(2, 2_000 + n)
    rest = pile.page(3, first.below)
    assert [id_of(record) for record in rest.records] == ["0@2", "0@1", "0@0"]
    assert rest.below is None
