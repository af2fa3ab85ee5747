"""Results of the official HTTP client in a submission of MLPerf Inference, beside LoadGen's.

Nothing in the client's files names benchmark and scenario: the argument BENCHMARK/SCENARIO=FOLDER
does, or the summary of this suite's run that they are of, or else the last two folders of the path.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite import __version__
from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.features.endpoints.official_client.client_job import PLACEHOLDER
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    OfficialClientBenchmark,
    official_client_benchmark,
)
from mlperf_suite.features.endpoints.official_client_results.result_files import (
    OFFICIAL_CLIENT_ACCURACY,
    OFFICIAL_CLIENT_SUMMARY,
)
from mlperf_suite.features.submission.official_client_points import (
    OfficialClientPoint,
    holds_official_client_run,
    read_points,
)
from mlperf_suite.features.submission_check.submission_rules import MEASUREMENT_FIELDS
from mlperf_suite.results.run_folder import SUMMARY_JSON, read_summary, write_whole
from mlperf_suite.secrets import redact

_FIRST_ROUND = "v6.1"


@dataclass(frozen=True, slots=True)
class OfficialClientScenario:
    """One result of the client. `benchmark`: the demands on its scenario."""

    benchmark: OfficialClientBenchmark
    point: OfficialClientPoint

    @property
    def name(self) -> tuple[str, str]:
        return self.benchmark.id, self.benchmark.scenario

    def __str__(self) -> str:
        return str(self.point)


def is_of_official_client(argument: Path) -> bool:
    """Whether a result that the user named is the client's, and not a folder of this suite's."""
    folder = _named(argument)[1]
    summary = read_summary(folder)
    of_loadgen = (folder / SUMMARY_JSON).is_file() and not (summary and summary.meta.load_generator)
    return not of_loadgen and holds_official_client_run(folder)


def read_official_client_scenarios(
    arguments: Iterable[Path], round_: Round
) -> tuple[list[OfficialClientScenario], list[str]]:
    """The results, and one line for each reason why one cannot be submitted."""
    scenarios: list[OfficialClientScenario] = []
    reasons: list[str] = []
    for argument in arguments:
        benchmark, folder = _named(argument)
        points, faults = read_points([folder])
        faults += list(_faults(benchmark, points, folder, round_))
        reasons += faults
        if benchmark is not None and points and not faults:
            scenarios.append(OfficialClientScenario(benchmark, points[0]))
    return scenarios, reasons


def _named(argument: Path) -> tuple[OfficialClientBenchmark | None, Path]:
    """The scenario that an argument names, None if it names none, and its folder."""
    words, sign, folder = str(argument).partition("=")
    if sign and (benchmark := _benchmark(Path(words))) is not None:
        return benchmark, Path(folder)
    summary = read_summary(argument)
    own = Path(*summary.meta.kind) if summary else argument.resolve()
    return _benchmark(own) or _benchmark(argument.resolve()), argument


def _benchmark(path: Path) -> OfficialClientBenchmark | None:
    return official_client_benchmark(path.parent.name, path.name)


def _faults(
    benchmark: OfficialClientBenchmark | None,
    points: Sequence[OfficialClientPoint],
    folder: Path,
    round_: Round,
) -> Iterator[str]:
    if round_.name < _FIRST_ROUND:
        yield f"{folder}: {round_.name} takes no results of the official client"
    if benchmark is None:
        yield (
            f"{folder}: no file names benchmark and scenario; write, for example, "
            f"llama3.1-8b/Server={folder}"
        )
    if len(points) > 1:
        yield f"{folder}: {len(points)} results below it; name each of them"
    yield from (
        f"{point}: no {OFFICIAL_CLIENT_ACCURACY}" for point in points if point.accuracy_file is None
    )
    for point in points:
        if PLACEHOLDER in point.config.scorers:
            yield f"{point}: its accuracy has no score of the client's own scorer ({PLACEHOLDER})"


def write_official_client_scenario(
    folder: Path, scenario: OfficialClientScenario, measurements_of_user: Mapping[str, Any]
) -> dict[str, Any]:
    """Write the client's files of a scenario; returns the content of its measurements.json, which
    says what the user said."""
    point = scenario.point
    for source, path in (
        (point.config_file, "config.yaml"),
        (point.summary_file, f"performance/{OFFICIAL_CLIENT_SUMMARY}"),
        (point.accuracy_file, f"accuracy/{OFFICIAL_CLIENT_ACCURACY}"),
    ):
        assert source is not None
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        if path == "config.yaml":
            write_whole(folder / path, redact(source.read_text(encoding="utf-8")))
        else:
            shutil.copyfile(source, folder / path)
    for audit in sorted((point.folder / "audit").glob("audit_*.json")):
        (folder / "audit").mkdir(exist_ok=True)
        shutil.copyfile(audit, folder / "audit" / audit.name)
    write_whole(folder / "README.md", _readme(scenario))
    return {**dict.fromkeys(MEASUREMENT_FIELDS, ""), **measurements_of_user}


def _readme(scenario: OfficialClientScenario) -> str:
    """The run, its settings, and how to run it again."""
    point, (benchmark, name) = scenario.point, scenario.name
    load, run = point.config.settings.load_pattern, point.summary
    rate = f", {load.target_qps:g} requests/s" if load.target_qps else ""
    facts = {
        "benchmark": f"{benchmark}, {name}, {scenario.benchmark.category}",
        "model": point.config.model_params.get("name") or "not known",
        "load": f"{load.type}{rate}",
        "client": f"inference-endpoint {run.version or ''} {run.git_sha or ''}".strip(),
        "suite": f"mlperf-suite {__version__}",
    }
    rows = "\n".join(f"| {key} | {redact(str(value))} |" for key, value in facts.items())
    command = "inference-endpoint benchmark from-config --config config.yaml"
    return (
        f"# {benchmark} {name}\n\n| | |\n|---|---|\n{rows}\n\nTo rerun it, with the addresses and "
        f"paths in config.yaml:\n\n```\n{command}\n```\n"
    )


def official_client_source_readme(scenario: OfficialClientScenario) -> str:
    """The README.md of the benchmark's source folder."""
    return (
        f"# {scenario.benchmark.id}\n\nMeasured with MLCommons' HTTP client inference-endpoint. "
        "Put the code of the server, as far as it is not public, into this folder.\n"
    )
