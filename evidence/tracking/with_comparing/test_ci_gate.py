"""What CI runs: the gates and their tables, the baselines."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ci.gate import Job, _put, keep, measure, problems_of
from mlperf_suite.errors import SuiteError
from mlperf_suite.features.tracking import sender
from mlperf_suite.features.tracking.trackers import TrackingTarget
from mlperf_suite.reports.markdown import markdown_text
from mlperf_suite.reports.run_report import run_sections
from mlperf_suite.results.schema import Meta, Summary
from mlperf_suite.rules.verdict import Verdict


class Suite:
    """In place of pytest and of compare: keeps what it is asked, and leaves results as told."""

    def __init__(
        self,
        *,
        result: bool = True,
        pytest_status: int = 0,
        regression: str = "",
        comparison: str = "| run | tokens/s |\n",
        scenario: str = "Server",
    ) -> None:
        self.commands: list[list[str]] = []
        self.result, self._status, self._regression = result, pytest_status, regression
        self._comparison, self.scenario = comparison, scenario

    def __call__(self, command: Sequence[str], into: Path | None) -> int:
        words = list(command)
        self.commands.append(words)
        if into is not None:
            into.write_text(self._comparison)
            return 1 if self._regression and self._regression in " ".join(words) else 0
        results = Path(words[words.index("--results-dir") + 1])
        if self.result:
            make_run(results / "20270101-000000-run", scenario=self.scenario)
            (results / "latest").symlink_to("20270101-000000-run")
            (results / "index.md").write_text(
                "# Runs\n\n| run | status |\n|---|---|\n| [r](r/report.md) | ok |\n"
            )
        return self._status

    def runs(self) -> list[str]:
        return [" ".join(line) for line in self.commands if "pytest" in line]


def make_run(folder: Path, qps: float | None = 7.5, scenario: str = "Server") -> Path:
    folder.mkdir(parents=True)
    summary = {"meta": {"scenario": scenario}, "run": {"performance": {"target_qps": qps}}}
    (folder / "summary.json").write_text(json.dumps(summary))
    return folder


@pytest.fixture(autouse=True)
def no_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding the package that has vLLM takes Python a second."""
    monkeypatch.setattr(importlib.metadata, "packages_distributions", dict)


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return make_job(tmp_path)


def make_job(folder: Path, **variables: str) -> Job:
    out = {"MLPERF_OUT": str(folder / "out"), "MLPERF_BASELINES": str(folder / "kept")}
    return Job.of(out | {f"MLPERF_{name}": value for name, value in variables.items()})


