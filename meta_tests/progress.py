"""What `make test` prints while it runs, and last: how much is left, what was skipped for want of
what."""

import time
from collections import Counter, defaultdict

import pytest

_EVERY_S = 20.0
_KEPT = "meta_tests/seconds_by_file"
"""In pytest's cache: how long each file took the last time."""


class Progress:
    """A line every 20 s in the place of a dot for each test, and a table of what was skipped."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        kept = config.cache.get(_KEPT, {}) if config.cache else {}
        self._kept: dict[str, float] = kept
        self._seconds: dict[str, float] = defaultdict(float)
        self._done = 0
        self._begin = self._last = time.monotonic()
        self._session: pytest.Session | None = None

    @property
    def _terminal(self) -> pytest.TerminalReporter:
        terminal = self._config.pluginmanager.get_plugin("terminalreporter")
        assert isinstance(terminal, pytest.TerminalReporter)
        return terminal

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """No letter for any test: whatever failed has a line of its own."""
        if report.failed:
            return "failed" if report.when == "call" else "error", "", "FAILED"
        if report.passed and report.when == "call":
            return "passed", "", ""
        if report.skipped and not hasattr(report, "wasxfail"):
            return "skipped", "", ""
        return None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.location[0]] += report.duration
        if report.failed:
            self._terminal.write_line(f"FAILED {report.nodeid}", red=True)
        if report.when == "teardown":
            self._done += 1
            now = time.monotonic()
            if now - self._last >= _EVERY_S:
                self._last = now
                self._terminal.write_line(self.line(now - self._begin))

    def line(self, elapsed_s: float) -> str:
        """How many tests are done, and how much time is left, as far as that can be told."""
        total = self._session.testscollected if self._session else 0
        share = self._share_done(total)
        # The longest tests come first: without the last run's times, the share of the tests that
        # are done says too little before its middle.
        is_known = share > (0.02 if self._kept else 0.4)
        left = f", about {_clock(elapsed_s * (1 - share) / share)} left" if is_known else ""
        return f"{self._done:,} of {total:,} tests after {_clock(elapsed_s)}{left}"

    def _share_done(self, total: int) -> float:
        """Of the time where the last run's is known, else of the tests."""
        if self._kept:
            seconds = sum(min(self._seconds[name], kept) for name, kept in self._kept.items())
            return min(seconds / sum(self._kept.values()), 0.99)
        return self._done / total if total else 0.0

    def pytest_sessionfinish(self, exitstatus: int) -> None:
        if exitstatus == pytest.ExitCode.OK and self._config.cache:
            self._config.cache.set(_KEPT, dict(self._seconds))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        reports = terminalreporter.stats.get("skipped", [])
        reasons = Counter(_reason(report) for report in reports)
        if reasons:
            terminalreporter.section("skipped")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:>4} {'test' if count == 1 else 'tests'}: {reason}")


def _reason(report: pytest.TestReport) -> str:
    """Why it was skipped, without pytest's word before it."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
