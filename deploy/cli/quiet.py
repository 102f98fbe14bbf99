"""The group at the root: shell completion works, and its two options do not stand before those that people look for."""

from __future__ import annotations

import os
from typing import Any

from typer.core import TyperGroup

COMPLETION = frozenset({"install_completion", "show_completion"})


class Quiet(TyperGroup):
    """`--install-completion` and `--show-completion` can be given, and no help lists them."""

    def get_params(self, ctx: Any) -> list[Any]:
        """All options; see the class."""
        params = super().get_params(ctx)
        for one in params:
            if one.name in COMPLETION:
                one.hidden = True  # type: ignore[attr-defined]  # both are options
        return params


def colour() -> bool | None:
    """Whether colours are allowed: no where `NO_COLOR` says anything; else the terminal decides."""
    return False if os.environ.get("NO_COLOR") else None