@pytest.mark.parametrize("start", ["::warning title=MLPerf suite::", "ci: warning: "])
def test_a_missing_baseline_is_a_warning_and_no_silent_pass(
    job: Job, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, start: str
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true" if "::" in start else "")
    suite = Suite()
    assert measure(job, suite) == 0
    warnings = [w for w in capsys.readouterr().out.splitlines() if w.startswith(start)]
    table = (job.out / "table.md").read_text()
    for gate in ("offline", "server"):
        for kind in ("last-good", "pinned"):
            assert any(f"no {kind} baseline of {gate}" in line for line in warnings)
            assert f"**Warning:** no {kind} baseline of {gate}" in table
    assert len(suite.runs()) == 2
    assert not any("--baseline" in run for run in suite.runs())
    assert "no fixed rate for server: this run chose 7.5 queries/s itself" in table
    assert "offline: passed the rules, gated against no baseline" in table
    # A link leads nowhere from a comment.
    assert "| r | ok |" in table and "report.md" not in table


def test_both_baselines_are_gates_and_server_keeps_their_rate(job: Job) -> None:
    for kind, qps in (("last-good", 7.0), ("pinned", 6.25)):
        for gate in ("offline", "server"):
            make_run(job.baselines / kind / gate, qps)
    asked = Suite()
    assert measure(make_job(job.out.parent, SERVER_QPS="9"), asked) == 0
    assert "--server-target-qps 9" in asked.runs()[1]
    suite = Suite()
    assert measure(job, suite) == 0
    offline, server = suite.runs()
    baselines = job.baselines
    assert f"--baseline {baselines}/last-good/offline --max-regression 5" in offline
    assert "-m offline and datacenter --repeat 5" in offline
    assert f"--baseline {baselines}/last-good/server" in server
    assert "--server-target-qps 6.25" in server
    comparisons = [" ".join(line) for line in suite.commands if "compare" in line]
    gated = [c for c in comparisons if f"compare {baselines}/pinned/" in c and "--gate" in c]
    assert len(gated) == 2
    table = (job.out / "table.md").read_text()
    assert "Against the pinned baseline:" in table and "Warning" not in table
    assert "offline: passed\n" in table and "server: passed\n" in table


@pytest.mark.parametrize("kind", ["last-good", "pinned"])
def test_a_baseline_that_cannot_be_read_ends_the_job_before_it_measures(
    tmp_path: Path, kind: str
) -> None:
    job, suite = make_job(tmp_path), Suite()
    (make_run(job.baselines / kind / "server") / "summary.json").write_text("{")
    assert (measure(job, suite), suite.commands) == (2, [])
    words = f"{job.baselines / kind / 'server'}: summary.json is not JSON"
    assert words in (job.out / "table.md").read_text()
    # Such a baseline is to be replaced.
    assert measure(make_job(tmp_path, PIN="true"), suite) == 0


def test_baselines_may_be_an_experiment_and_a_tracker_that_is_away_passes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://tracker")
    job, suite = make_job(tmp_path, BASELINES="mlflow:nightly@last-good"), Suite()

    def away(*_: object) -> list[Path]:
        raise SuiteError("the server does not answer")

    kept = {"last-good": ["Offline", "Server"], "pinned": ["Offline"]}

    def fetch(target: TrackingTarget, which: str, system: None, into: Path, *_: Any) -> list[Path]:
        assert target.experiment == "nightly"
        names = enumerate(kept[which])
        return [make_run(into / which / str(n) / "run", scenario=name) for n, name in names]

    monkeypatch.setattr(sender, "fetch", away)
    assert (measure(job, suite), suite.commands) == (2, [])
    words = "Nothing was measured: mlflow:nightly: the server does not answer"
    assert words in (job.out / "table.md").read_text()
    monkeypatch.setattr(sender, "fetch", fetch)
    assert measure(job, suite) == 0
    offline, server = suite.runs()
    for gate, run in (("offline", offline), ("server", server)):
        assert f"--baseline {job.out}/baselines/last-good/{gate}" in run and "--track off" in run
    assert "no pinned baseline of server in mlflow:nightly" in (job.out / "table.md").read_text()
    sent: list[str] = []

    def send(words: Sequence[str], into: Path | None) -> int:
        sent.append(" ".join(words[3:]))
        return 0

    assert keep(job, send) == 0
    to = "20270101-000000-run --track mlflow --track-experiment nightly"
    places = [f"track {job.out}/results/{gate}/{to}" for gate in ("offline", "server")]
    assert sent == [places[0], f"{places[1]} --pin"]
    assert keep(job, lambda words, into: 2) == 2


def test_the_table_begins_with_what_was_measured_and_lost(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        importlib.metadata, "packages_distributions", lambda: {"vllm": ["fork"] * 2}
    )
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "1+slow")
    run = "20270101-000000-run"
    lines = [
        "| metric         | run 1 | run 2 | change (interval) | verdict     |",
        "|----------------|------:|------:|-------------------|-------------|",
        "| tokens/s       |   100 |    91 | -9.0%             | regressed   |",
        "| samples/s      |     2 |     2 | -1.0%             | cannot tell |",
        "| TTFT p99       |   900 | 950.0 | +5.6%             | cannot tell |",
        "",
        f"plot: {job.out / 'offline-pinned.png'}",
        f"gate: {run}: regressed: tokens/s -9.0% (-9.5% to -8.5%), "
        "baseline 100, candidate 91 tokens/s",
        f"gate: {run}: X: not comparable: model: A, B (--baseline-allow-different compares anyway)",
    ]
    make_run(job.baselines / "pinned" / "offline")
    assert measure(job, Suite(regression="pinned/offline", comparison="\n".join(lines))) == 1
    title, *rest = (job.out / "table.md").read_text().split("### ")[1].split("\n\n")
    assert title == "MLPerf suite: offline: failed"
    lost = "regressed: tokens/s -9.0% (-9.5% to -8.5%), baseline 100, candidate 91 tokens/s"
    assert rest[0] == f"**against the pinned baseline: {lost}; unknown; no rule was judged**"
    assert "Installed: fork 1+slow." in rest
    missing_lines = next(n for n, part in enumerate(rest) if part.startswith("- "))
    assert rest[missing_lines].splitlines() == [
        f"- Against the pinned baseline: {lost}",
        "- Against the pinned baseline: X: not comparable: model: A, B "
        "(a run on the default branch with pin replaces the baseline)",
        "- Against the pinned baseline: the gate cannot tell: samples/s, TTFT p99 (the noise may "
        "hide a loss of 5%; next: more repeats, a machine that does nothing else, or a baseline "
        "measured again)",
    ]
    assert missing_lines < rest.index("Against the pinned baseline:")
    assert "Plot: `offline-pinned.png` of the results." in rest[-2]
    assert str(job.out) not in "".join(rest) and "gate: " not in "".join(rest)


