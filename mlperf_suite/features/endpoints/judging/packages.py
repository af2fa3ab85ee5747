"""Judges a package of the series MLPerf Endpoints: each curve, a system's points of one model.

Refuses loose results of the official client.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path

from mlperf_suite.benchmarks.rounds import Round
from mlperf_suite.features.endpoints.judging.official_client_submissions import (
    events_of,
    official_client_results_of,
)
from mlperf_suite.features.endpoints.official_client_results.client_benchmarks import (
    OfficialClientBenchmark,
)
from mlperf_suite.features.endpoints.official_client_results.package_files import (
    POINT_YAML,
    SYSTEM_POWER,
    PointFile,
    description_of,
)
from mlperf_suite.features.endpoints.official_client_results.provisioned_power import SystemPower
from mlperf_suite.features.endpoints.official_client_results.result_files import (
    OFFICIAL_CLIENT_ACCURACY,
    OFFICIAL_CLIENT_SUMMARY,
    AccuracyResults,
    OfficialClientConfig,
    ResultSummary,
    earlier_scores,
    read_typed,
    read_yaml_as,
)
from mlperf_suite.features.endpoints.official_client_results.series import SERIES, SERIES_MODELS
from mlperf_suite.features.endpoints.rules.official_client_rules import OfficialClientFacts
from mlperf_suite.features.endpoints.rules.package_rules import CurveFacts, PointFacts
from mlperf_suite.features.submission_check.scenario_folders import DIVISIONS, TreeJudge
from mlperf_suite.features.submission_check.tree_files import file_names, folders_in, size_of
from mlperf_suite.judging.judges import Folders, FoundResults, JudgeRequest
from mlperf_suite.judging.reading import read_json
from mlperf_suite.judging.verdict_group import VerdictGroup, name_of, refused, verdict_group
from mlperf_suite.rules import judge

_POINT = re.compile(r"r([0-9]{1,9})")
_DESCRIPTION, _CONFIG = "system_desc.json", "config.yaml"
_FILES = (POINT_YAML, _CONFIG, OFFICIAL_CLIENT_SUMMARY, _DESCRIPTION)
OFFICIAL_CLIENT_FILES = frozenset(
    {OFFICIAL_CLIENT_SUMMARY, OFFICIAL_CLIENT_ACCURACY, POINT_YAML, SYSTEM_POWER}
)


def _find(root: Path, folders: Folders) -> FoundResults:
    """Every package, and every folder that the official client wrote, be it loose or not."""
    packages: dict[Path, Path] = {}
    of_client: set[Path] = set()
    for folder, files in folders:
        if (package := _package_of(folder, files)) is not None:
            packages[folder] = package
        elif OFFICIAL_CLIENT_FILES & set(files):
            is_part = folder != root and folder.name in ("performance", "accuracy")
            of_client.add(folder.parent if is_part else folder)
    roots = frozenset(packages.values())

    def verdicts(review: JudgeRequest) -> list[VerdictGroup]:
        copies = _copies(roots)
        of_packages = [judge_package(path, review.tokenizer, copies) for path in sorted(roots)]
        loose = [
            _judge_loose_client(root, path, review.round)
            for path in sorted(of_client)
            if review.is_loose(path) and roots.isdisjoint({path, *path.parents})
        ]
        return [*chain(*of_packages), *loose]

    return FoundResults(frozenset(packages), verdicts)


JUDGE = TreeJudge(
    rank=2, find=_find, files=OFFICIAL_CLIENT_FILES, results_in=official_client_results_of
)


def _package_of(folder: Path, files: list[str]) -> Path | None:
    """The package whose results/<system>/<model>/r<N> or results/<system> the folder is, by its
    files, or None."""
    parts = folder.parts
    of_inference = not set(DIVISIONS).isdisjoint(parts[-4:-3])
    if SYSTEM_POWER in files and parts[-2:-1] == ("results",) and not of_inference:
        return folder.parents[1]
    is_point = POINT_YAML in files and parts[-4:-3] == ("results",)
    return folder.parents[3] if is_point and parts[-1][:1] == "r" else None


def _judge_loose_client(root: Path, folder: Path, round_: Round | None) -> VerdictGroup:
    """Refuse a result of the official client that no tree of a submission gives a benchmark."""
    name = name_of("", *(folder.relative_to(root).parts or (root.name,)))
    description = "a result of the official HTTP client outside a submission's tree"
    return refused(name, description, round_)


_Copies = Mapping[Path, str]


def judge_package(
    root: Path, tokenizer: Path | None = None, copies: _Copies | None = None
) -> list[VerdictGroup]:
    """Judge every curve of a package, the folder of a submission id; one group says what is missing
    where there is no curve. `tokenizer`: the folder of one that may be the model's. `copies`: by a
    point's folder, another with its run; of this package alone if it is not given."""
    copies = _copies([root]) if copies is None else copies
    return [_judge_curve(root, system, model, tokenizer, copies) for system, model in _curves(root)]


def _copies(roots: Iterable[Path]) -> dict[Path, str]:
    """By a point's folder, another point of any package that has the same run."""
    points: dict[tuple[object, ...], list[Path]] = defaultdict(list)
    for root in sorted(roots):
        for system, model in _curves(root):
            for _, folder in _points(root, system, model):
                results = (
                    read_typed(folder / OFFICIAL_CLIENT_SUMMARY, ResultSummary),
                    _scores(folder),
                )
                for result, _ in results:
                    if result is not None and result.run is not None:
                        points[result.run].append(folder)
    return {
        # Organization, id, system, model and point; each names the one before it.
        folder: "/".join((*other.parts[-6:-4], *other.parts[-3:]))
        for folders in points.values()
        if len(folders) > 1
        for folder, other in zip(folders, [folders[-1], *folders], strict=False)
    }


