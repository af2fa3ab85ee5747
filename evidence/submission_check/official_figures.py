"""The figures that MLCommons says in several places, beside the suite's: limits, gates, lengths.

    MLPERF_INFERENCE=DIR python -m evidence.submission_check.official_figures

writes the table of docs/evidence/official-checker.md again. Sources: constants.py of the submission
checker, mlperf.conf, the reference implementations, and the text of the rules (inference_rules.adoc
of inference_policies at ac93e89, whose figures stand here, since a checkout of inference has no
copy).
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from evidence.from_elsewhere import INFERENCE
from evidence.tables import PAGES, write_cells
from evidence.verdicts import CHECKER
from mlperf_suite.benchmarks.catalog import judged_in_trees
from mlperf_suite.benchmarks.definition import Benchmark

PAGE = PAGES / "official-checker.md"
HEADER = "| figure | the rules' text | mlperf.conf | the checker | the reference | here |"
_LLAMA_3_1 = {"rouge1": 42.9865, "rouge2": 20.1235, "rougeL": 29.9881, "gen_len": 8_167_644}
_LLAMA_2 = {
    **{"Server": (2000, 200), "Interactive": (450, 40), "max_new_tokens": 1024},
    **{"rouge1": 44.4312, "rouge2": 22.0352, "rougeL": 28.6162, "tokens_per_sample": 294.45},
}
_TEXT: dict[str, dict[str, Any]] = {
    "llama3.1-8b": {
        **{"Server": (2000, 100), "Interactive": (500, 30), **_LLAMA_3_1},
        **{"min_new_tokens": 1, "max_new_tokens": 128},
    },
    "llama3.1-8b-edge": {**_LLAMA_3_1, "min_new_tokens": 1, "max_new_tokens": 128},
    "llama2-70b-99": _LLAMA_2,
    "llama2-70b-99.9": _LLAMA_2,
    "llama3.1-405b": {
        **{"Server": (6000, 175), "Interactive": (4500, 80), "rougeL": 21.6666},
        **{"exact_match": 90.1335, "tokens_per_sample": 684.68},
        **{"min_new_tokens": 2, "max_new_tokens": 20_000},
    },
    "mixtral-8x7b": {
        **{"Server": (2000, 200), "rouge1": 45.5989, "rouge2": 23.3526, "rougeL": 30.4608},
        **{"gsm8k": 73.66, "mbxp": 60.16, "tokens_per_sample": 144.84},
        **{"min_new_tokens": 2, "max_new_tokens": 1024},
    },
    "deepseek-r1": {
        **{"Server": (2000, 80), "Interactive": (1500, 15), "exact_match": 81.9132},
        **{"min_new_tokens": 1, "max_new_tokens": 20_000},
    },
    "gpt-oss-120b": {
        **{"Server": (3000, 80), "Interactive": (2000, 20), "exact_match": 83.13},
        **{"min_new_tokens": 1, "max_new_tokens": 10_000, "max_new_tokens (accuracy)": 32_768},
    },
    "qwen3-vl-235b-a22b": {"f1": 78.24 / 0.99},
    "whisper": {"word_accuracy": 100 - 2.0671},
}
"""What the text of the rules states of a benchmark: TTFT and TPOT in ms, the references of the
gates, and lengths in tokens, those of gpt-oss-120b's accuracy runs apart."""
_BOTH_WAYS = ("llama3.1-405b", "mixtral-8x7b")
"""The benchmarks whose answers may not be longer than 110% of the reference either, by the text."""
_VLLM = (("max_new_tokens", r'"max_tokens": (\d+)'), ("min_new_tokens", r'"min_tokens": (\d+)'))
_HF = tuple((name, rf'"{name}": (\d+)') for name in ("max_new_tokens", "min_new_tokens"))
_REFERENCES: dict[str, tuple[tuple[str, tuple[tuple[str, str], ...]], ...]] = {
    "llama3.1-8b": (("llama3.1-8b/SUT_VLLM.py", _VLLM),),
    "llama2-70b-99": (("llama2-70b/SUT.py", _HF),),
    "llama3.1-405b": (("llama3.1-405b/SUT_VLLM.py", _VLLM),),
    "mixtral-8x7b": (("mixtral-8x7b/SUT.py", _HF),),
    "deepseek-r1": (
        ("deepseek-r1/utils/backend_registry.py", (("max_new_tokens", r"MAX_OSL = ([\d *]+)"),)),
    ),
    "gpt-oss-120b": (
        ("gpt-oss-120b/run_mlperf.py", (("max_new_tokens", r"'max_new_tokens', (\d+)\)"),)),
        (
            "gpt-oss-120b/generation_config.json",
            (("max_new_tokens (accuracy)", r'"max_new_tokens": (\d+)'),),
        ),
    ),
}
"""Where the reference implementations of v6.0 and v6.1, in `language`, say how long answers are."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure by its sources; None where one does not state it."""

    name: str
    text: float | None
    conf: float | None
    checker: float | None
    reference: float | None
    own: float | None

    @property
    def sources(self) -> tuple[float | None, ...]:
        return self.text, self.conf, self.checker, self.reference

    @property
    def of_programs(self) -> set[float]:
        """What MLCommons' programs state: all but the text."""
        return {value for value in self.sources[1:] if value is not None}

    @property
    def contradicts(self) -> bool:
        """Whether two official sources state it otherwise, beyond the digits of a reference."""
        stated = [value for value in self.sources if value is not None]
        return max(stated) > min(stated) * (1 + 1e-4)


