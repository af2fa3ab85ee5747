"""LoadGen's clock, set and slowed during real LoadGen runs, by a library that only they load."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from meta_tests.suite_runs import ROOT

SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <time.h>
static double step_s, rate, since_s;
static int (*real)(clockid_t, struct timespec *);
int clock_gettime(clockid_t clock, struct timespec *now) {
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, now);
    if (clock == CLOCK_REALTIME) {
        double moved = step_s + rate * (now->tv_sec + now->tv_nsec * 1e-9 - since_s);
        long long ns = now->tv_sec * 1000000000LL + now->tv_nsec + (long long)(moved * 1e9);
        now->tv_sec = ns / 1000000000LL;
        now->tv_nsec = ns % 1000000000LL;
    }
    return code;
}
void set_clock(double step, double by_rate) {
    struct timespec now;
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    real(CLOCK_REALTIME, &now);
    since_s = now.tv_sec + now.tv_nsec * 1e-9;
    step_s = step;
    rate = by_rate;
}
"""
RUN = """
import ctypes, json, sys, threading
from pathlib import Path
from meta_tests.loadgen.made_plans import GENERATION, PROMPTS, a_plan, stand_in
from mlperf_suite.errors import RunError
from mlperf_suite.loadgen.load_plan import Shortened
from mlperf_suite.loadgen.runner import run_loadgen

library, scenario, mode, step, rate, folder = sys.argv[1:]
set_clock = ctypes.CDLL(library).set_clock
set_clock.argtypes = [ctypes.c_double, ctypes.c_double]
plan = a_plan(scenario, mode, Shortened(min_duration_ms=1500, min_query_count=64))
threading.Timer(0.7, set_clock, (float(step), float(rate))).start()
engine = stand_in(rest_s=0.9 if scenario == "Offline" else 0.001)
try:
    run = run_loadgen(plan, engine, PROMPTS, GENERATION, Path(folder))
    print(json.dumps(run.logs.clock_faults))
except RunError as error:
    print(json.dumps([str(error)]))
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library that moves the system's clock in the process that loads it."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to move the clock of a process with: apt-get install gcc")
    folder = tmp_path_factory.mktemp("clock")
    (folder / "clock.c").write_text(SHIM)
    library = folder / "clock.so"
    command = [compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "clock.c"), "-ldl"]
    subprocess.run(command, check=True)
    return library


def faults_of_run(
    shim: Path, folder: Path, scenario: str, step_s: float, rate: float = 0.0
) -> list[str]:
    arguments = (shim, scenario, "performance", step_s, rate, folder)
    process = subprocess.run(
        [sys.executable, "-c", RUN, *map(str, arguments)],
        env={**os.environ, "LD_PRELOAD": str(shim), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    faults: list[str] = json.loads(process.stdout.splitlines()[-1])
    return faults


@pytest.mark.parametrize("step_s", [-0.5, 0.5], ids=["back", "forward"])
@pytest.mark.parametrize("scenario", ["Offline", "Server", "Interactive", "SingleStream"])
def test_a_clock_that_is_set_during_a_run_is_noticed(
    shim: Path, tmp_path: Path, scenario: str, step_s: float
) -> None:
    faults = faults_of_run(shim, tmp_path, scenario, step_s)
    assert f"the system's clock gained {step_s:+,.3f} s between" in faults[0]


def test_a_log_that_a_clock_damaged_is_an_error_that_names_the_clock(
    shim: Path, tmp_path: Path
) -> None:
    """Set back by more than the run had lasted: LoadGen reports inf samples/s."""
    (error,) = faults_of_run(shim, tmp_path, "Offline", -2.0)
    assert "the log is damaged" in error
    assert "the system's clock gained -2.000 s between" in error


def test_a_clock_at_another_rate_is_noticed_and_an_honest_one_is_not(
    shim: Path, tmp_path: Path
) -> None:
    assert "the system's clock gained" in faults_of_run(shim, tmp_path / "a", "Server", 0, 0.05)[0]
    assert faults_of_run(shim, tmp_path / "b", "Server", 0) == []
