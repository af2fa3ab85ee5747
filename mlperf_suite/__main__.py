"""The command `mlperf-suite` runs pytest on the suite's tests, or one of the commands below.

Without a command, all arguments are pytest's, as in `mlperf-suite -m offline`.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

from mlperf_suite import IS_CLONE
from mlperf_suite.benchmarks.rounds import ROUNDS
from mlperf_suite.errors import RefusedError, SuiteError, UsageError, of_the_system
from mlperf_suite.strangers import printable


def _say(text: str, stream: TextIO | None = None) -> None:
    """Print lines. Names in them may be strangers'."""
    print("\n".join(map(printable, text.split("\n"))), file=stream)


def _add_report(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser("report", help="regenerate a run's reports and plots")
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.set_defaults(do=_report)


def _report(arguments: argparse.Namespace) -> int:
    from mlperf_suite.reports.writing import refresh_figures, write_reports

    folder: Path = arguments.run
    refresh_figures(folder)
    write_reports(folder)
    _say(f"{folder / 'report.md'}\n{folder / 'report.html'}")
    return 0


def _add_compare(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "compare",
        help="compare runs in a table, a plot and a page; the first is the reference",
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs")
    parser.add_argument(
        "--max-regression", type=float, default=5.0, help="largest loss that passes, in percent (5)"
    )
    parser.add_argument(
        "--plot", type=Path, default=Path("compare.png"), help="file for the plot (compare.png)"
    )
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="also write an HTML page, with the answers that differ most",
    )
    parser.add_argument(
        "--gate",
        action="store_true",
        help="exit with status 1 if a run lost more than --max-regression and more than the noise, "
        "is not comparable with the first, or is too noisy to show the loss of half of the speed",
    )
    parser.set_defaults(do=_compare)


def _compare(arguments: argparse.Namespace) -> int:
    from mlperf_suite.reports.comparison import (
        PLOT_FORMATS,
        comparison_sections,
        gate_lines,
        plot_comparison,
    )
    from mlperf_suite.reports.html import html_page
    from mlperf_suite.reports.markdown import markdown_text
    from mlperf_suite.results.baseline import load_baseline
    from mlperf_suite.results.run_folder import write_whole

    if len(arguments.runs) < 2:
        raise UsageError("compare: needs at least two runs")
    percent: float = arguments.max_regression
    if not 0 <= percent < 100:
        raise UsageError(f"--max-regression {percent:g}: must be a number from 0 to below 100")
    if arguments.plot.suffix.lower() not in PLOT_FORMATS:
        raise UsageError.for_option(
            "--plot", arguments.plot, f"must be one of {', '.join(PLOT_FORMATS)}"
        )
    _check_output("--plot", arguments.plot)
    _check_output("--html", arguments.html)
    first, rest = load_baseline(arguments.runs[0], ""), arguments.runs[1:]
    runs = [first, *(load_baseline(path, "", needs_figures=False) for path in rest)]
    sections = comparison_sections(runs, percent / 100)
    _say(markdown_text(sections, headings=False))
    plot_comparison(runs, arguments.plot)
    _say(f"plot: {arguments.plot}")
    if arguments.html:
        write_whole(arguments.html, html_page(sections))
        _say(f"page: {arguments.html}")
    if not arguments.gate:
        return 0
    lines = gate_lines(runs, percent / 100)
    for line in lines:
        _say(f"gate: {line}")
    return 1 if lines else 0


def _check_output(option: str, path: Path | None) -> None:
    """Raise UsageError for a name of something other than a regular file."""
    if path and (path.is_symlink() or (path.exists() and not path.is_file())):
        raise UsageError.for_option(option, path, "a link, a folder or a device; name a file")


def _add_aggregate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "aggregate",
        help="combine the independent runs of several nodes: summed rates, percentiles over "
        "all requests; not an MLPerf result",
    )
    parser.add_argument(
        "runs",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="folders of runs, with the same scenarios for each node",
    )
    parser.add_argument(
        "--one",
        nargs="+",
        type=Path,
        default=[],
        metavar="RUN",
        help="folders of runs of one node while the others are idle, for the scaling efficiency; "
        "several give its interval",
    )
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="a new folder for the result (aggregate-<time> in the current folder)",
    )
    parser.set_defaults(do=_aggregate)


def _aggregate(arguments: argparse.Namespace) -> int:
    from rich.console import Console

    from mlperf_suite.reports.aggregate_report import aggregate_sections, write_aggregate_reports
    from mlperf_suite.reports.terminal import brief_view
    from mlperf_suite.results.aggregate import aggregate_runs
    from mlperf_suite.results.node_files import write_aggregate

    time = datetime.now(UTC).astimezone()
    out: Path = arguments.out or Path(f"aggregate-{time:%Y%m%d-%H%M%S}")
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UsageError.for_option("--out", out, "already exists; choose a new folder")
    try:
        aggregate = aggregate_runs(arguments.runs, time, arguments.one)
    except RefusedError as error:
        return _refusal(error.reasons, "no aggregate was written")
    out.mkdir(parents=True, exist_ok=True)
    paths = [*write_aggregate(out, aggregate), *write_aggregate_reports(out, aggregate)]
    Console(highlight=False).print(brief_view(aggregate_sections(aggregate)))
    for path in paths:
        _say(str(path))
    return 0


