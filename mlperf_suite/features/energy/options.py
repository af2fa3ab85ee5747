"""The options of energy and cost, and a price as a user writes it: "0.30 EUR"."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from mlperf_suite.errors import UsageError
from mlperf_suite.option_specs import OptionSpec, Values, choice_or_auto

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

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


_option = partial(OptionSpec, identifies=None, section="Energy and cost")


def _price(text: str) -> str:
    """A price in its normalized spelling."""
    return str(Price.parse(text))


OPTIONS = {
    "energy": _option(
        "read the energy counters of GPUs (NVML) and CPUs (RAPL), if available, during each "
        "performance run; off disables this",
        choice_or_auto("off"),
        "auto",
    ),
    "price_kwh": _option(
        "price of a kilowatt-hour with its currency, such as 0.30 EUR; the report then shows "
        "the energy cost of a million tokens",
        Values(_price, "must be an amount and a currency, such as 0.30 EUR"),
    ),
    "price_hour": _option(
        "price of a machine-hour with its currency, such as 98.32 USD; the report then shows "
        "the cost of a million tokens",
        Values(_price, "must be an amount and a currency, such as 98.32 USD"),
    ),
}


def check(settings: Settings) -> None:
    """Raise UsageError for prices in two currencies, which cannot be added up."""
    kwh, hour = (settings.feature_options[name] for name in ("price_kwh", "price_hour"))
    if kwh and hour and Price.parse(kwh).currency != Price.parse(hour).currency:
        raise UsageError(f"--price-kwh {kwh}: --price-hour {hour} has a different currency")
