"""Measure, gate and keep: what gpu.yml, action.yml and gitlab.yml have in common.

    python ci/gate.py measure   run the gates and write their tables to ci-results
    python ci/gate.py comment   put the tables into the pull request
    python ci/gate.py keep      make these results the baselines of later jobs

To be run by the interpreter of the environment that is measured. Settings are environment
variables, since each of the three callers passes them so:

MLPERF_OUT            folder of what is written (ci-results)
MLPERF_BASELINES      folder of the baselines: last-good and pinned, each with offline and server;
                      or mlflow:EXPERIMENT, on the server that MLFLOW_TRACKING_URI names
MLPERF_MARKER         what to run in place of the gates, as pytest -m takes it; nothing is gated
MLPERF_PROFILE        official (default) or smoke
MLPERF_REPEAT         how often each performance run is made (5)
MLPERF_MAX_REGRESSION the loss that passes, in percent (5), against the last good run and the pinned
MLPERF_FAIL_ON_CANNOT_TELL true: a gate that cannot tell fails the job
MLPERF_SERVER_QPS     Server's rate in queries/s; without it that of the baseline
MLPERF_ARGS           more options of pytest, as in a shell
MLPERF_PIN            true: keep also as the pinned baseline; a loss is accepted then, and shown
MLPERF_KEEP           whether a run that passes is kept (ci/job.sh); here for what the warnings say
MLPERF_NAME           tells the comments of several jobs apart
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SUITE = Path(__file__).resolve().parent.parent
GATES = ("offline", "server")
_TRACKED = "mlflow:"
_COMMENTS_A_PAGE = 100
"""The most comments per page that GitHub returns (REST API, "List issue comments")."""
Run = Callable[[Sequence[str], Path | None], int]


@dataclass(frozen=True)
class Job:
    """The settings of one job; see the variables in the module's docstring."""

    out: Path
    baselines: Path
    marker: str
    profile: str
    repeat: str
    max_regression: str
    fails_unknown: bool
    server_qps: str
    arguments: tuple[str, ...]
    pin: bool
    is_kept: bool
    tracked: str
    """mlflow:EXPERIMENT, if that is where baselines are; `baselines` has copies of them then."""

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Job:
        def variable(name: str, otherwise: str = "") -> str:
            return environment.get(f"MLPERF_{name}") or otherwise

        out = Path(variable("OUT", "ci-results")).absolute()
        baselines = variable("BASELINES", "/var/lib/mlperf-baselines")
        is_tracked = baselines.startswith(_TRACKED)
        return cls(
            out,
            out / "baselines" if is_tracked else Path(baselines).absolute(),
            variable("MARKER"),
            variable("PROFILE", "official"),
            variable("REPEAT", "5"),
            variable("MAX_REGRESSION", "5"),
            variable("FAIL_ON_CANNOT_TELL") == "true",
            variable("SERVER_QPS"),
            tuple(shlex.split(variable("ARGS"))),
            variable("PIN") == "true",
            variable("KEEP") == "true",
            # The last good and the pinned one are read, whatever is named.
            baselines.removesuffix("@last-good") if is_tracked else "",
        )

    def baseline(self, kind: str, gate: str) -> Path | None:
        """The folder of a baseline, or None if there is none. `kind`: last-good or pinned."""
        folder = self.baselines / kind / gate
        return folder if os.path.lexists(folder) else None

    def fetch_baselines(self) -> str:
        """Read the baselines of the experiment; why that cannot be done, in a line. An experiment
        without one is as an empty folder."""
        from mlperf_suite.errors import UsageError
        from mlperf_suite.features.tracking.tracked_runs import TrackedName

        try:
            name = TrackedName.parse(self.tracked, "")
            for kind in ("last-good", "pinned"):
                for _, folder in name.fetch(kind, self.baselines / "runs"):
                    self._link(kind, folder)
        except UsageError as error:
            return str(error)
        return ""

    def _link(self, kind: str, folder: Path) -> None:
        """Raise UsageError for a result whose scenario is not known, or has a baseline already."""
        from mlperf_suite.errors import UsageError
        from mlperf_suite.results.run_folder import read_summary, summary_fault

        summary = read_summary(folder)
        if summary is None:
            raise UsageError(f"{self.tracked}: {folder.name}: {summary_fault(folder)}")
        place = self.baselines / kind / summary.meta.kind[1].lower()
        if os.path.lexists(place):
            words = f"several {kind} results of {summary.meta.kind[1]}"
            raise UsageError(f"{self.tracked}: {words}: each benchmark needs an experiment")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(folder)

    def unusable_baseline(self) -> str:
        """Why a baseline could not be compared with, in a line; empty if each could."""
        from mlperf_suite.errors import UsageError
        from mlperf_suite.results.baseline import load_baselines

        folders = [self.baseline(kind, gate) for kind in ("last-good", "pinned") for gate in GATES]
        for folder in filter(None, folders):
            try:
                load_baselines([folder])
            except UsageError as error:
                return f"{error} (a run on the default branch with pin replaces it)"
        return ""


