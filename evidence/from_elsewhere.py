"""What proofs compare with and the repository may not hold: where it is, and how to get it.

A proof that needs something absent is skipped, with the line that brings it.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

from evidence.verdicts import CHECKER
from meta_tests.judging.trees import ROOT


def _named(variable: str) -> Path:
    """The path of a variable, from the folder that the session was started in."""
    return Path(os.environ.get(variable) or "absent").absolute()


def _clone(variable: str, repository: str) -> str:
    return (
        f"{variable} names no checkout: git clone https://github.com/mlcommons/{repository} DIR, "
        f"export {variable}=DIR"
    )


INFERENCE = _named("MLPERF_INFERENCE")
needs_inference = pytest.mark.skipif(
    not (INFERENCE / CHECKER).is_dir(), reason=_clone("MLPERF_INFERENCE", "inference")
)
"""The official checker of submissions, its power checks and the scripts of the audits."""
SAMPLE = INFERENCE / CHECKER / "directory_structure_samples" / "sample_1"
"""The checkout's sample of a submission: logs of real systems."""
RESULTS = _named("MLPERF_RESULTS")
needs_results = pytest.mark.skipif(
    not (RESULTS / "closed").is_dir(), reason=_clone("MLPERF_RESULTS", "inference_results_v5.1")
)
RESULTS_V6_1 = _named("MLPERF_RESULTS_V6_1")
needs_results_v6_1 = pytest.mark.skipif(
    not (RESULTS_V6_1 / "closed").is_dir(),
    reason=_clone("MLPERF_RESULTS_V6_1", "inference_results_v6.1"),
)
ENDPOINTS_CLI = _named("MLPERF_ENDPOINTS_CLI")
needs_endpoints_cli = pytest.mark.skipif(
    not ENDPOINTS_CLI.is_file(),
    reason="MLPERF_ENDPOINTS_CLI names no endpoints-submission-cli: make evidence installs it",
)
MLFLOW = ROOT / ".evidence" / "mlflow" / "bin" / "mlflow"
needs_mlflow = pytest.mark.skipif(
    not (MLFLOW.is_file() and find_spec("mlflow")),
    reason="no MLflow in .evidence/mlflow and .venv: make evidence installs it",
)
OFFICIAL_CLIENT = ROOT / ".endpoints-client"
needs_official_client = pytest.mark.skipif(
    not (OFFICIAL_CLIENT / ".set-up").exists(),
    reason="no official client: git clone https://github.com/mlcommons/endpoints DIR, "
    "make endpoints-client CHECKOUT=DIR",
)
KUBERNETES_SCHEMAS = _named("MLPERF_KUBERNETES_SCHEMAS")
needs_kubernetes_schemas = pytest.mark.skipif(
    not KUBERNETES_SCHEMAS.is_dir(),
    reason="MLPERF_KUBERNETES_SCHEMAS names no folder of schemas: docs/kubernetes-clusters.md says",
)
REAL_NEWS = _named("MLPERF_SUITE_REAL_NEWS")
needs_real_news = pytest.mark.skipif(
    not REAL_NEWS.exists(),
    reason="MLPERF_SUITE_REAL_NEWS names no file: a .jsonl of rows of the data set "
    "abisee/cnn_dailymail, with article and highlights",
)
REAL_MMLU = _named("MLPERF_SUITE_REAL_MMLU")
needs_real_mmlu = pytest.mark.skipif(
    not REAL_MMLU.is_dir(),
    reason="MLPERF_SUITE_REAL_MMLU names no folder: dev/ and test/ of the data set cais/mmlu, "
    "as CSV or parquet files",
)
