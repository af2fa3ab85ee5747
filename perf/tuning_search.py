"""How near searches of `tune` and of others come to the known optimum of simulated engines.

    OPENBLAS_NUM_THREADS=1 python -m perf.tuning_search [--searches 10] [--trials 60] [--equal 0]

A proposal's matrices are small: on a busy machine several threads make it many times slower.

Each method has as many trials with 5% noise on each of five kinds of engines with 10,000 settings.
"tune" is this suite's search. "tpe" and "gp" are Optuna's samplers, "random" is random search, each
with its highest run as the result; "grid" measures every combination of a few values of each
setting in order, as `vllm bench sweep serve` does with lists that give at most as many. "cuts" is
"tune" with a probe of 10% noise before each trial, which then counts with its own error if it
cannot win; a further line says how much was cut. `--equal` makes that many tunings with pairs on an
engine whose settings change nothing, of 20 trials each, and says how often a gain is claimed. The
methods "gp" and "tpe" need Optuna.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from mlperf_suite.features.tuning.early_stopping import cannot_win
from mlperf_suite.features.tuning.search import TuningSearch
from mlperf_suite.features.tuning.space import Settings, Trial
from mlperf_suite.features.tuning.tuning_result import PAIRS, gain_of
from perf.simulated_engines import (
    NOISE,
    RATE,
    TRIALS,
    SimulatedEngine,
    any_shapes,
    drifting,
    equal_settings,
    one_optimum,
    roofline,
    serving_engine,
)

_NEAR_BEST_SHARE = 0.98
_EQUAL_TRIALS = 20
_PROBE_NOISE = 2 * NOISE
Way = Callable[[SimulatedEngine, int, int], Settings]
"""Takes an engine, a seed and how many trials there are; returns what it ends with."""
CUTS: Counter[tuple[bool, bool]] = Counter()
"""Trials by whether the settings are near the optimum and whether they were cut."""


def tuned(engine: SimulatedEngine, seed: int, trials: int) -> Settings:
    """The suite's search."""
    search = TuningSearch(engine.space, seed)
    for number in range(trials):
        search.add(engine.measure(search.following(number / trials)))
    return search.best()


def _cut(engine: SimulatedEngine, seed: int, trials: int) -> Settings:
    """The suite's search with probes that cut trials."""
    source = random.Random(f"probe {seed}")  # noqa: S311 - noise, no secret
    search = TuningSearch(engine.space, seed)
    for number in range(trials):
        settings = search.following(number / trials)
        leader, share = search.leader(), engine.share(settings)
        if share is None or leader is None:
            search.add(engine.measure(settings))
            continue
        probe = RATE * share * math.exp(source.gauss(0, _PROBE_NOISE))
        is_cut = cannot_win(probe, _PROBE_NOISE, leader)
        CUTS[share >= _NEAR_BEST_SHARE, is_cut] += 1
        trial = Trial(settings, probe, _PROBE_NOISE, cut="probe")
        search.add(trial if is_cut else engine.measure(settings))
    return search.best()


def _highest(trials: Iterator[Trial]) -> Settings:
    return max(trials, key=lambda trial: trial.rate or 0.0).settings


def _random(engine: SimulatedEngine, seed: int, trials: int) -> Settings:
    source = random.Random(seed)  # noqa: S311 - an order, no secret
    rows = (
        {name: source.choice(choices) for name, choices in engine.space.items()}
        for _ in range(trials)
    )
    return _highest(map(engine.measure, rows))


def _grid(engine: SimulatedEngine, _seed: int, trials: int) -> Settings:
    counts = dict.fromkeys(engine.space, 1)
    while True:
        more = [n for n, c in engine.space.items() if counts[n] < len(c)]
        name = min(more, key=lambda n: counts[n] / len(engine.space[n]))
        if math.prod(counts.values()) // counts[name] * (counts[name] + 1) > trials:
            break
        counts[name] += 1
    few = [
        [choices[int((i + 0.5) * len(choices) / counts[name])] for i in range(counts[name])]
        for name, choices in engine.space.items()
    ]
    rows = (dict(zip(engine.space, row, strict=True)) for row in itertools.product(*few))
    return _highest(map(engine.measure, rows))