@pytest.mark.parametrize(("fails", "verdict"), [("false", "passed, but"), ("true", "failed")])
def test_a_gate_that_cannot_tell_says_so_first_and_fails_if_asked(
    tmp_path: Path, fails: str, verdict: str
) -> None:
    job = make_job(tmp_path, FAIL_ON_CANNOT_TELL=fails)
    for kind in ("last-good", "pinned"):
        make_run(job.baselines / kind / "offline")
    suite = Suite(comparison="| metric | change | verdict |\n| tokens/s | -9.0% | cannot tell |\n")
    assert measure(job, suite) == (fails == "true")
    assert ("--fail-on-cannot-tell" in suite.runs()[0]) is (fails == "true")
    title, first, *_ = (job.out / "table.md").read_text().split("\n\n")
    assert title.startswith(f"### MLPerf suite: offline: {verdict}")
    words = "against the last-good baseline: the gate cannot tell: tokens/s (the noise may hide"
    assert first.startswith(f"**{words}")


@pytest.mark.parametrize(
    ("suite", "status"),
    [
        (Suite(regression="pinned/server"), 1),
        # A Server job that ended early has left only the Offline run that its rate comes from.
        (Suite(pytest_status=1, scenario="Offline"), 1),
        (Suite(pytest_status=4, result=False), 4),
        (Suite(result=False), 1),
    ],
)
def test_what_fails_the_job(job: Job, suite: Suite, status: int) -> None:
    for gate in ("offline", "server"):
        make_run(job.baselines / "pinned" / gate, None)
    (job.out).mkdir()
    (job.out / "of an earlier job").touch()
    assert measure(job, suite) == status
    assert not (job.out / "of an earlier job").exists()
    table = (job.out / "table.md").read_text()
    assert table.count("No result: the job's log says why.") == (0 if suite.result else 2)
    planned = "no fixed rate for server: this run was to choose its own"
    assert (planned in table) is (suite.scenario == "Offline" or not suite.result)