def _points(root: Path, system: str, model: str) -> list[tuple[int, Path]]:
    """The folders r<N> of a curve, by their numbers."""
    folders = folders_in(root / "results" / system / model) if model else []
    return sorted((int(m[1]), f) for f in folders if (m := _POINT.fullmatch(f.name)))


def _curves(root: Path) -> Iterator[tuple[str, str]]:
    """The names of system and model of each curve; "" for a folder that there is not."""
    for system in sorted(folders_in(root / "results")) or [Path()]:
        models = sorted(folders_in(system)) if system.name else []
        yield from [(system.name, model.name) for model in models or [Path()]]


def _judge_curve(
    root: Path, system: str, model: str, tokenizer: Path | None, copies: _Copies
) -> VerdictGroup:
    numbered = _points(root, system, model)
    points = tuple(_point(folder, number, model, tokenizer) for number, folder in numbered)
    faults = [*_package_faults(root), *_curve_faults(system, model, points)]
    for _, folder in numbered:
        faults += [f"no {folder.name}/{name}" for name in _FILES if size_of(folder / name) == 0]
    for point in points:
        faults += _point_faults(root, point)
    curve = CurveFacts(
        system=system,
        model=model,
        points=points,
        layout=tuple(faults),
        power=_power(root / "results" / system / SYSTEM_POWER),
        copies={folder.name: copies[folder] for _, folder in numbered if folder in copies},
    )
    name = name_of("", *filter(None, (root.name, system, model)))
    return verdict_group(name, SERIES, [("performance", judge(curve))])


def _power(path: Path) -> SystemPower | str | None:
    """What system_power.json has, or in one line why nothing; None if there is no file."""
    if not path.is_file():
        return None
    power, problem = read_typed(path, SystemPower)
    return power or problem


def _point(folder: Path, number: int, model: str, tokenizer: Path | None) -> PointFacts:
    """What the files of a point have."""
    file, fault = read_yaml_as(folder / POINT_YAML, PointFile)
    described = read_json(folder / _DESCRIPTION)
    description, no_description = (
        (None, described.problem) if described.problem else description_of(described.content)
    )
    client = _client(folder, model, file, tokenizer)
    problems = (fault, no_description, *client.problems)
    return PointFacts(
        name=folder.name,
        number=number,
        file=file,
        described=described.content,
        description=description,
        client=client,
        problems=tuple(filter(None, problems)),
    )


def _client(
    folder: Path, model: str, file: PointFile | None, tokenizer: Path | None
) -> OfficialClientFacts:
    """The client's files of a point."""
    benchmark = SERIES_MODELS.get(model) or OfficialClientBenchmark(
        model, "datacenter", "Server", 0, 0
    )
    if file is not None and file.offline == "dedicated":
        benchmark = replace(benchmark, scenario="Offline")
    config, fault = read_yaml_as(folder / _CONFIG, OfficialClientConfig)
    summary, no_summary = read_typed(folder / OFFICIAL_CLIENT_SUMMARY, ResultSummary)
    accuracy, no_accuracy = _scores(folder)
    return OfficialClientFacts(
        name=model,
        scenario=folder.name,
        round=SERIES,
        benchmark=benchmark,
        config=config,
        summary=summary,
        accuracy=accuracy,
        problems=tuple(filter(None, (fault, no_summary, no_accuracy))),
        events=events_of(folder, config, tokenizer),
    )


def _scores(folder: Path) -> tuple[AccuracyResults | None, str]:
    """The scores of a point and "", or None and why they cannot be read; "" if there are none."""
    if (folder / OFFICIAL_CLIENT_ACCURACY).exists():
        return read_typed(folder / OFFICIAL_CLIENT_ACCURACY, AccuracyResults)
    earlier = folder / "results.json"
    return earlier_scores(earlier) if earlier.exists() else (None, "")


def _package_faults(root: Path) -> Iterator[str]:
    """What the package lacks beside its curves."""
    yield from [f"no {name}/" for name in ("results", "docs", "src") if not (root / name).is_dir()]
    implementations = folders_in(root / "src")
    if (root / "src").is_dir() and not implementations:
        yield "no folder of an implementation in src/"
    for folder in sorted(implementations):
        if "readme.md" not in {name.lower() for name in file_names(folder) or ()}:
            yield f"no src/{folder.name}/README.md"


def _curve_faults(system: str, model: str, points: tuple[PointFacts, ...]) -> Iterator[str]:
    if not system:
        yield "no results/<system>/"
    elif not model:
        yield f"no results/{system}/<model>/"
    elif not points:
        yield f"no results/{system}/{model}/r<N>/"


def _point_faults(root: Path, point: PointFacts) -> Iterator[str]:
    """Where a point's name and pointers do not lead to what they should."""
    if point.file is None:
        return
    if point.number != point.concurrency:
        yield f"{point.name} has concurrency {point.concurrency:,}"
    for name in ("shared_src", "shared_docs"):
        value: str = getattr(point.file, name)
        path = Path(value.strip())
        if path.is_absolute() or ".." in path.parts or not _is_folder(root / path):
            yield f"{point.name}: {name} {value} is not a folder of the package"


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    # ValueError: not a valid file name.
    except (OSError, ValueError):
        return False
