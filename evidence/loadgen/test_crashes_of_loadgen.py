"""What used to end the process within LoadGen, each in a process of its own."""

from __future__ import annotations

from pathlib import Path

from meta_tests.suite_runs import run_python

_BEFORE_THE_FIRST_TOKEN = """
import sys
from pathlib import Path
from meta_tests.loadgen.made_plans import a_plan, answer, run
from meta_tests.stand_in import Delays, StandInEngine

def interrupt(progress):
    if progress.samples_issued:
        raise KeyboardInterrupt

for scenario in ("Server", "SingleStream"):
    for mode in ("accuracy", "performance"):
        silent = StandInEngine(Delays(first_token_s=3600), answer)
        try:
            run(a_plan(scenario, mode), silent, Path(sys.argv[1]) / scenario / mode, interrupt)
        except KeyboardInterrupt:
            print("interrupted", flush=True)
"""


def test_an_interrupt_before_the_first_token_does_not_kill_the_process(tmp_path: Path) -> None:
    """In a process of its own: LoadGen used to end it with a segmentation fault."""
    process = run_python("-c", _BEFORE_THE_FIRST_TOKEN, str(tmp_path))
    assert (process.stdout, process.returncode) == ("interrupted\n" * 4, 0), process.stderr


_LOST = """
import sys, threading
from pathlib import Path
from meta_tests.loadgen.made_plans import GENERATION, plan_of
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.engines.protocol import EngineDescription
from mlperf_suite.errors import EngineDiedError, RunError
from mlperf_suite.loadgen.load_plan import Shortened
from mlperf_suite.loadgen.runner import run_loadgen

class Lost:
    description, alive = EngineDescription("lost", "1", "lost", True, 4096), True
    taken = 0

    def submit(self, requests, generation, listener, *, stream):
        self.taken += len(requests)
        if self.taken == count:
            # The thread that says so ends with that.
            error = EngineDiedError("it is gone")
            threading.Thread(target=listener.failed, args=(requests[0].tag, error)).start()

    def abort(self):
        pass

for scenario, count in (("Offline", 600), ("Offline", 1500), ("Server", 400)):
    shortened = Shortened(1, count, latency_percent=99)
    plan = plan_of(LLAMA3_1_8B, scenario, "performance", count, shortened, target_qps=4.0 * count)
    for number in range(4):
        folder = Path(sys.argv[1]) / f"{scenario} {count} {number}"
        try:
            run_loadgen(plan, Lost(), [[1]] * count, GENERATION, folder)
        except RunError as error:
            print(error, flush=True)
"""


def test_a_thread_may_end_after_it_lost_an_engine_with_much_to_do(tmp_path: Path) -> None:
    """In a process of its own: LoadGen's log used to end it with a segmentation fault."""
    process = run_python("-c", _LOST, str(tmp_path))
    assert (process.stdout, process.returncode) == ("it is gone\n" * 12, 0), process.stderr