def test_a_loss_is_accepted_where_the_run_is_to_be_pinned(tmp_path: Path) -> None:
    job = make_job(tmp_path, PIN="true", KEEP="true")
    for gate in ("offline", "server"):
        for kind in ("last-good", "pinned"):
            make_run(job.baselines / kind / gate)
    suite = Suite(regression="pinned/offline", comparison="gate: 20270101-000000-run: qps: -9.0%\n")
    assert measure(job, suite) == 0
    assert not any("--baseline" in run for run in suite.runs())
    comparisons = [line for line in suite.commands if "compare" in line]
    assert len(comparisons) == 4
    assert all("--gate" in line for line in comparisons)
    table = (job.out / "table.md").read_text()
    assert "- Against the pinned baseline: qps: -9.0%" in table
    assert "offline is to be pinned: a loss against its baselines fails nothing" in table
    assert "offline: passed the rules, gated against no baseline" in table
    assert measure(job, Suite(pytest_status=1)) == 1
    assert measure(make_job(tmp_path, PIN="true"), suite) == 0
    assert "offline is neither kept nor pinned by this job" in (job.out / "table.md").read_text()


def test_a_job_that_is_ended_during_server_has_not_passed(job: Job) -> None:
    suite = Suite()

    def interrupted(command: Sequence[str], out: Path | None) -> int:
        if "junit-server.xml" in " ".join(command):
            raise KeyboardInterrupt
        return suite(command, out)

    with pytest.raises(KeyboardInterrupt):
        measure(job, interrupted)
    titles = [line for line in (job.out / "table.md").read_text().splitlines() if "###" in line]
    assert [title.split(": ")[1] for title in titles] == ["offline", "server"]
    assert titles[1].endswith("server: failed")


def test_a_marker_runs_that_and_gates_nothing(tmp_path: Path) -> None:
    suite = Suite()
    job = make_job(tmp_path, MARKER="server", ARGS="--model 'a b'")
    assert measure(job, suite) == 0
    (requests,) = suite.commands
    assert requests[-4:] == ["-m", "server", "--model", "a b"]
    assert "Not gated." in (job.out / "table.md").read_text()


def test_the_pinned_baseline_stays_until_the_next_is_pinned(tmp_path: Path) -> None:
    for number, pin in enumerate(("", "", "true")):
        job = make_job(tmp_path, PIN=pin)
        shutil.rmtree(job.out, ignore_errors=True)
        latest = make_run(job.out / "results" / "offline" / "run")
        (latest / "number").write_text(str(number))
        (latest.parent / "latest").symlink_to("run")
        assert keep(job) == 0
        baseline = {
            kind: (job.baselines / kind / "offline" / "number").read_text()
            for kind in ("last-good", "pinned")
        }
        assert baseline == {"last-good": str(number), "pinned": "2" if pin else "0"}
    for kind in ("last-good", "pinned"):
        link, copy = sorted(line.name for line in (job.baselines / kind).iterdir())[::-1]
        assert link == "offline" and copy.startswith(".offline.")


def test_a_kept_run_is_its_own_folder_and_what_a_stopped_job_left_is_cleared(
    tmp_path: Path,
) -> None:
    target = tmp_path / "kept" / "offline"
    (tmp_path / "kept" / ".offline.half").mkdir(parents=True)
    for name in ("20270101-000000-one", "20270102-000000-two"):
        _put(make_run(tmp_path / name), target)
        assert target.resolve().name == name
        assert target.resolve().parent.stat().st_mode & 0o777 == 0o755
        assert len(list((tmp_path / "kept").iterdir())) == 2


def test_the_table_names_the_rules_that_failed_with_their_figures_and_no_other() -> None:
    verdicts = (
        Verdict("ttft_limit", "failed", "2,345 ms", "at most 2,000 ms"),
        Verdict("min_duration", "shortened", "10 s", "at least 600 s"),
        Verdict("seeds", "passed", "the seeds of v6.1", "the seeds of v6.1"),
    )
    summary = Summary(meta=Meta(benchmark="llama3.1-8b", status="invalid"), verdicts=verdicts)
    lines = problems_of(markdown_text(run_sections(summary))).splitlines()
    rows = [line for line in lines if line.startswith("| ttft")]
    assert len(rows) == 1 and "| 2,345 ms | at most 2,000 ms |" in rows[0]
    assert "- Shortened for smoke, so not met: min\\_duration." in lines
    assert "seeds" not in "\n".join(lines)
