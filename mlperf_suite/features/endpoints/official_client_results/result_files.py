"""The files of one run of the official HTTP client as types; nothing in them makes a reader raise.

Source of the fields: metrics/report.py and config/ of github.com/mlcommons/endpoints. Members that
no rule uses are ignored. All times are in ns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Struct, field

from mlperf_suite import strict_json
from mlperf_suite.features.submission_check.tree_files import read_yaml
from mlperf_suite.untrusted_files import printable

OFFICIAL_CLIENT_SUMMARY, OFFICIAL_CLIENT_ACCURACY = "result_summary.json", "accuracy_results.json"
Count = Annotated[int, Meta(ge=0, le=2**53)]
Requests = Annotated[int, Meta(ge=0, le=2**28)]
"""More than a hundred times the most that were published (1,738,404)."""
Figure = Annotated[float, Meta(ge=0, le=1e30)]
_Value = Annotated[float, Meta(ge=-1e30, le=1e30)]
"""Of a series: a TPOT may be negative, see `distribution_checks.negative_faults`."""
_MAX_ENTRIES, _MAX_PERCENTILES = Meta(max_length=1000), Meta(max_length=64)
"""Of what the client writes at most 30 of, and 12 percentiles."""
_MAX_FILE_BYTES = 2**26
"""Many times the largest that was published (15 kB)."""
_FileT = TypeVar("_FileT")


class Histogram(Struct, frozen=True):
    """The number of values in each bucket from a low to a high bound."""

    buckets: Annotated[tuple[tuple[Figure, Figure], ...], _MAX_ENTRIES] = ()
    counts: Annotated[tuple[Requests, ...], _MAX_ENTRIES] = ()


class Distribution(Struct, frozen=True):
    """One series of a run; every member is empty where nothing was measured.

    `percentiles` and `early_stopping_percentiles` are by "99.0", the percentile in percent; an
    estimate of early stopping is None if there were too few samples.
    """

    total: _Value | None = None
    min: _Value | None = None
    max: _Value | None = None
    median: _Value | None = None
    avg: _Value | None = None
    std_dev: Figure | None = None
    percentiles: Annotated[dict[str, _Value], _MAX_PERCENTILES] = field(default_factory=dict)
    early_stopping_percentiles: Annotated[dict[str, _Value | None], _MAX_PERCENTILES] = field(
        default_factory=dict
    )
    histogram: Histogram = field(default_factory=Histogram)


class LoadPattern(Struct, frozen=True):
    """How requests were issued: max_throughput, poisson, concurrency or agentic_inference."""

    type: str | None = None
    target_qps: Figure | None = None
    target_concurrency: Count | None = None
    use_legacy_loadgen_qps_metrics: bool | None = None


class RunConfig(Struct, frozen=True):
    """The part of its configuration that a run repeats in its summary."""

    load_pattern: LoadPattern = field(default_factory=LoadPattern)
    warmup: dict[str, Any] = field(default_factory=dict)
    scheduler_random_seed: int | None = None
    dataloader_random_seed: int | None = None


class FullRun(Struct, frozen=True):
    """Figures of every turn of a run of several turns, beside those of its window."""

    output_sequence_lengths: Distribution = field(default_factory=Distribution)


class ResultSummary(Struct, frozen=True):
    """performance/result_summary.json.

    `test_started_at`: since 1970, by the system's clock.
    `legacy_loadgen_window_duration_ns`: from the first request to the end of the last that was
    issued, as LoadGen counts; None if the rates are over `duration_ns`.
    `system_tps` and after: figures of MLPerf Endpoints that somebody added.
    """

    n_samples_issued: Requests
    n_samples_completed: Requests
    n_samples_failed: Requests
    state: str
    complete: bool
    duration_ns: Count | None = None
    test_started_at: Annotated[int, Meta(ge=0, le=2**62)] | None = None
    version: str | None = None
    git_sha: str | None = None
    ttft: Distribution = field(default_factory=Distribution)
    tpot: Distribution = field(default_factory=Distribution)
    latency: Distribution = field(default_factory=Distribution)
    output_sequence_lengths: Distribution = field(default_factory=Distribution)
    input_sequence_lengths: Distribution = field(default_factory=Distribution)
    legacy_loadgen_window_duration_ns: Count | None = None
    qps: Figure | None = None
    tps: Figure | None = None
    system_tps: Figure | None = None
    tps_per_user: Figure | None = None
    system_tps_per_kw: Figure | None = None
    e2e_avg_interactivity: Figure | None = None
    output_tokens_per_turn_total: Figure | None = None
    e2e_turn_time_seconds_total: Figure | None = None
    output_sequence_lengths_full_run: FullRun | None = None
    finish_reason_counts: Annotated[dict[str, Requests], _MAX_ENTRIES] = field(default_factory=dict)
    run_config: RunConfig | None = None

    @property
    def run(self) -> tuple[object, ...] | None:
        """What two runs do not share by chance; None if nothing was measured."""
        return (self.duration_ns, self.latency.total) if self.duration_ns else None


class ResponseCounts(Struct, frozen=True):
    """What became of the requests of one scored data set."""

    issued: Count | None = None
    scored: Count | None = None
    empty: Count | None = None
    missing: Count | None = None


class AccuracyScore(Struct, frozen=True):
    """One scored data set. `score`: a number, or several by name. `duration_s`: of its requests."""

    dataset_name: str
    score: float | dict[str, Any] | str | None = None
    unit_samples: Count | None = None
    num_repeats: Count | None = None
    total_samples: Count | None = None
    duration_s: Figure | None = None
    complete: bool | None = None
    dataset_type: str | None = None
    breakdown: dict[str, Any] | None = None
    response_counts: ResponseCounts = field(default_factory=ResponseCounts)
    output_sequence_lengths: Distribution = field(default_factory=Distribution)


class AccuracyResults(Struct, frozen=True):
    """accuracy/accuracy_results.json."""

    accuracy_scores: Annotated[tuple[AccuracyScore, ...], _MAX_ENTRIES]
    average_accuracy: float | None = None

    @property
    def counted_scores(self) -> list[AccuracyScore]:
        """The scores that count, as the official checker takes them: of no type or "accuracy"."""
        return [s for s in self.accuracy_scores if s.dataset_type in (None, "accuracy")]

    @property
    def run(self) -> tuple[object, ...] | None:
        """What two accuracy runs do not share by chance; None if they say nothing of themselves."""
        scores = self.counted_scores
        times = [(s.duration_s, s.output_sequence_lengths.total) for s in scores]
        return ("accuracy", *times) if times and None not in times[0] else None


class EarlierResults(Struct, frozen=True):
    """results.json, in which scores stand where there is no accuracy_results.json: a list, or an
    object by data sets. None for other contents of a file of that name."""

    accuracy_scores: tuple[dict[str, Any], ...] | dict[str, dict[str, Any]] | None = None


def earlier_scores(path: Path) -> tuple[AccuracyResults | None, str]:
    """The scores in results.json and "", or None and in one line why they cannot be read; "" if
    there are none."""
    earlier, problem = read_typed(path, EarlierResults)
    if earlier is None or not earlier.accuracy_scores:
        return None, problem
    scores = earlier.accuracy_scores
    if isinstance(scores, dict):
        scores = tuple({**score, "dataset_name": name} for name, score in scores.items())
    return read_as({"accuracy_scores": scores}, AccuracyResults, path.name)


class AuditResult(Struct, frozen=True):
    """audit/audit_<name>.json."""

    test: str
    passed: bool


class Runtime(Struct, frozen=True):
    """settings.runtime of config.yaml."""

    min_duration_ms: Count | None = None
    max_duration_ms: Count | None = None
    n_samples_to_issue: Count | None = None
    scheduler_random_seed: int | None = None
    dataloader_random_seed: int | None = None


class OfficialClientSettings(Struct, frozen=True):
    """settings of config.yaml."""

    runtime: Runtime = field(default_factory=Runtime)
    load_pattern: LoadPattern = field(default_factory=LoadPattern)


class OfficialClientConfig(Struct, frozen=True):
    """config.yaml: the configuration as the client resolved it. `type`: online or offline."""

    type: str | None = None
    model_params: dict[str, Any] = field(default_factory=dict)
    datasets: Annotated[tuple[dict[str, Any], ...], _MAX_ENTRIES] = ()
    settings: OfficialClientSettings = field(default_factory=OfficialClientSettings)

    @property
    def scorers(self) -> set[str]:
        """The scorers of its data sets."""
        scored = (row.get("accuracy_config") for row in self.datasets)
        return {str(of.get("eval_method")) for of in scored if isinstance(of, dict)}


def read_typed(path: Path, kind: type[_FileT]) -> tuple[_FileT | None, str]:
    """A JSON file of the client and "", or None and in one line why it cannot be read."""
    try:
        content = strict_json.load(path, _MAX_FILE_BYTES)
    except OSError as error:
        return None, f"{path.name} cannot be read: {error.strerror}"
    except strict_json.RepeatedMemberError as error:
        return None, f"{path.name} has {printable(str(error))}"
    # Also for a name that no file can have.
    except ValueError:
        return None, f"{path.name} is not JSON in UTF-8"
    return read_as(content, kind, path.name)


def read_as(content: Any, kind: type[_FileT], name: str) -> tuple[_FileT | None, str]:
    """The content of the file of that name as a type and "", or None and in one line what is
    wrong."""
    try:
        return strict_json.typed(content, kind), ""
    except ValueError as error:
        return None, f"{name}: {error}"


def read_yaml_as(path: Path, kind: type[_FileT]) -> tuple[_FileT | None, str]:
    """A YAML file as a type and "", or None and in one line what is wrong."""
    content, problem = read_yaml(path)
    return (None, problem) if problem else read_as(content, kind, path.name)
