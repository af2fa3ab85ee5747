"""What perf.gpu measured, kept as JSON beside the page that is made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

ANCHORS = (
    "Published beside these, 1 x H100 with vLLM in FP8, MLPerf Inference v5.1: 5,777 tokens/s "
    "Offline and 5,104 tokens/s Server, with the real model and data."
)
MEAN_PROMPT, ANSWER = 705, 128
"""The benchmark's mean prompt length and its longest answer, in tokens."""
_STAND_IN_NOTE = (
    "**This has not run on a GPU.** The figures below are of vLLM's CPU build with the",
    "embedded model and a few prompts: they show that the program works, and nothing of a",
    "GPU. On a machine with one, `python -m perf.gpu` writes this page anew.",
)


@dataclass
class Latency:
    """The 99th percentiles in ms, each of the bare engine and of the suite."""

    share: str
    qps: float
    ttft: tuple[float, float]
    tpot: tuple[float, float]


@dataclass
class Smoke:
    """The small engine's: seconds to load, and the tokens of all its answers."""

    load_s: float
    tokens: int


@dataclass
class PrecisionFigures:
    """What was measured in one precision. Rates in tokens/s, as pairs of bare and suite. `cold` and
    `warm`: TTFT p99 of the first queries in ms. `seconds`: what each stage took, the loading of its
    engine aside. `left_out`: by stage, what was not measured and why."""

    precision: str
    load_s: float | None = None
    memory_gib: float | None = None
    smoke: Smoke | None = None
    prompts: int = 0
    offline: list[tuple[float, float]] = field(default_factory=list)
    joules: float | None = None
    cold: float | None = None
    warm: float | None = None
    server: list[Latency] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    left_out: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Record:
    """What was measured on one device with one build, in several calls if need be.

    `device`: the GPU's name and driver; None on a CPU. `system`: as in `describe_system`.
    """

    device: str | None
    system: dict[str, object]
    precisions: dict[str, PrecisionFigures] = field(default_factory=dict)

    def of(self, precision: str) -> PrecisionFigures:
        return self.precisions.setdefault(precision, PrecisionFigures(precision))

    def continues(self, page: Path) -> Record:
        """This record with what an earlier call kept beside the page, if it was of the same device
        and system."""
        try:
            kept = msgspec.json.decode(page.with_suffix(".json").read_bytes(), type=Record)
        except (OSError, msgspec.MsgspecError):
            return self
        return kept if (kept.device, kept.system) == (self.device, self.system) else self

    def write(self, page: Path) -> None:
        """Write the page, and the figures as JSON beside it. Raises OSError."""
        page.parent.mkdir(parents=True, exist_ok=True)
        figures = msgspec.json.format(msgspec.json.encode(self))
        page.with_suffix(".json").write_bytes(figures + b"\n")
        page.write_text(render(self))


def render(record: Record) -> str:
    """The page."""
    system, all_figures = record.system, list(record.precisions.values())
    lines = ["# What a GPU does with vLLM, and what the suite adds", ""]
    if record.device is None:
        lines += _STAND_IN_NOTE
    else:
        lines += [
            f"{record.device}, with a model of Llama-3.1-8B's shape and random weights, prompts of "
            f"{MEAN_PROMPT} tokens on average, answers of {ANSWER}.",
            "",
            ANCHORS,
        ]
    lines += [
        "",
        f"`python -m perf.gpu`: vLLM {system['vllm_version']}, torch {system['torch_version']}, "
        f"LoadGen {system['loadgen_version']}, {system['cpu']}.",
        *_section(
            "Offline",
            'Tokens/s, alternating on one engine; "bare" is AsyncLLM.generate on all prompts '
            "at once.",
            "precision | prompts | bare | suite | suite / bare | J per token | load, s | GiB used",
            [
                (
                    figures.precision,
                    str(figures.prompts),
                    f"{bare:,.0f}",
                    f"{suite:,.0f}",
                    f"{suite / bare:.3f}",
                    _cell(figures.joules, 3),
                    _cell(figures.load_s, 0),
                    _cell(figures.memory_gib, 1),
                )
                for figures in all_figures
                for bare, suite in figures.offline
            ],
        ),
        *_section(
            "Server",
            "The same prompts at the same times, in ms; p99 of TTFT and TPOT.",
            "precision | rate | queries/s | TTFT bare | TTFT suite | added "
            "| TPOT bare | TPOT suite | added",
            [
                (
                    *(figures.precision, f"{latency.share} of the peak", f"{latency.qps:.2f}"),
                    *_added(*latency.ttft),
                    *_added(*latency.tpot),
                )
                for figures in all_figures
                for latency in figures.server
            ],
        ),
        *_section(
            "Warm-up",
            "TTFT p99 in ms of a fresh engine's first queries, and of the same after a warm-up.",
            "precision | cold | warmed up",
            [
                (figures.precision, _cell(figures.cold, 1), _cell(figures.warm, 1))
                for figures in all_figures
                if figures.cold is not None
            ],
        ),
        *_section(
            "Smoke",
            "A small engine: two of the model's layers on a GPU, the embedded model on a CPU.",
            "precision | load, s | tokens answered",
            [
                (figures.precision, _cell(figures.smoke.load_s, 0), f"{figures.smoke.tokens:,}")
                for figures in all_figures
                if figures.smoke
            ],
        ),
        *_section(
            "Seconds of each stage",
            "",
            "precision | stage | s",
            [
                (figures.precision, stage, f"{seconds:,.0f}")
                for figures in all_figures
                for stage, seconds in figures.seconds.items()
                # Nothing of a stage was measured for which no time was left.
                if seconds >= 1.0
            ],
        ),
    ]
    left_out = [
        f"- {figures.precision}, {stage}: {words}"
        for figures in all_figures
        for stage, faults in figures.left_out.items()
        for words in faults
    ]
    if left_out:
        lines += ["", "## Not measured", "", *left_out]
    return "\n".join(lines) + "\n"


def _section(title: str, intro: str, header: str, rows: Sequence[Sequence[str]]) -> list[str]:
    """A table with its title; nothing if it has no rows. Figures are to the right."""
    if not rows:
        return []
    names = header.split(" | ")
    left = ("precision", "rate", "stage")
    marks = "|".join("---" if name in left else "---:" for name in names)
    table = [f"| {header} |", f"|{marks}|", *(f"| {' | '.join(row)} |" for row in rows)]
    return ["", f"## {title}", "", *([intro, ""] if intro else []), *table]


def _added(bare: float, suite: float) -> tuple[str, str, str]:
    return f"{bare:.1f}", f"{suite:.1f}", f"{suite - bare:+.1f}"


def _cell(value: float | None, digits: int) -> str:
    return "not known" if value is None else f"{value:,.{digits}f}"