def _optuna(sampler: str) -> Way:
    def search(engine: SimulatedEngine, seed: int, trials: int) -> Settings:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        study = optuna.create_study(
            direction="maximize", sampler=getattr(optuna.samplers, sampler)(seed=seed)
        )

        def measured() -> Iterator[Trial]:
            for _ in range(trials):
                asked = study.ask()
                row = {
                    name: choices[_suggestion(asked, name, choices)]
                    for name, choices in engine.space.items()
                }
                trial = engine.measure(row)
                failed = None if trial.rate else optuna.trial.TrialState.FAIL
                study.tell(asked, trial.rate and math.log(trial.rate), state=failed)
                yield trial

        return _highest(measured())

    return search


def _suggestion(asked: object, name: str, choices: tuple[object, ...]) -> int:
    if None in choices:
        index: int = asked.suggest_categorical(name, range(len(choices)))  # type: ignore[attr-defined]
    else:
        index = asked.suggest_int(name, 0, len(choices) - 1)  # type: ignore[attr-defined]
    return index


WAYS: Mapping[str, Way] = {
    "tune": tuned,
    "cuts": _cut,
    "gp": _optuna("GPSampler"),
    "tpe": _optuna("TPESampler"),
    "random": _random,
    "grid": _grid,
}
ENGINES = {
    "one optimum": one_optimum,
    "serving engine": serving_engine,
    "roofline": roofline,
    "any shapes": any_shapes,
    "drifting": drifting,
}


def shares(
    way: Way, engine_of: Callable[[int], SimulatedEngine], seeds: range, trials: int
) -> list[float]:
    """The result's rate without noise as a share of the optimum's, for each search."""
    engines = [(seed, engine_of(seed)) for seed in seeds]
    return [engine.share(way(engine, seed, trials)) or 0.0 for seed, engine in engines]


def _claims(seed: int) -> bool:
    engine = equal_settings(seed)
    default = {name: choices[0] for name, choices in engine.space.items()}
    if tuned(engine, seed, _EQUAL_TRIALS) == default:
        return False
    before, after = ([engine.noise() for _ in range(PAIRS)] for _ in range(2))
    return gain_of(before, after).is_better


def _cut_words() -> str:
    near, others = (CUTS[is_near, True] for is_near in (True, False))
    all_near = near + CUTS[True, False]
    words = f"cut so far: {near + others} of {CUTS.total()} trials, {near} of {all_near} trials"
    return f"{words} of settings within 2% of the optimum"


def main() -> None:
    """Print a table for each engine, and the share of claims on equal settings."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--searches", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first search's seed")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--equal", type=int, default=0)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    arguments = parser.parse_args()
    seeds = range(arguments.first, arguments.first + arguments.searches)
    for name in arguments.engines if seeds else ():
        print(f"| {name} | within 2% | median | worst |\n|---|---:|---:|---:|", flush=True)
        for way in arguments.ways:
            found = shares(WAYS[way], ENGINES[name], seeds, arguments.trials)
            near = sum(share >= _NEAR_BEST_SHARE for share in found)
            below = [
                f"{(share - 1) * 100:.1f}%" for share in (statistics.median(found), min(found))
            ]
            if way == "cuts":
                print(_cut_words())
            print(f"| {way} | {near} of {len(found)} | {' | '.join(below)} |", flush=True)
    if arguments.equal:
        claims = sum(_claims(seed) for seed in range(arguments.equal))
        print(f"equal settings: a gain is claimed in {claims} of {arguments.equal} tunings")


if __name__ == "__main__":
    main()
