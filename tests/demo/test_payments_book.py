"""The book of the payment service: what is cut off, what is named, and who may write."""

import os

import pytest

from wakeful.deploy.demo.payments import BookBroken, BookHeld, Service, read_book
from wakeful.deploy.demo.payments.book import OpenBook
from wakeful.deploy.exits import Exit

LINE = '{"kind":"charge","id":"ch_1","key":"k","order_id":"o","cents":5}\n'


@pytest.mark.parametrize("torn", ['{"kind":"charge","id":"ch_2","key"', "{", LINE[:-1]])
def test_a_torn_last_line_is_cut_off(torn: str, tmp_path) -> None:
    path = tmp_path / "book"
    path.write_text(LINE + torn)
    assert [charge.id for charge in read_book(path).charges] == ["ch_1"]
    assert path.read_text() == LINE + torn, "who only reads cuts nothing"
    book = OpenBook(path)
    assert path.read_text() == LINE
    assert book.charge(key="k", order_id="o", cents=5).id == "ch_2"
    book.close()
    assert [charge.id for charge in read_book(path).charges] == ["ch_1", "ch_2"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense\n", "book:2 is no line of ours"),
        ("\n", "book:2 is no line of ours"),
        ('{"kind":"gift"}\n', "book:2 is no line of ours"),
        (LINE, "book:2 does not follow: ch_1 was charged before"),
        ('{"kind":"undo","key":"u","of":"k","charges":["ch_9"]}\n', "ch_9 was not charged for k"),
    ],
)
def test_a_whole_line_of_somebody_else_is_named_and_left(line: str, said: str, tmp_path) -> None:
    path = tmp_path / "book"
    path.write_text(LINE + line + "torn")
    for reader in (read_book, OpenBook):
        with pytest.raises(BookBroken, match=said):
            reader(path)
    assert path.read_text() == LINE + line + "torn"


def test_a_line_that_does_not_go_in_whole_leaves_nothing_behind(tmp_path, monkeypatch) -> None:
    path = tmp_path / "book"
    book = OpenBook(path)
    book.charge(key="k", order_id="o", cents=5)
    real, full = os.write, [True]
    monkeypatch.setattr(os, "write", lambda f, raw: real(f, raw[:9] if full.pop() else raw))
    with pytest.raises(BookBroken, match="only 9 of"):
        book.charge(key="k", order_id="o", cents=5)
    assert len(book.find("k")) == 1
    monkeypatch.undo()
    assert book.charge(key="k", order_id="o", cents=5).id == "ch_2"
    book.close()
    assert len(read_book(path).charges) == 2
    with pytest.raises(BookBroken, match="cannot be written"):
        book.charge(key="k", order_id="o", cents=5)


def test_a_book_has_one_writer(tmp_path) -> None:
    book = OpenBook(tmp_path / "book")
    with pytest.raises(BookHeld, match="is open in another"):
        OpenBook(tmp_path / "book")
    with pytest.raises(RuntimeError, match=f"ended with {Exit.BUSY}"):
        Service(tmp_path / "book").start()
    book.close()
    OpenBook(tmp_path / "book").close()