def _run(command: Sequence[str], into: Path | None) -> int:
    """Run a command in the suite's folder; its output goes to the job's log or to a file."""
    if into is None:
        return subprocess.run(command, cwd=SUITE, check=False).returncode
    with into.open("w") as file:
        return subprocess.run(
            command, cwd=SUITE, check=False, stdout=file, stderr=subprocess.STDOUT
        ).returncode


def measure(job: Job, run: Run = _run) -> int:
    """Run the gates, or the marker's tests; return the exit status of the first that failed.

    The tables are always written, and say so if nothing was compared.
    """
    shutil.rmtree(job.out, ignore_errors=True)
    job.out.mkdir(parents=True)
    table = job.out / "table.md"
    table.write_text(_not_reached([job.marker] if job.marker else GATES))
    if job.marker:
        command = [*_pytest(job, "run"), "-m", job.marker, *job.arguments]
        status = run(command, None)
        table.write_text(f"### MLPerf suite: {job.marker}\n\nNot gated.\n\n{_index(job, 'run')}\n")
        return status
    why = job.fetch_baselines() if job.tracked else ""
    if not job.pin:
        why = why or job.unusable_baseline()
    if why:
        _warn(f"nothing was measured: {why}")
        table.write_text(f"### MLPerf suite: failed\n\nNothing was measured: {why}\n")
        return 2
    parts, statuses = [], []
    for number, gate in enumerate(GATES, 1):
        status, text = _gate(job, gate, run)
        statuses.append(status)
        parts.append(text)
        table.write_text("\n".join([*parts, _not_reached(GATES[number:])]))
    return next((status for status in statuses if status), 0)


def _not_reached(gates: Sequence[str]) -> str:
    """What the table says of gates to come: the job may be ended at any moment."""
    no_result = "No result: the job ended before this run did. Its log says why."
    return "".join(f"### MLPerf suite: {gate}: failed\n\n{no_result}\n\n" for gate in gates)


def _pytest(job: Job, name: str) -> list[str]:
    out = job.out
    return [
        *(sys.executable, "-m", "pytest", "--profile", job.profile),
        *("--results-dir", str(out / "results" / name)),
        *(f"--junitxml={out / f'junit-{name}.xml'}", f"--alluredir={out / 'allure'}"),
        f"--benchmark-json={out / f'benchmark-{name}.json'}",
        # What is measured for a change is no baseline: only `keep` sends it there.
        *(("--track", "off") if job.tracked else ()),
    ]


def _index(job: Job, name: str) -> str:
    """The suite's table of runs and the problems of each run."""
    folder = job.out / "results" / name
    if not (folder / "index.md").is_file():
        return "No result: the job's log says why."
    # A link to a report leads nowhere from a comment or a job's summary.
    index = re.sub(r"\[([^]]*)\]\([^)]*/report\.md\)", r"\1", (folder / "index.md").read_text())
    lines = index.splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith("| run")), 0)
    reports = [report.read_text() for report in sorted(folder.glob("2*/report.md"))]
    return "\n\n".join(["\n".join(lines[first:]), *map(problems_of, reports)])


