"""The options of energy and cost."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from mlperf_suite.errors import UsageError
from mlperf_suite.features.energy.price import Price
from mlperf_suite.option_specs import OptionSpec, Values, choice_or_auto

if TYPE_CHECKING:
    from mlperf_suite.settings import Settings

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
