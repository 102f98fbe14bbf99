"""A snapshot is believed only by the version that wrote it: the number goes up with what a state holds."""

from wakeful.events.state import STATE_VERSION
from wakeful.schemas import bundled

WRITTEN_BY = {
    1: "649a09a71ef5c964",
    2: "11da30c8684a7c57",
    3: "3b1eedc6acd5c4f9",
    4: "77ff7efc7fe38277",
    5: "9cf75beacefe12f3",
    6: "e4936be71d1ecc7d",
    7: "e4936be71d1ecc7d",
    8: "98b3c22e0a903c1c",
    9: "56ed0cbf0e681799",
    10: "39b0a2083d990328",
    11: "210d61adec783d5f",
    12: "975103dec80de197",
    13: "d46a5a7d8a900eae",
    14: "6e410d3eb55eacbf",
    15: "0772d547bafdb8b7",
    16: "eff7b23ed1c6dbfb",
}
"""The schema that each version of the fold stores. A new schema, or a fold that means something else, is a new line."""


def test_a_state_of_another_shape_has_another_version() -> None:
    current = bundled().current("wakeful.v1.SessionState")
    assert WRITTEN_BY[STATE_VERSION] == current.fingerprint.hex()
    assert max(WRITTEN_BY) == STATE_VERSION
