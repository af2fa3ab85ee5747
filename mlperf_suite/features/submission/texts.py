"""The small files of a submission that a person or the official checker reads."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlperf_suite import __version__
from mlperf_suite.benchmarks.audits import Audit
from mlperf_suite.benchmarks.definition import (
    COUNTED_IN_A_SENTENCE,
    F1,
    GEN_NUM,
    WORD_ACCURACY,
    WORD_ERROR_RATE,
)
from mlperf_suite.engines.protocol import QUANTIZATION
from mlperf_suite.features.submission.evidence import SuiteRun
from mlperf_suite.features.submission_check.submission_rules import MEASUREMENT_FIELDS
from mlperf_suite.loadgen.logs import RunLogs
from mlperf_suite.settings import engine_arg_text

REPLAY_NOTICE = (
    "Made from a replay of prepared answers at a fixed pace, to prove the form of a submission: "
    "not a measurement of any system, not an MLPerf result."
)
_GIVEN = (
    "precision",
    "tensor_parallel_size",
    "total_sample_count",
    "max_model_len",
    "gpu_memory_utilization",
    "server_target_qps",
    "offline_target_qps",
    "served_model_name",
    "endpoint_server",
    "endpoint_clients",
)
"""Settings that a README repeats in the rerun command, if they were given."""
_COUNTS = ("gen_len", GEN_NUM)
"""Figures that the official script prints as integers."""
_HALF_BYTES = 4096
_CUT = b"\n\n...\n\n"
"""The size of the two ends of an accuracy log that are kept, and the text between them, as in the
official truncate_accuracy_log.py."""


def folder_name(system_name: str) -> str:
    """The system's name, made valid as a folder name."""
    return re.sub(r"[^A-Za-z0-9.+-]+", "_", system_name).strip("_.") or "system"


def accuracy_txt(scores: Mapping[str, float], counted_as: str, log_sha256: str, notice: str) -> str:
    """accuracy.txt: the scores as the official accuracy script prints them, and the log's hash.

    `counted_as`: that script's name for the number of answers, which is `gen_num` among the scores.
    """
    figures = {n: int(v) if v.is_integer() and n in _COUNTS else v for n, v in scores.items()}
    sentence = ""
    if counted_as == COUNTED_IN_A_SENTENCE:
        sentence = f"{counted_as}: {figures.pop(GEN_NUM)}\n"
    elif counted_as != GEN_NUM:
        figures[counted_as] = figures.pop(GEN_NUM)
    if WORD_ACCURACY in figures:
        rate, accuracy = figures.pop(WORD_ERROR_RATE, ""), figures.pop(WORD_ACCURACY)
        sentence += f"Word Error Rate: {rate}%, accuracy={accuracy}%\n"
    if F1 in figures:
        # A share, in a line of JSON.
        sentence += json.dumps({F1: figures.pop(F1) / 100}) + "\n"
    header = f"\n{notice}\n" if notice else "\n"
    return f"\nResults\n{header}\n{sentence}{figures}\n\nhash={log_sha256}\n"


def audit_accuracy_txt(log_sha256: str, notice: str) -> str:
    """accuracy.txt beside the cut log of an audit: the whole log's hash, as
    truncate_accuracy_log.py writes it."""
    return (f"{notice}\n" if notice else "") + f"hash={log_sha256}\n"


def cut_accuracy_log(content: bytes) -> bytes:
    """The beginning and the end of an accuracy log; a short one is kept whole."""
    if len(content) <= 2 * _HALF_BYTES:
        return content
    return content[:_HALF_BYTES] + _CUT + content[-_HALF_BYTES:]


def verified_text(
    audit: Audit, verdicts: Sequence[Mapping[str, Any]], scores: Mapping[str, float], notice: str
) -> str:
    """The output of an audit's official script, from the run's verdicts and scores.

    It reports a pass only if each of the audit's verdicts passed; the official scripts check only a
    few of those. Verdicts that did not pass are listed.
    """
    if audit.mode == "test06":
        return _test06_txt(verdicts, notice)
    of_audit = {v["rule"]: v for v in verdicts if v["rule"].startswith(f"{audit.mode}_")}
    wrong = [v for v in of_audit.values() if v["status"] != "passed"]
    lines = [f"{audit.name} Verification Summary", *_figures(audit, of_audit, scores)]
    lines += [f"{v['rule']}: {v['status']}: {v.get('found')}" for v in wrong]
    lines += ["TEST PASS" if of_audit and not wrong else "TEST FAIL", *([notice] if notice else [])]
    return "\n".join(lines) + "\n"


