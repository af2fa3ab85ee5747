"""A price as a user writes it: "0.30 EUR"."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

_PRICE = re.compile(r"(?P<amount>\d+(?:\.\d+)?|\.\d+) ?(?P<currency>[^\W\d_]{1,8}|[$€£¥₩₹])")


@dataclass(frozen=True, slots=True)
class Price:
    """An amount in a currency, which is shown as the user wrote it."""

    amount: float
    currency: str

    @classmethod
    def parse(cls, text: str) -> Price:
        """ "0.30 EUR" or "98.32 $". Raises ValueError if it is not an amount with a currency."""
        match = _PRICE.fullmatch(text.strip())
        if match is None or not math.isfinite(amount := float(match["amount"])):
            raise ValueError(text)
        return cls(amount, match["currency"])

    def __str__(self) -> str:
        return f"{self.amount:g} {self.currency}"
