"""What tokens of a model cost, as whoever runs the watchers says: `gpt-5=1.25/10, claude-*=3/15` per million tokens."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from fnmatch import fnmatchcase

NANOS_PER_TOKEN = 1_000
"""A price of 1 per million tokens is 1,000 billionths for each."""

PRICE_MAX = 1_000_000
DECIMALS_MAX = 3
"""More would not be a whole number of billionths per token."""

MODELS_MAX = 100


@dataclass(frozen=True, slots=True)
class Price:
    """Billionths of the currency for one token that a model reads, and for one that it writes."""

    input_nanos: int
    output_nanos: int


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices by the model's name, or by a pattern such as `claude-*`; the first that fits counts."""

    by_model: Mapping[str, Price] = field(default_factory=dict)

    @classmethod
    def from_text(cls, text: str) -> Prices:
        """Reads the setting; ValueError names the part that is none."""
        found: dict[str, Price] = {}
        for part in filter(None, (one.strip() for one in text.split(","))):
            model, equals, prices = (one.strip() for one in part.partition("="))
            read, slash, write = prices.partition("/")
            if not (model and equals and slash):
                raise ValueError(f"{part!r} is no price: write MODEL=INPUT/OUTPUT")
            if model in found:
                raise ValueError(f"{model!r} has two prices")
            found[model] = Price(_nanos(read), _nanos(write))
        if len(found) > MODELS_MAX:
            raise ValueError(f"{len(found)} models are more than {MODELS_MAX}")
        return cls(found)

    def cost_nanos(self, model: str, input_tokens: int, output_tokens: int) -> int | None:
        """In billionths; null for a model without a price: what is not known is not nothing."""
        for pattern, price in self.by_model.items():
            if fnmatchcase(model, pattern):
                return input_tokens * price.input_nanos + output_tokens * price.output_nanos
        return None


def _nanos(text: str) -> int:
    try:
        price = Decimal(text.strip())
    except InvalidOperation:
        raise ValueError(f"{text.strip()!r} is no price: write a number such as 1.25") from None
    nanos = price * NANOS_PER_TOKEN
    if not price.is_finite() or not 0 <= price <= PRICE_MAX or nanos != int(nanos):
        raise ValueError(
            f"{text.strip()!r} is no price: give 0 to {PRICE_MAX}, with {DECIMALS_MAX} decimals at most"
        )
    return int(nanos)