def comparison_texts(
    audit: Audit, verdicts: Sequence[Mapping[str, Any]], logs: Sequence[RunLogs], notice: str
) -> dict[str, str]:
    """By name, the outputs of the scripts that compare an audit with the result's other runs.

    `logs`: of the accuracy, the performance and the audit run. As officially, answers are compared
    by their first element alone; a pass needs the audit's verdicts too.
    """
    accuracy, performance, own = logs
    passed = verified_text(audit, verdicts, {}, "")
    answers = {index: s.token_ids[:1] for index, s in accuracy.accuracy.first_of_each().items()}
    samples = own.accuracy.samples
    wrong = sum(answers.get(sample.index) != sample.token_ids[:1] for sample in samples)
    counts = {
        "num_acc_log_entries": len(accuracy.accuracy.samples),
        "num_perf_log_entries": len(samples),
        "num_perf_log_data_mismatch": wrong,
    }
    rates = {
        "Reference score": performance.detail["result_samples_per_second"],
        "Test score": own.detail["result_samples_per_second"],
    }
    differ = "TEST FAIL\n" if wrong else ""
    texts = (
        (audit.verified_in, counts, differ or passed),
        (str(audit.also_verified_in), rates, passed),
    )
    return {
        name: "".join(f"{key} = {value}\n" for key, value in figures.items()) + word + notice
        for name, figures, word in texts
    }


def _figures(
    audit: Audit, verdicts: Mapping[str, Mapping[str, Any]], scores: Mapping[str, float]
) -> list[str]:
    """The audit's figures and limits, named as in the official scripts."""
    lines, passed = [], [rule for rule, v in verdicts.items() if v["status"] == "passed"]
    if audit.least_score is not None:
        name, least = audit.least_score
        lines += [f"Accuracy score: {scores.get(name)}", f"Accuracy threshold: {least}"]
        lines.append(f"Accuracy check pass: {f'{audit.mode}_score' in passed}")
    if audit.mean_tokens is not None:
        low, high = audit.mean_tokens
        mean = str(verdicts.get(f"{audit.mode}_mean_tokens", {}).get("found"))
        lines.append(f"Mean output tokens: {mean.removesuffix(' tokens').replace(',', '')}")
        lines += [f"Min threshold: {low}", f"Max threshold: {high}"]
        lines.append(f"Length check pass: {f'{audit.mode}_mean_tokens' in passed}")
    return lines


def _test06_txt(verdicts: Sequence[Mapping[str, Any]], notice: str) -> str:
    status = {v["rule"]: v["status"] == "passed" for v in verdicts}
    first = status.get("test06_first_token", "Skipped")
    ends, counts = status.get("test06_eos", False), status.get("test06_token_count", False)
    complete = "complete" if first and ends and counts else "failed"
    lines = [
        f"First token check pass: {first}",
        f"EOS check pass: {ends}",
        f"Sample length check pass: {counts}",
        f"TEST06 verification {complete}",
        *([notice] if notice else []),
    ]
    return "\n".join(lines) + "\n"


def measurements(run: SuiteRun, by_user: Mapping[str, Any], notice: str) -> dict[str, Any]:
    """The measurements' JSON: what the run knows about its weights, overridden by what a person
    gives.

    The weights in a local folder may be anything: only their type is known, and for a server not
    even that.
    """
    content = dict.fromkeys(MEASUREMENT_FIELDS, "")
    content["input_data_types"] = "int32"
    content["weight_data_types"] = str(
        run.engine.settings.get(QUANTIZATION)
        or run.engine.settings.get("dtype")
        or run.settings.get("precision")
        or ""
    )
    official = run.workload.model
    own = not run.is_remote and "quantization" not in run.engine_args
    if own and run.settings.get("model") == official:
        content["starting_weights_filename"] = official
        content["retraining"] = "no"
        content["weight_transformations"] = "none"
    return {**content, **by_user, **({"note": notice} if notice else {})}