def problems_of(report: str) -> str:
    """A report's title, its answer to "Is it valid?", and what is wrong, without what is folded."""
    title, *lines = report.splitlines()
    heading = "## Is it valid?"
    after = lines[lines.index(heading) + 1 :] if heading in lines else []
    # The title of a fold ends with a colon.
    ends = (n for n, line in enumerate(after) if line[:1] == "#" or line[-1:] == ":")
    return "\n".join([f"###{title}", *after[: next(ends, len(after))]]).rstrip()


def _gate(job: Job, gate: str, run: Run) -> tuple[int, str]:
    """Measure one scenario against its baselines; return exit status and summary text.

    With `pin`, the comparison is shown but gates nothing: the next baseline may be slower than the
    last one, or of another GPU, model or profile.
    """
    last, pinned = (job.baseline(kind, gate) for kind in ("last-good", "pinned"))
    notes = [
        f"no {kind} baseline of {gate} in {job.tracked or job.baselines}: {words}"
        for kind, present, words in (
            ("last-good", last, "a loss since the last run is not seen"),
            ("pinned", pinned, "small losses that add up are not seen"),
        )
        if present is None
    ]
    command = [*_pytest(job, gate), "-m", f"{gate} and datacenter", "--repeat", job.repeat]
    rate = _server_rate(job, pinned or last) if gate == "server" else ""
    command += ["--server-target-qps", rate] if rate else []
    if job.pin and (last or pinned):
        aim = "is to be pinned" if job.is_kept else "is neither kept nor pinned by this job"
        notes.append(f"{gate} {aim}: a loss against its baselines fails nothing")
    if last is not None and not job.pin:
        command += ["--baseline", str(last), "--max-regression", job.max_regression]
        command += ["--fail-on-cannot-tell"] * job.fails_unknown
    status = run([*command, *job.arguments], None)
    latest = job.out / "results" / gate / "latest"
    if gate == "server" and not rate:
        server_qps = _rate_of(latest)
        notes.append(
            f"no fixed rate for server: this run chose {server_qps} queries/s itself"
            if server_qps
            else "no fixed rate for server: this run was to choose its own"
        )
        notes[-1] += "; a run that becomes the baseline fixes the rate of later ones"
    for note in notes:
        _warn(note)
    warnings = [f"> **Warning:** {note}" for note in notes]
    if not (latest / "summary.json").is_file():
        title = f"### MLPerf suite: {gate}: failed"
        return status or 1, "\n\n".join([title, *warnings, _index(job, gate), ""])
    tables, losses, unknown = [], [], []
    for kind, found in (("last-good", last), ("pinned", pinned)):
        if found is None:
            continue
        text, plot = job.out / f"{gate}-{kind}.md", job.out / f"{gate}-{kind}.png"
        comparison = run(
            [
                *(sys.executable, "-m", "mlperf_suite", "compare", str(found), str(latest)),
                *("--max-regression", job.max_regression, "--gate"),
                *("--plot", str(plot)),
            ],
            text,
        )
        page = text.read_text().replace(f"plot: {plot}", f"Plot: `{plot.name}` of the results.")
        lines = page.splitlines()
        tables += [
            f"Against the {kind} baseline:",
            "\n".join(status for status in lines if not status.startswith(_LOST)).strip(),
        ]
        losses += [
            f"- Against the {kind} baseline: {_loss(status, latest.resolve().name)}"
            for status in lines
            if status.startswith(_LOST)
        ]
        unseen = _unseen(lines)
        if unseen:
            unknown.append(
                f"- Against the {kind} baseline: the gate cannot tell: {', '.join(unseen)} (the "
                f"noise may hide a loss of {job.max_regression}%{_NOISY})"
            )
        comparison = comparison or int(job.fails_unknown and bool(unseen))
        status = status or (0 if job.pin else comparison)
    if status:
        verdict = "failed"
    elif job.pin or not tables:
        verdict = "passed the rules, gated against no baseline"
    else:
        verdict = f"passed{', but the gate cannot tell' if unknown else ''}"
    # What failed comes before the wide tables.
    parts = [f"### MLPerf suite: {gate}: {verdict}", _headline(latest, losses, unknown)]
    parts += ["\n".join([*losses, *unknown])] if losses or unknown else []
    parts += [*_engine_versions(), *warnings]
    if status or not tables:
        parts.append(_index(job, gate))
    return status, "\n\n".join([*parts, *tables, ""])