def _refusal(reasons: Sequence[str], outcome: str) -> int:
    """Print why a command refuses its input, and the exit status."""
    for reason in reasons:
        _say(f"refused: {reason}", sys.stderr)
    _say(outcome, sys.stderr)
    return 2


def _add_submission(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "submission",
        help="build the official directory tree from results, or list why it would be rejected",
    )
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
    parser.set_defaults(do=_submission)


def _submission(arguments: argparse.Namespace) -> int:
    results = (*arguments.runs, *arguments.results)
    if not results:
        raise UsageError("submission: no result folder; name them with --results")
    if arguments.series:
        return _package(results, arguments)
    for option in ("submitter", "system", "division"):
        if getattr(arguments, option) is None:
            raise UsageError(f"submission: --{option} is required with --round")
    return _tree(results, arguments)


def _package(results: tuple[Path, ...], arguments: argparse.Namespace) -> int:
    """Build a package of MLPerf Endpoints."""
    from mlperf_suite.submission.package_build import PackageRequest, build_package

    request = PackageRequest(results, arguments.facts, arguments.out)
    try:
        package = build_package(request)
    except RefusedError as error:
        return _refusal(error.reasons, f"no package was written to {request.out}")
    _say(f"{package.root}: {package.system}, {package.model}, {package.points} points")
    for note in package.notes:
        _say(note)
    _say_checked(package.rules_passed, package.root)
    _say(f"  endpoints-submission-cli check-submission {package.root}")
    return 0


def _say_checked(rules_passed: int, root: Path) -> None:
    """Print how many rules passed, and how to judge the folder again."""
    command = "make submission-check TREE=" if IS_CLONE else "mlperf-suite -m compliance --logs="
    _say(f"{rules_passed} rules passed; to check it again:\n  {command}{root}")


def _tree(results: tuple[Path, ...], arguments: argparse.Namespace) -> int:
    """Build a tree of MLPerf Inference."""
    from mlperf_suite.hardware import describe_system
    from mlperf_suite.submission.build import SubmissionRequest, build_submission

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
        return _refusal(error.reasons, f"no tree was written to {request.out}")
    _say(f"{tree.root}: {tree.system}, {request.round.name}, {request.division}")
    if tree.notice:
        _say(tree.notice)
    _say_checked(tree.rules_passed, tree.root)
    for path, fields in tree.unfilled.items():
        _say(f"fill in by hand, in {path}:")
        for field in fields:
            _say(f"  {field}")
    return 1 if tree.unfilled else 0


def _add_tune(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from mlperf_suite.tuning.tuning_options import add_options

    parser = commands.add_parser(
        "tune", help="search for the engine's best settings, and confirm them in paired runs"
    )
    add_options(parser)
    parser.set_defaults(do=_tune)


def _tune(arguments: argparse.Namespace) -> int:
    from mlperf_suite.tuning.tune import tune
    from mlperf_suite.tuning.tuning_request import request_of

    try:
        tune(request_of(arguments), _say)
    except KeyboardInterrupt:
        _say("interrupted; repeat the command to continue", sys.stderr)
        return 130
    return 0


def _add_replay(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "replay",
        help="replay recorded agent sessions on a chat server, as edge-agentic does, or the "
        "arrivals, lengths and shared prefixes of a production trace on any server; a rehearsal",
    )
    parser.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="recorded sessions, mooncake's trace, or OpenTelemetry's spans as OTLP JSON",
    )
    parser.add_argument(
        "--endpoint", required=True, metavar="URL", help="the server; set API_KEY for its key"
    )
    parser.add_argument("--model", required=True, help="the model's name on the server")
    parser.add_argument(
        "--out", type=Path, default=Path("replay.json"), help="file for the result (replay.json)"
    )
    parser.add_argument(
        "--tool-delays", action="store_true", help="keep the recorded delays of the tools"
    )
    parser.add_argument(
        "--turn-timeout",
        type=float,
        default=600.0,
        metavar="S",
        help="time limit of a turn, in s (600)",
    )
    parser.add_argument(
        "--limit", type=int, metavar="N", help="only the first N conversations or requests"
    )
    parser.add_argument(
        "--tokenizer",
        type=Path,
        metavar="DIR",
        help="for a trace: the folder with the model's tokenizer.json (--model, if it is a folder)",
    )
    parser.add_argument(
        "--speed",
        type=float,
        default=1.0,
        metavar="F",
        help="for a trace: replay it F times as fast (1)",
    )
    for name in ("ttft", "tpot"):
        parser.add_argument(
            f"--{name}-limit",
            type=float,
            metavar="MS",
            help=f"for a trace: count requests within this {name.upper()} as goodput, in ms",
        )
    parser.set_defaults(do=_replay)