def readme(run: SuiteRun, notice: str) -> str:
    """The scenario's README.md: the run, its settings, and how to run it again."""
    settings, engine, system = run.settings, run.engine, run.system
    arguments, in_fact = run.engine_args, engine.settings
    tensor_parallel_size = in_fact.get("tensor_parallel_size", settings.get("tensor_parallel_size"))
    facts = {
        "benchmark": f"{run.benchmark.id}, {run.scenario.name}, {run.benchmark.category}",
        "round": settings.get("round"),
        "model": _model(run),
        "data set": _dataset(run),
        "engine": f"{engine.name} {engine.version}",
        "precision": in_fact.get("dtype") or settings.get("precision") or "not known",
        **({QUANTIZATION: in_fact[QUANTIZATION]} if QUANTIZATION in in_fact else {}),
        "tensor parallel size": tensor_parallel_size or "not known",
        **({"engines": _engines(run)} if run.machines else {}),
        "longest answer": f"{settings.get('max_new_tokens') or 'not known'} tokens",
        "engine arguments": "the server's own, unknown"
        if run.is_remote
        else ", ".join(f"{k}={v}" for k, v in arguments.items()) or "none",
        "LoadGen": system.get("loadgen_version"),
        "suite": f"mlperf-suite {__version__}",
    }
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    header = f"{notice}\n\n" if notice else ""
    again = "" if run.is_replay else f"To rerun it{_unshown(run)}:\n\n```\n{_command(run)}\n```\n"
    return (
        f"# {run.benchmark.id} {run.scenario.name}\n\n{header}| | |\n|---|---|\n{rows}\n\n{again}"
    ).rstrip("\n") + "\n"


def _engines(run: SuiteRun) -> str:
    """How many engines on how many machines, and the devices of each."""
    settings, machines = run.engine.settings, len(run.machines)
    where = "1 machine" if machines == 1 else f"{machines} machines"
    return f"{settings.get('replicas')} on {where}, {settings.get('replica_devices')} each"


def _command(run: SuiteRun) -> str:
    """The suite's command with the settings of the run."""
    settings = run.settings
    words = ["pytest", "-m", run.scenario.marker, "--benchmark", run.benchmark.id]
    words += ["--profile", "official", "--round", str(settings.get("round"))]
    words += ["--model", _model(run), "--dataset", _data_option(run)]
    problems = settings.get("code_problems")
    words += ["--code-problems", Path(str(problems)).name] if problems else []
    for name in _GIVEN:
        value = settings.get(name)
        if value not in (None, "auto"):
            words += [f"--{name.replace('_', '-')}", str(value)]
    words += ["--high-accuracy"] if settings.get("high_accuracy") else []
    if run.machines:
        words += ["--replicas", str(run.engine.settings.get("replicas"))]
        for name in ("ray", "replica_nodes", "replica_routing", "replica_cpus"):
            if settings.get(name):
                words += [f"--{name.replace('_', '-')}", str(settings[name])]
    for url in run.endpoints:
        words += ["--endpoint", url]
    routing = settings.get("endpoint_routing")
    if len(run.endpoints) > 1 and routing:
        words += ["--endpoint-routing", str(routing)]
    authorities = settings.get("endpoint_ca")
    words += ["--endpoint-ca", Path(str(authorities)).name] if authorities else []
    for key, value in run.engine_args.items():
        words += ["--engine-arg", engine_arg_text(key, value)]
    return shlex.join(words)


def _data_option(run: SuiteRun) -> str:
    """The data file; for data in several files the name of their folder."""
    data = run.config.dataset
    return Path(str(run.settings.get("dataset"))).name if data.parts else str(data.name)


def _unshown(run: SuiteRun) -> str:
    """What a server was sent that the command does not show, by name: a key, headers."""
    settings = run.settings
    names = ["the key in API_KEY"] if run.is_remote and settings.get("api_key") == "set" else []
    headers = settings.get("endpoint_headers")
    if run.is_remote and isinstance(headers, list) and headers:
        names.append(f"the headers {', '.join(map(str, headers))} in the settings file")
    return f", with {' and '.join(names)}" if names else ""


def _model(run: SuiteRun) -> str:
    """The model's name; for a folder only its last part, since the rest is private."""
    model = str(run.settings.get("model"))
    return Path(model).name if model.startswith((".", "/", "~")) or model.count("/") > 1 else model


def _dataset(run: SuiteRun) -> str:
    data = run.config.dataset
    lines = [f"{data.name}, {data.samples} samples, sha256 {data.sha256}"]
    for mode, part in data.parts.items():
        name, samples, sha256 = (part.get(key) for key in ("name", "samples", "sha256"))
        lines.append(f"{mode}: {name}, {samples} samples, sha256 {sha256}")
    return "; ".join(lines)


def source_readme(run: SuiteRun, notice: str) -> str:
    """The README.md of the benchmark's source folder: the code that produced the results."""
    header = f"{notice}\n\n" if notice else ""
    engine = run.engine
    return (
        f"# {run.benchmark.id}\n\n{header}"
        f"Run with mlperf-suite {__version__} on {engine.name} {engine.version}"
        f"{', reached over HTTP,' if run.is_remote else ''} and "
        f"LoadGen {run.system.get('loadgen_version')}. Put the changes that were made to either, "
        f"and the code that is not public, into this folder.\n"
    )
