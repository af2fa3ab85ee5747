"""Which of the client's own scorers scores a benchmark, and whether it can run here.

Only a score that the client wrote itself can be submitted. Source: evaluation/scoring.py of
mlcommons/endpoints, commit ea332753.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass

from mlperf_suite.features.endpoints.official_client.client_job import PLACEHOLDER
from mlperf_suite.features.endpoints.official_client.installation import (
    METRICS,
    OfficialClientInstallation,
)
from mlperf_suite.untrusted_files import printable

_ROUGE = "rouge"
_TRIAL = (
    f"import nltk, evaluate; evaluate.load({_ROUGE!r}); nltk.sent_tokenize('A sentence. Another.')"
)
"""What the client's scorer does before it scores anything."""
_TRIAL_LIMIT_S = 120.0
"""The hub is asked several times before it counts as out of reach."""
_NEEDS = {
    "deepseek-r1": "legacy_mlperf_deepseek_r1, which needs its evaluator's own environment and a "
    "code execution service",
    "gpt-oss-120b": "pass_at_1 and code_bench_scorer, which need a code execution service",
}
"""By benchmark, the client's scorers that this suite does not set up."""


@dataclass(frozen=True, slots=True)
class OwnScorer:
    """The client's scorer for a run, by its name there. `fault`: why it is the placeholder, so that
    the client's score cannot be submitted, in one line; "" if it is the benchmark's."""

    name: str
    fault: str = ""


def own_scorer(client: OfficialClientInstallation, benchmark: str, metric: str) -> OwnScorer:
    """The client's scorer of a benchmark. `metric`: the name of the suite's own one for it."""
    if metric != _ROUGE:
        needs = _NEEDS.get(benchmark, f"none that is known for {metric}")
        return OwnScorer(PLACEHOLDER, f"the client's own scorer was not run: {needs}")
    fault = _rouge_fault(client)
    return OwnScorer(PLACEHOLDER, fault) if fault else OwnScorer(_ROUGE)


def _rouge_fault(client: OfficialClientInstallation) -> str:
    """Why the client's ROUGE cannot run, by running what it begins with; "" if it can."""
    try:
        run = subprocess.run(
            [client.program.parent / "python", "-c", _TRIAL],
            cwd=client.folder,
            env=client.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TRIAL_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        return f"the client's rouge did not load within {_TRIAL_LIMIT_S:g} s"
    except OSError as error:
        return f"the client's rouge does not start: {error.strerror}"
    if run.returncode == 0:
        return ""
    folder = client.program.parent.parent / METRICS / _ROUGE
    faults = {
        "No module named": "evaluate, nltk or rouge_score is missing in its environment: make "
        "endpoints-client again",
        "punkt": "NLTK's punkt_tab is missing: make setup",
        "Couldn't find a module script": f"neither {folder}/rouge.py (make endpoints-client "
        "EVALUATE=DIR) nor the hub's evaluate-metric/rouge was found",
    }
    last = printable(run.stderr.strip().rpartition("\n")[2])[-200:]
    why = next((words for sign, words in faults.items() if sign in run.stderr), last)
    return f"the client's rouge cannot run: {why}"
