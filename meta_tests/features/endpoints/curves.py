"""Made curves: a server whose queue grows with its concurrency, with noise of known size."""

import math

import numpy as np

from mlperf_suite.features.endpoints.curve.curve_figures import CurveBlock, CurveFigures, CurvePoint

CONCURRENCIES = (1, 4, 16, 32, 64, 128, 256)
REGIONS = ("ultra-low", "low", "medium", "medium", "high", "high", "high")
BLOCKS = 10
_DURATION_S = 60.0


def _tpot_ms(concurrency: int) -> float:
    return 8 + 0.02 * concurrency + 0.0002 * concurrency**2


def made_curve(
    noise: float = 0.0,
    loss: float = 0.0,
    *,
    between: float = 0.0,
    common: bool = True,
    seed: int = 1,
    blocks: int = BLOCKS,
    client: str = "mlperf-suite 1.0",
) -> CurveFigures:
    """A curve of 7 points. `noise`: from block to block, relative; `between`: that of a whole run,
    relative to it, of all points alike if `common`. `loss`: 0.1 is 10% slower everywhere."""
    rng = np.random.default_rng(seed)
    shared = rng.normal()
    points = []
    for concurrency, region in zip(CONCURRENCIES, REGIONS, strict=True):
        own = shared if common else rng.normal()
        logs = rng.normal(0, noise, blocks) + own * between * noise + math.log1p(-loss)
        tpot = _tpot_ms(concurrency) / np.exp(logs)
        rates = 900 * concurrency / _tpot_ms(concurrency) * np.exp(logs)
        ttft = 20 + 1.5 * concurrency
        points.append(
            CurvePoint(
                concurrency,
                "measured",
                (region,),
                duration_s=_DURATION_S,
                completed=concurrency * 50,
                output_tokens=round(float(rates.mean()) * _DURATION_S),
                tpot_p50_ms=float(tpot.mean()) * 0.9,
                tpot_p90_ms=float(tpot.mean()),
                ttft_p50_ms=ttft * 0.8,
                ttft_p90_ms=ttft,
                blocks=tuple(
                    CurveBlock(float(rate), float(time), ttft)
                    for rate, time in zip(rates, tpot, strict=True)
                ),
            )
        )
    return CurveFigures(client, c_max=256, points=tuple(points))
