"""The cost of a million output tokens, from prices for electricity and for the machine."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from mlperf_suite.energy.energy_figures import EnergyFigures, six_digits

_PRICE = re.compile(r"(?P<amount>\d+(?:\.\d+)?|\.\d+) ?(?P<currency>[^\W\d_]{1,8}|[$€£¥₩₹])")
_J_PER_KWH = 3.6e6
_MILLION = 1e6


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


@dataclass(frozen=True, slots=True)
class CostFigures:
    """The cost of a million output tokens, in `currency`. `energy`: for the energy of the devices
    `energy_of` only, None if no energy was measured or no price given; `machine`: for the time that
    the tokens take, None if no price was given. `per_kwh` and `per_hour`: the prices."""

    currency: str = ""
    energy: float | None = None
    energy_of: tuple[str, ...] = ()
    machine: float | None = None
    per_kwh: float | None = None
    per_hour: float | None = None


def cost_figures(
    per_kwh: Price | None,
    per_hour: Price | None,
    energy: EnergyFigures | None,
    tokens_per_s: float | None,
) -> CostFigures | None:
    """The cost of a million tokens; None if no price was given.

    Both prices must have the same currency.
    """
    price = per_kwh or per_hour
    if price is None:
        return None
    kinds = energy.measured if energy else ()
    joules = [kind.joules_per_token for kind in kinds if kind.joules_per_token is not None]
    of_energy = of_machine = None
    if per_kwh is not None and joules:
        of_energy = six_digits(per_kwh.amount * sum(joules) * _MILLION / _J_PER_KWH)
    if per_hour is not None and tokens_per_s:
        of_machine = six_digits(per_hour.amount / (tokens_per_s * 3600) * _MILLION)
    return CostFigures(
        price.currency,
        of_energy,
        tuple(kind.kind for kind in kinds) if of_energy is not None else (),
        of_machine,
        per_kwh.amount if per_kwh else None,
        per_hour.amount if per_hour else None,
    )
