"""Secrets that lie across pieces of a text: however it is cut, what is told has none of them."""

import base64
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from wakeful.processors.activities.held_back import HeldBack
from wakeful.processors.activities.hidden import LENGTH_MIN, Hidden

SECRET = "c4nary-0123456789"


def hidden_of(*secrets):
    hidden = Hidden()
    for one in secrets:
        hidden.add(SecretStr(one))
    return hidden


def told(pieces, *secrets):
    hidden = hidden_of(*secrets)
    held = HeldBack(lambda: hidden)
    return [*(held.add(one) for one in pieces), held.end()]


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_a_secret_over_two_pieces_is_masked_wherever_it_is_cut(cut):
    pieces = ["it is ", SECRET[:cut], SECRET[cut:], ", they say"]
    assert "".join(told(pieces, SECRET)) == "it is ***, they say"


def test_a_secret_that_comes_a_character_at_a_time_is_masked():
    assert "".join(told(f"a {SECRET} b {SECRET}", SECRET)) == "a *** b ***"


def test_what_cannot_begin_a_secret_is_told_at_once():
    assert told(["We will ", "refund it."], SECRET)[:2] == ["We will ", "refund it."]


def test_what_begins_a_secret_waits_for_the_next_piece_and_no_longer():
    assert told(["the c4n", "al"], SECRET) == ["the ", "c4nal", ""]


def test_a_few_first_characters_are_told_at_the_end_and_most_of_a_secret_is_not():
    assert told([SECRET[: LENGTH_MIN - 1]], SECRET)[-1] == SECRET[: LENGTH_MIN - 1]
    assert told([f"x{SECRET[:-1]}"], SECRET) == ["x", "***"]


def test_a_secret_that_overlaps_the_beginning_of_another_is_whole_when_it_is_masked():
    first, second = "aaaa-bbbb", "bbbb-cccc"
    for cuts in range(1, 13):
        text = "aaaa-bbbb-cccc"
        shown = "".join(told([text[:cuts], text[cuts:]], first, second))
        assert first not in shown
        assert second not in shown
        assert "aaaa" not in shown or "cccc" not in shown


def test_secrets_in_base64_and_in_urls_are_masked_across_pieces():
    secret = "p@ss word/with signs"
    for written in (quote(secret, safe=""), base64.b64encode(b"desk:" + secret.encode()).decode()):
        shown = "".join(told(f"see {written} there", secret))
        assert written[9:-4] not in shown
        assert "***" in shown


def test_halves_of_a_character_are_put_together_and_a_lone_one_is_replaced():
    face = "\N{GRINNING FACE}".encode("utf-16-be", "surrogatepass")
    high, low = (face[n : n + 2].decode("utf-16-be", "surrogatepass") for n in (0, 2))
    assert told([f"a{high}", f"{low}b"]) == ["a", "\N{GRINNING FACE}b", ""]
    assert told([f"a{low}b", high]) == ["a?b", "", "?"]


words = st.text(alphabet="ab", min_size=LENGTH_MIN, max_size=12)


@given(secrets=st.lists(words, min_size=1, max_size=3), pieces=st.lists(st.text("ab", max_size=9)))
def test_however_a_text_is_cut_no_secret_stands_in_what_is_told(secrets, pieces):
    shown = told(pieces, *secrets)
    for one in secrets:
        assert one not in "".join(shown)


@given(st.lists(st.text(alphabet="c4nary-0123456789 ", max_size=9)), st.integers(0, 5))
def test_what_is_told_is_the_text_masked_as_progress_is_but_for_its_end(pieces, at):
    pieces = [*pieces[:at], SECRET[:7], SECRET[7:], *pieces[at:], "."]
    hidden = hidden_of(SECRET)
    assert "".join(told(pieces, SECRET)) == hidden.hide_in("".join(pieces))


def test_secrets_that_become_known_later_are_masked_from_then_on():
    hidden = Hidden()
    held = HeldBack(lambda: hidden)
    assert held.add("before ") == "before "
    hidden.add(SecretStr(SECRET))
    parts = [held.add(SECRET[:5]), held.add(SECRET[5:]), held.end()]
    assert "".join(parts) == "***"