_NOISY = "; next: more repeats, a machine that does nothing else, or a baseline measured again"


def _headline(run: Path, losses: Sequence[str], unknown: Sequence[str]) -> str:
    """What became of a run in the words of its reports, after what it lost against a baseline that
    its session did not compare it with, or of which the gate cannot tell."""
    from mlperf_suite.reports.headline import headline
    from mlperf_suite.reports.markdown import escaped
    from mlperf_suite.results.regression import cannot_tell
    from mlperf_suite.results.run_folder import read_summary
    from mlperf_suite.results.schema import Summary

    summary = read_summary(run) or Summary()
    words = headline(summary)
    is_told = summary.regressed or summary.counts["failed"]
    lines = losses or ([] if cannot_tell(summary) else unknown)
    if lines and not is_told:
        first = lines[0].removeprefix("- ")
        words = f"{first[:1].lower()}{first[1:]}; {words}"
    return f"**{escaped(words)}**"


def _engine_versions() -> list[str]:
    """A line with the wheel's own version, which vLLM itself need not know."""
    present = importlib.metadata.packages_distributions().get("vllm", [])
    versions = (f"{name} {importlib.metadata.version(name)}" for name in sorted(set(present)))
    return [f"Installed: {', '.join(versions)}."] if present else []


_LOST = "gate: "
"""What `compare --gate` begins a line with that says why a run does not stand beside a baseline."""


def _loss(line: str, run: str) -> str:
    """Such a line without the run's name, and with what CI can do about it."""
    return (
        line.removeprefix(_LOST)
        .removeprefix(f"{run}: ")
        .replace(
            "--baseline-allow-different compares anyway",
            "a run on the default branch with pin replaces the baseline",
        )
    )


def _unseen(lines: Sequence[str]) -> list[str]:
    """The metrics of which a comparison cannot tell: rows that begin with them and end with
    that."""
    rows = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return [row[0].split(",")[0].strip() for row in rows if row[-1] == "cannot tell"]


def _warn(note: str) -> None:
    # GitHub shows such a line at the run's top; elsewhere it is a line of the log.
    github = os.environ.get("GITHUB_ACTIONS")
    start = "::warning title=MLPerf suite::" if github else "ci: warning: "
    print(f"{start}{note}", flush=True)


def _server_rate(job: Job, baseline: Path | None) -> str:
    """Server's rate, empty where it is not fixed. Two rates cannot be compared."""
    return job.server_qps or (_rate_of(baseline) if baseline is not None else "")


def _rate_of(run: Path) -> str:
    """The rate of a Server run, empty where it has none: a run that ended early may have left only
    the Offline run that its rate was to come from."""
    try:
        summary = json.loads((run / "summary.json").read_text())
    except (OSError, ValueError):
        # A job that pins replaces a baseline that cannot be read.
        return ""
    if (summary.get("meta") or {}).get("scenario", "Server") != "Server":
        return ""
    rate = ((summary.get("run") or {}).get("performance") or {}).get("target_qps")
    return f"{rate:g}" if rate else ""


def keep(job: Job, run: Run = _run) -> int:
    """Make the results the last good ones, and the pinned ones if there are none or if asked;
    return the exit status of the first that could not be kept."""
    statuses = []
    for gate in GATES:
        latest = job.out / "results" / gate / "latest"
        if not (latest / "summary.json").is_file():
            continue
        kinds = ["last-good"]
        if job.pin or job.baseline("pinned", gate) is None:
            kinds.append("pinned")
        if job.tracked:
            statuses.append(run(_track(job, latest.resolve(), "pinned" in kinds), None))
            continue
        for kind in kinds:
            _put(latest.resolve(), job.baselines / kind / gate)
            print(f"ci: {job.baselines / kind / gate} is {latest.resolve().name}")
    return next((status for status in statuses if status), 0)


