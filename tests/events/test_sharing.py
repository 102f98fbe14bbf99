"""What is shared with the state before is recorded once: parts give the whole back, and are refused where they do not fit."""

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from wakeful.events import sharing
from wakeful.events.errors import InvalidPayload
from wakeful.events.payloads import json_payload, load_json
from wakeful.events.sharing import PARTS, expanded, shortened

KEY = b"digest key of the tests"
WORDS = st.text(min_size=0, max_size=400) | st.sampled_from(
    ["ä" * 300, "word " * 80, "\ud83d", "a\x00b"]
)
LINES = st.lists(WORDS, max_size=12)


def talk(count: int, *, each: int = 400) -> list[dict[str, str]]:
    return [
        {"role": "user", "content": f"{number}: " + f"é{number} " * (each // 3)}
        for number in range(count)
    ]


def payload(value: object):
    return json_payload(value, KEY)


@given(before=LINES, after=LINES, kept=st.integers(0, 12), extra=st.integers(0, 3))
@example(before=["ä" * 2000], after=["b"], kept=1, extra=0)
def test_parts_give_the_whole_back(
    before: list[str], after: list[str], kept: int, extra: int
) -> None:
    state = payload({"lines": before, "n": extra})
    told = payload({"messages": [*after[:extra], *before[-kept:], *after], "prompt": "be brief"})
    short = shortened(told, state)
    assert expanded(short, state) == told
    assert (short.digest, short.size) == (told.digest, told.size)
    assert short.encoding != PARTS or len(short.inline or b"") <= 0.75 * told.size


def test_what_is_appended_is_all_that_is_recorded() -> None:
    for count in (10, 100):
        state = payload({"lines": talk(count), "tokens": 17})
        call = payload({"messages": [{"role": "system", "content": "Be brief."}, *talk(count + 1)]})
        end = payload({"lines": talk(count + 2), "tokens": 19})
        assert len(shortened(call, state).inline or b"") < 1_200
        assert len(shortened(end, state).inline or b"") < 2_000


def test_what_was_left_out_of_a_conversation_costs_one_range_more() -> None:
    state = payload({"lines": talk(60)})
    told = payload({"lines": [{"role": "user", "content": "what was before: …"}, *talk(60)[40:]]})
    short = shortened(told, state)
    assert len(json.loads(short.inline)["parts"]) <= 4
    assert expanded(short, state) == told


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (None, {"lines": talk(20)}),
        ({"lines": talk(20)}, {"lines": "short"}),
        ({"a": "x"}, {"lines": talk(20)}),
        ({"lines": talk(20)}, {"other": ["".join(map(chr, range(0x4E00, 0x5200)))]}),
    ],
)
def test_what_shares_nothing_is_recorded_as_it_is(state: object, told: object) -> None:
    whole = payload(told)
    assert shortened(whole, None if state is None else payload(state)) is whole


def test_of_another_state_and_of_none_they_are_refused() -> None:
    state = payload({"lines": talk(20)})
    short = shortened(payload({"lines": talk(21)}), state)
    with pytest.raises(InvalidPayload, match="shares with the state"):
        expanded(short, payload({"lines": talk(19)}))
    with pytest.raises(InvalidPayload, match="there is none"):
        expanded(short, None)
    with pytest.raises(InvalidPayload, match="expected inline json"):
        load_json(short)


@pytest.mark.parametrize(
    "inline",
    [b"", b"no json", b"[]", b'{"of": "x"}'],
)
def test_what_are_no_parts_is_refused(inline: bytes) -> None:
    state = payload({"lines": talk(20)})
    short = shortened(payload({"lines": talk(21)}), state)
    with pytest.raises(InvalidPayload):
        expanded(sharing.replace(short, inline=inline), state)


@pytest.mark.parametrize(
    "parts", ["x", [None], [[1]], [[-1, 5]], [[0, 10**9]], [["a", "b"]], [[0, 5]], [True]]
)
def test_parts_that_do_not_fit_are_refused(parts: object) -> None:
    state = payload({"lines": talk(20)})
    short = shortened(payload({"lines": talk(21)}), state)
    inline = json.dumps({"of": state.digest.hex(), "parts": parts}).encode()
    with pytest.raises(InvalidPayload):
        expanded(sharing.replace(short, inline=inline), state)


def test_a_long_text_that_shares_nothing_is_looked_through_in_strides() -> None:
    state = payload({"text": "".join(f"{n:x}-" for n in range(30_000))})
    told = "".join(f"{n:o}+" for n in range(30_000))
    looked = Counting(state.inline.decode())
    looked.times = 0
    assert sharing._parts(told, looked) == [told]
    assert looked.times < 250


class Counting(str):
    __slots__ = ("times",)

    def find(self, *given):
        self.times += 1
        return super().find(*given)
