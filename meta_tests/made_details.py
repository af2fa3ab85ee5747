"""What a made-up run's logs have beside what the core's rules look at, and parts of features."""

from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from mlperf_suite.benchmarks.definition import Scenario


def of_features(name: str) -> Iterator[ModuleType]:
    """The module of this name beside the tests of each feature that has one."""
    for path in sorted(Path(__file__).parent.glob(f"features/*/{name}.py")):
        yield import_module(f"meta_tests.features.{path.parent.name}.{name}")


def sha1_sums(path: Path) -> dict[str, str]:
    """The SHA-1 of each file in a list."""
    lines = path.read_text().splitlines()
    return {name: checksum for checksum, name in map(str.split, lines)}


class Load(NamedTuple):
    """The queries of a run: samples of each, and ns from the first to its end and to the last."""

    queries: int
    samples: int
    duration_ns: int
    last_ns: int


class Details:
    """As plain as the core's rules take it; the module `made_details` of a feature with rules of
    more has them, in its `DETAILS`. Of `entries`, a detail log's, each takes what it needs."""

    def loaded(self, seed: int, total: int) -> Sequence[int]:
        """The samples in the order of the data set's seed."""
        return range(total)

    def load(self, entries: dict[str, Any], loaded: int, accuracy: bool) -> Load:
        """Those of so many loaded samples."""
        offline = entries["effective_scenario"] == "Offline"
        qps, least = entries["effective_target_qps"], entries["effective_min_query_count"]
        queries = max(least, int(qps * entries["effective_min_duration_ms"] / 1e3) + 1)
        samples = loaded if accuracy else entries["effective_samples_per_query"]
        if accuracy or offline:
            queries = 1 if offline else loaded
        duration_ns = int((samples if offline else queries) / qps * 1e9)
        return Load(queries, samples if offline else 1, duration_ns, duration_ns)

    def issued(self, entries: dict[str, Any], accuracy: bool, count: int) -> tuple[int, ...]:
        """The samples in the first places of the order of issue."""
        kinds = ("sample_concatenate_permutation", "performance_issue_unique")
        once = accuracy or any(entries[f"effective_{kind}"] for kind in kinds)
        # A draw with replacement has some twice.
        twice = not once and entries["effective_scenario"] == "Server"
        total = entries["qsl_reported_total_count"]
        return tuple((place - place % 2 * twice) % total for place in range(count))

    def every_line(
        self, entries: dict[str, Any], scenario: Scenario, accuracy: bool
    ) -> dict[str, Any]:
        """With the lines that are as any run has them."""
        return entries

    def summary(self, entries: dict[str, Any]) -> str:
        """A summary file with the figures of a detail log."""
        return f"Result is : {entries.get('result_validity')}\n"