def _track(job: Job, result: Path, pin: bool) -> list[str]:
    """The command that sends a result to the baselines' experiment."""
    kind, _, experiment = job.tracked.partition(":")
    command = [sys.executable, "-m", "mlperf_suite", "track", str(result), "--track", kind]
    return [*command, "--track-experiment", experiment, *(["--pin"] if pin else [])]


def _put(source: Path, target: Path) -> None:
    """Copy the results beside `target` and switch it over in one step, so that the baseline is
    complete whenever a job is stopped or another one reads it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    holder = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    # Other users of the runner read the baselines too.
    holder.chmod(0o755)
    # Tables name a run by its folder.
    shutil.copytree(source, holder / source.name)
    link = holder / "link"
    link.symlink_to(Path(holder.name, source.name))
    if target.is_dir() and not target.is_symlink():
        # Left by an earlier version: a link cannot replace a folder.
        target.rename(holder / "earlier")
    link.replace(target)
    for leftover in target.parent.glob(f".{target.name}.*"):
        if leftover != holder:
            shutil.rmtree(leftover, ignore_errors=True)


def comment(job: Job, environment: Mapping[str, str]) -> int:
    """Write the tables to the job's summary and as one comment to the pull request, which later
    jobs edit. Uses GitHub's API directly, since a runner may not have `gh`."""
    table = job.out / "table.md"
    text = table.read_text() if table.is_file() else "No result: the job ended before a run.\n"
    if summary := environment.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a") as file:
            file.write(text)
    number, token = environment.get("MLPERF_PULL_REQUEST"), environment.get("GH_TOKEN")
    if not number or not token:
        return 0
    api = environment.get("GITHUB_API_URL", "https://api.github.com")
    base = f"{api}/repos/{environment['GITHUB_REPOSITORY']}/issues"
    name = re.sub(r"[^\w .+-]", "", environment.get("MLPERF_NAME") or "")
    mark = f"<!-- mlperf-suite {name} -->"
    body = {"body": f"{mark}\n{text}"[:65_000]}
    try:
        own_comment = _last_comment(f"{base}/{number}/comments", token, mark)
        if own_comment is not None:
            _ask("PATCH", f"{base}/comments/{own_comment}", token, body)
        else:
            _ask("POST", f"{base}/{number}/comments", token, body)
    except (OSError, ValueError) as error:
        # The gate's verdict does not depend on the comment.
        print(f"::warning title=MLPerf suite::the comment was not written: {error}")
    return 0


def _last_comment(url: str, token: str, mark: str) -> int | None:
    """The id of the last comment that begins with the mark; GitHub returns comments in pages."""
    present, page = None, 1
    while True:
        comments = _ask("GET", f"{url}?per_page={_COMMENTS_A_PAGE}&page={page}", token)
        for status in comments:
            if str(status.get("body", "")).startswith(mark):
                present = int(status["id"])
        if len(comments) < _COMMENTS_A_PAGE:
            return present
        page += 1


def _ask(method: str, url: str, token: str, body: object = None) -> Any:
    request = urllib.request.Request(  # noqa: S310 - GitHub's own address, from its runner
        url,
        None if body is None else json.dumps(body).encode(),
        {
            "Authorization": f"Bearer {token}",
            "Accept": "application/vnd.github+json",
            "Content-Type": "application/json",
        },
        method=method,
    )
    with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310 - as above
        return json.loads(answer.read() or b"null")


def main(arguments: Sequence[str]) -> int:
    sys.path.insert(0, str(SUITE))
    job = Job.of(os.environ)
    match arguments:
        case ["measure"]:
            return measure(job)
        case ["comment"]:
            return comment(job, os.environ)
        case ["keep"]:
            return keep(job)
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
