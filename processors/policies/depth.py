"""How deep a policy goes, from its text: what parses and walks it recurses, and too deep a text would end the process.

An estimate, and never too low: brackets count, what stands between them counts as `&&`, `||` and `if` (which nest as
often as they are written), and as the operators between two of those.
"""

from __future__ import annotations

import re

DEPTH_MAX = 150
"""Some 400 of one kind end Python's recursion, and 1,000 brackets the engine's stack."""

_TOKEN = re.compile(
    r'"(?:\\.|[^"\\])*"|//[^\n\r]*|(?P<open>[(\[{])|(?P<close>[)\]}])|(?P<end>[,;])'
    r"|(?P<joint>&&|\|\||\bif\b)|(?P<sign>[=!<>]=?|[-+*.]|\b(?:has|in|like|is)\b)",
    re.DOTALL,
)


def depth(text: str) -> int:
    """The most that is open at once anywhere in a policy."""
    deepest = outer = joints = signs = 0
    around: list[tuple[int, int]] = []
    for token in _TOKEN.finditer(text):
        match token.lastgroup:
            case "open":
                around.append((joints, signs))
                outer, joints, signs = outer + joints + signs + 1, 0, 0
            case "close" if around:
                joints, signs = around.pop()
                outer, signs = outer - joints - signs - 1, signs + 1
            case "end":
                joints = signs = 0
            case "joint":
                joints, signs = joints + 1, 0
            case "sign":
                signs += 1
            case _:
                pass
        deepest = max(deepest, outer + joints + signs)
    return deepest