def _replay(arguments: argparse.Namespace) -> int:
    from mlperf_suite.datasets.production_traces import kind_of

    _check_output("--out", arguments.out)
    for name in ("turn-timeout", "speed", "ttft-limit", "tpot-limit"):
        value = getattr(arguments, name.replace("-", "_"))
        if value is not None and not 0 < value < math.inf:
            raise UsageError.for_option(f"--{name}", value, "must be a number above 0")
    if arguments.limit is not None and arguments.limit < 1:
        raise UsageError.for_option("--limit", arguments.limit, "must be a number from 1")
    if kind_of(arguments.file) == "sessions":
        return _replay_sessions(arguments)
    return _replay_trace(arguments)


def _replay_trace(arguments: argparse.Namespace) -> int:
    """Replay a production trace."""
    from mlperf_suite.session.trace_replay import TraceRun, run_trace

    run = TraceRun(
        trace=arguments.file,
        endpoint=arguments.endpoint,
        model=arguments.model,
        tokenizer=arguments.tokenizer or Path(arguments.model),
        out=arguments.out,
        speed=arguments.speed,
        limit=arguments.limit,
        ttft_ms=arguments.ttft_limit,
        tpot_ms=arguments.tpot_limit,
        silence_s=arguments.turn_timeout,
    )
    return run_trace(run, _say)


def _replay_sessions(arguments: argparse.Namespace) -> int:
    """Replay recorded sessions."""
    from mlperf_suite.session.agent_replay import ReplayRequest, run_replay

    for name in ("tokenizer", "speed", "ttft-limit", "tpot-limit"):
        if getattr(arguments, name.replace("-", "_")) not in (None, 1.0):
            raise UsageError(f"--{name}: only for a production trace, not for recorded sessions")
    request = ReplayRequest(
        sessions=arguments.file,
        endpoint=arguments.endpoint,
        model=arguments.model,
        out=arguments.out,
        delays=arguments.tool_delays,
        timeout_s=arguments.turn_timeout,
        limit=arguments.limit,
    )
    return 0 if run_replay(request, _say) else 1


def _add_convert(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "convert",
        help="convert a data set published as a pickle to parquet, without executing the pickle",
    )
    parser.add_argument("file", type=Path, metavar="FILE", help="a pickle of a pandas DataFrame")
    parser.add_argument("out", type=Path, metavar="OUT.parquet", help="a new file")
    parser.set_defaults(do=_convert)


def _convert(arguments: argparse.Namespace) -> int:
    from mlperf_suite.datasets.parquet_conversion import convert_pickle

    source, out = arguments.file, arguments.out
    if out.suffix != ".parquet":
        raise UsageError(f"convert: {out}: the output name must end in .parquet")
    frame = convert_pickle(source, out)
    _say(f"{out}: {frame.rows} rows")
    for name, kind in frame.columns.items():
        _say(f"  {name}: {kind}")
    for note in frame.notes:
        _say(note)
    _say(f"of {source}, sha256 {frame.sha256}")
    return 0


def _add_setup(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "setup", help="download NLTK's punkt for ROUGE and, if vLLM is installed, the small model"
    )
    parser.set_defaults(do=_setup)


def _setup(arguments: argparse.Namespace) -> int:
    from mlperf_suite.assets import assets_dir, set_up

    set_up()
    _say(str(assets_dir()))
    return 0


_COMMANDS = {
    "report": _add_report,
    "compare": _add_compare,
    "aggregate": _add_aggregate,
    "submission": _add_submission,
    "tune": _add_tune,
    "replay": _add_replay,
    "convert": _add_convert,
    "setup": _add_setup,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command, or pytest where the first argument names none, and return the exit status.

    Of a command: 0 for success, 1 for a comparison with a loss, a submission that a person must
    still complete or a replay with missing turns, 2 for an error, 130 for a tuning that was
    interrupted.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments or arguments[0] not in (*_COMMANDS, "-h", "--help"):
        from mlperf_suite.plugin.command import run_tests

        return run_tests(arguments)
    parser = argparse.ArgumentParser(
        prog="mlperf-suite",
        description=f"{__doc__} `mlperf-suite -m offline --help` shows pytest's options.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for add in _COMMANDS.values():
        add(commands)
    options, unknown = parser.parse_known_args(arguments)
    if unknown:
        words = f"{arguments[0]}: unrecognized arguments: {' '.join(unknown)}"
        is_tune = arguments[0] == "tune"
        parser.error(words + ("; options of the runs, as --model, follow a --" if is_tune else ""))
    try:
        status: int = options.do(options)
    except SuiteError as error:
        _say(f"error: {error}", sys.stderr)
        return 2
    except OSError as error:
        _say(f"error: {of_the_system(error, 'the system')}", sys.stderr)
        return 2
    return status


if __name__ == "__main__":
    sys.exit(main())
