"""Build a submission tree or a package."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from pathlib import Path

from mlperf_suite import IS_CLONE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.commands import Subcommand, refuse, say
from mlperf_suite.errors import RefusedError, UsageError


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="RUN", help="result folders, as --results"
    )
    parser.add_argument(
        "--results",
        nargs="+",
        type=Path,
        default=[],
        metavar="RUN",
        help="result folders: accuracy, performance and TEST06 of each scenario; with --series, "
        "the official client's points, or a folder of points",
    )
    parser.add_argument("--submitter", help="your organization's name in the tree")
    parser.add_argument(
        "--system",
        metavar="FILE|auto",
        help="the system description; auto fills in what it can detect on this machine",
    )
    parser.add_argument("--division", choices=("closed", "open"))
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("--round", choices=tuple(ROUNDS))
    target.add_argument(
        "--series",
        choices=("endpoints",),
        help="build a package of the series MLPerf Endpoints; needs only --out and --facts",
    )
    parser.add_argument("--out", type=Path, required=True, help="a new folder for the tree")
    parser.add_argument(
        "--facts",
        type=Path,
        default=Path("submission.toml"),
        metavar="FILE",
        help="with --series: TOML file with the facts that cannot be computed (submission.toml)",
    )
    parser.add_argument(
        "--measurements",
        type=Path,
        metavar="FILE",
        help="JSON file with the facts about the weights that the run cannot know",
    )
    parser.add_argument(
        "--allow-replay",
        action="store_true",
        help="accept runs of a replay engine; the tree is then labelled as no measurement",
    )
    parser.add_argument(
        "--power",
        nargs="+",
        type=Path,
        default=[],
        metavar="DIR",
        help="folders of PTDaemon's client with the power measurements of the performance runs",
    )


def _run(arguments: Namespace) -> int:
    results = (*arguments.runs, *arguments.results)
    if not results:
        raise UsageError("submission: no result folder; name them with --results")
    if arguments.series:
        return _package(results, arguments)
    for option in ("submitter", "system", "division"):
        if getattr(arguments, option) is None:
            raise UsageError(f"submission: --{option} is required with --round")
    return _tree(results, arguments)


def _package(results: tuple[Path, ...], arguments: Namespace) -> int:
    """Build a package of MLPerf Endpoints."""
    from mlperf_suite.features.submission.package_build import PackageRequest, build_package

    request = PackageRequest(results, arguments.facts, arguments.out)
    try:
        package = build_package(request)
    except RefusedError as error:
        return refuse(error.reasons, f"no package was written to {request.out}")
    say(f"{package.root}: {package.system}, {package.model}, {package.points} points")
    for note in package.notes:
        say(note)
    _say_checked(package.rules_passed, package.root)
    say(f"  endpoints-submission-cli check-submission {package.root}")
    return 0


def _say_checked(rules_passed: int, root: Path) -> None:
    """Print how many rules passed, and how to judge the folder again."""
    command = "make submission-check TREE=" if IS_CLONE else "mlperf-suite -m compliance --logs="
    say(f"{rules_passed} rules passed; to check it again:\n  {command}{root}")


def _tree(results: tuple[Path, ...], arguments: Namespace) -> int:
    """Build a tree of MLPerf Inference."""
    from mlperf_suite.features.submission.build import SubmissionRequest, build_submission
    from mlperf_suite.hardware import describe_system

    request = SubmissionRequest(
        results,
        arguments.submitter,
        arguments.system,
        arguments.division,
        ROUNDS[arguments.round],
        arguments.out,
        arguments.measurements,
        arguments.allow_replay,
        tuple(arguments.power),
    )
    try:
        tree = build_submission(request, describe_system())
    except RefusedError as error:
        return refuse(error.reasons, f"no tree was written to {request.out}")
    say(f"{tree.root}: {tree.system}, {request.round.name}, {request.division}")
    if tree.notice:
        say(tree.notice)
    _say_checked(tree.rules_passed, tree.root)
    for path, fields in tree.unfilled.items():
        say(f"fill in by hand, in {path}:")
        for field in fields:
            say(f"  {field}")
    return 1 if tree.unfilled else 0


COMMAND = Subcommand(
    "build the official directory tree from results, or list why it would be rejected",
    _add_options,
    _run,
)