def checker_constants(checkout: Path) -> Any:
    sys.path.insert(0, str(checkout / CHECKER))
    return import_module("submission_checker.constants")


def conf_settings(checkout: Path) -> dict[str, str]:
    """mlperf.conf, by model.scenario.key."""
    lines = (checkout / "loadgen" / "mlperf.conf").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition("#")[0].partition("=") for line in lines)
    return {name.strip(): value.strip() for name, _, value in pairs if value}


def figures(checkout: Path) -> Iterator[Figure]:
    """Each latency limit, gate and length of a benchmark that the suite judges in trees."""
    constants, conf = checker_constants(checkout), conf_settings(checkout)
    for benchmark in judged_in_trees():
        limits = constants.LLM_LATENCY_LIMITS.get(benchmark.id, {})
        for scenario in benchmark.scenarios:
            in_text = _TEXT[benchmark.id].get(scenario.name, (None, None))
            pairs = zip(("ttft", "tpot"), in_text, strict=True) if "tpot" in scenario.limits else ()
            for kind, text in pairs:
                key = f"{scenario.loadgen_model}.Server.{kind}_latency"
                checked = limits.get(scenario.name, {}).get(kind)
                yield Figure(
                    f"{benchmark.id} {scenario.name} {kind.upper()}, ms",
                    text,
                    float(conf[key]) if key in conf else None,
                    checked and checked / 1e6,
                    None,
                    scenario.limits[kind],
                )
        yield from _gates(benchmark, constants.MODEL_CONFIG[benchmark.rounds[-1]])
        yield from _lengths(benchmark, checkout)


def _lengths(benchmark: Benchmark, checkout: Path) -> Iterator[Figure]:
    """The least and most tokens of an answer, as the newest reference asks for them."""
    for file, patterns in _REFERENCES.get(benchmark.id, ()):
        code = (checkout / "language" / file).read_text(encoding="utf-8")
        code = re.sub(r"(?m)^ *#.*$", "", code)
        for name, pattern in patterns:
            found = re.search(pattern, code)
            assert benchmark.workload is not None and found, (file, name)
            key, _, mode = name.partition(" (")
            own = benchmark.workload.part(mode[:-1] or "performance").generation
            yield Figure(
                f"{benchmark.id} {name}",
                _TEXT[benchmark.id].get(name),
                None,
                None,
                math.prod(map(int, found[1].split("*"))),
                getattr(own, key),
            )


NOT_HERE = "gpt-oss-120b tokens_per_sample"
"""Its upper limit is a placeholder, 1.1 x 9,999, which the official script does not print."""
_NAMES = {
    "gsm8k_accuracy": "gsm8k",
    "mbxp_accuracy": "mbxp",
    "accuracy": "word_accuracy",
    "f1_hierarchical": "f1",
}
"""The checker's names of figures that the suite calls otherwise."""


def _gates(benchmark: Benchmark, config: Any) -> Iterator[Figure]:
    """Of several scenarios' gates Offline's, shares in percent."""
    own = {score.name.lower(): score for score in benchmark.reference.scores}
    strict = benchmark.id.endswith("-99.9")
    for bound in ("accuracy-target", "accuracy-upper-limit"):
        pairs = config[bound].get(benchmark.id, ())
        pairs = pairs["Offline"] if isinstance(pairs, dict) else pairs
        for name, official in zip(pairs[::2], pairs[1::2], strict=True):
            score = own.get(_NAMES.get(name.lower(), name.lower()))
            if score is None:
                yield Figure(f"{benchmark.id} {name.lower()}", None, None, official, None, None)
                continue
            at_least = bound == "accuracy-target"
            scale = 100 if score.name == "f1" else 1
            own_gate = score.low(strict=strict) if at_least else score.high or 0.0
            share = own_gate / score.value if at_least else 1.1
            states = score.name in _TEXT[benchmark.id]
            states = states and (at_least or benchmark.id in _BOTH_WAYS)
            yield Figure(
                f"{benchmark.id} {score.name}, at {'least' if at_least else 'most'}",
                round(share * _TEXT[benchmark.id][score.name], 3) if states else None,
                None,
                round(scale * official, 3),
                None,
                round(own_gate, 3),
            )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:,.3f}".rstrip("0").removesuffix(".")


def main() -> None:
    rows = [
        (figure.name, *(_number(v) for v in (*figure.sources, figure.own)))
        for figure in figures(INFERENCE)
        if figure.contradicts
    ]
    write_cells(PAGE, HEADER, rows)


if __name__ == "__main__":
    main()
