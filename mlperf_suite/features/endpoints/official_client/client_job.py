"""Writes the configuration and the data of one run of the official client.

Source of the fields: config/schema.py, endpoint_client/config.py and dataset_manager/ of
mlcommons/endpoints, commit ea332753. The configuration is written as JSON, which YAML contains.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.datasets.media import MediaPrompt
from mlperf_suite.features.servers.picture_messages import with_picture

Route = Literal["openai_completions", "openai"]
"""The API by the client's name: completions of token ids, or chat completions of text."""
CONFIG_FILE, DATA_FILE, ACCURACY_FILE = "client.yaml", "performance.jsonl", "accuracy.jsonl"
REPORT_FOLDER = "report"
ACCURACY_DATA = "accuracy-data"
"""The client's name of the accuracy run in its files."""
PERFORMANCE_DATA = "performance"
"""The same of the samples that are measured (sample_idx_map.json)."""
PLACEHOLDER = "string_match"
"""The client's name of a scorer that needs nothing, for a run whose own one is not at hand: it says
what share of the answers equals the reference."""
_MARGIN = 1.1
"""What the client adds to a rate times a duration (runtime_settings.py: padding_factor)."""


@dataclass(frozen=True, slots=True)
class OfficialClientLoad:
    """How requests are issued; exactly one kind. `rate`: Poisson, in requests/s. `concurrency`:
    closed loop. Neither: all at once. `requests`: how many. `least_s`: the minimum duration that
    the configuration names, in s.
    """

    requests: int
    rate: float | None = None
    concurrency: int | None = None
    least_s: float = 0.0

    @property
    def kind(self) -> str:
        """The client's name of it."""
        if self.rate is not None:
            return "poisson"
        return "max_throughput" if self.concurrency is None else "concurrency"

    @property
    def pattern(self) -> dict[str, Any]:
        targets = {"target_qps": self.rate, "target_concurrency": self.concurrency}
        return {"type": self.kind} | {n: v for n, v in targets.items() if v is not None}


def whole_passes(samples: int, rate: float | None, least_s: float) -> int:
    """The requests that last at least so long at a rate, in whole passes of the data set.

    `rate`: expected, in requests/s; without it one pass.
    """
    needed = math.ceil((rate or 0.0) * least_s * _MARGIN)
    return samples * max(1, math.ceil(needed / samples))


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialClientData:
    """Samples that are sent, in their order: token ids, or for the chat route prompts with pictures
    as their messages.

    `references`: by sample what the client's own scorer compares with; none for a performance run.
    `generation`: where it differs from that of the performance run.
    """

    prompts: Iterable[Sequence[int]]
    references: Sequence[str] = ()
    generation: Generation | None = None

    def lines(self) -> Iterable[str]:
        """The lines of its JSONL file."""
        for number, prompt in enumerate(self.prompts):
            row = _row(prompt)
            if self.references:
                row["reference"] = self.references[number]
            yield json.dumps(row) + "\n"


def _row(prompt: Any) -> dict[str, Any]:
    """A prompt's columns, by the names that the client's adapters read."""
    if not isinstance(prompt, MediaPrompt) or prompt.messages is None:
        return {"input_tokens": list(prompt)}
    contents = {m["role"]: m["content"] for m in with_picture(prompt.messages(), prompt.media)}
    return {"system": contents["system"], "prompt": contents["user"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficialClientJob:
    """One run of the client.

    `urls`: of the servers, with scheme. `model`: its name on the servers. `tokenizer`: a folder;
    without it tokens are not counted. `generation`: None leaves every sampling value to the server.
    `seeds`: of schedule and sample order. `accuracy`: answered after the performance run, under the
    same load. `scorer`: the client's name of one for it. `keeps_special_tokens`: whether answers
    have them, which some scorers read. `workers`: its sending processes; by
    itself it starts so many that two busy cores take a minute. `key_variable`: the environment
    variable of a bearer token, which is written nowhere.
    """

    name: str
    urls: tuple[str, ...]
    model: str
    tokenizer: Path | None
    load: OfficialClientLoad
    performance: OfficialClientData
    generation: Generation | None = None
    max_new_tokens: int
    streaming: bool = True
    seeds: tuple[int, int] = (42, 42)
    accuracy: OfficialClientData | None = None
    scorer: str = PLACEHOLDER
    keeps_special_tokens: bool = False
    workers: int = 1
    key_variable: str | None = None
    warmup_requests: int = 0
    route: Route = field(default="openai_completions")

    @property
    def mode(self) -> str:
        """The client's test mode."""
        return "perf" if self.accuracy is None else "both"


def config_of_job(job: OfficialClientJob, folder: Path) -> dict[str, Any]:
    """The configuration of a job whose files are in that folder."""
    load, (schedule_seed, sample_seed) = job.load, job.seeds
    runtime: dict[str, Any] = {
        "min_duration_ms": round(load.least_s * 1000),
        "scheduler_random_seed": schedule_seed,
        "dataloader_random_seed": sample_seed,
        "n_samples_to_issue": load.requests,
    }
    warmup = {"enabled": True, "n_requests": job.warmup_requests, "drain": True}
    return {
        "name": job.name,
        "type": "offline" if load.kind == "max_throughput" else "online",
        "model_params": _model_params(job),
        "report_dir": str(folder / REPORT_FOLDER),
        "datasets": [*_datasets(job, folder)],
        "settings": {
            "runtime": runtime,
            "load_pattern": load.pattern,
            "client": {"num_workers": job.workers},
            **({"warmup": warmup} if job.warmup_requests else {}),
        },
        "endpoint_config": {
            "endpoints": list(job.urls),
            "api_type": job.route,
            **({"api_key": f"${{{job.key_variable}}}"} if job.key_variable else {}),
        },
    }


def _model_params(job: OfficialClientJob) -> dict[str, Any]:
    params: dict[str, Any] = {
        "name": job.model,
        "streaming": "on" if job.streaming else "off",
        "max_new_tokens": job.max_new_tokens,
    }
    if job.tokenizer is not None:
        params["tokenizer_name"] = str(job.tokenizer)
    if job.generation is not None:
        params |= _sampling(job.generation, job.route)
    if job.keeps_special_tokens:
        params["skip_special_tokens"] = False
    return params


def _sampling(generation: Generation, route: Route) -> Mapping[str, Any]:
    params: dict[str, Any] = {
        "temperature": generation.temperature,
        "top_p": generation.top_p,
        "top_k": generation.top_k,
        "seed": generation.seed,
    }
    if route == "openai_completions":
        params["min_new_tokens"] = generation.min_new_tokens
    return {name: value for name, value in params.items() if value is not None}


def _datasets(job: OfficialClientJob, folder: Path) -> Iterable[dict[str, Any]]:
    yield {
        "name": "performance-data",
        "type": "performance",
        "path": str(folder / DATA_FILE),
    }
    if job.accuracy is not None:
        own = job.accuracy.generation
        override = (
            {"max_new_tokens": own.max_new_tokens, **_sampling(own, job.route)} if own else {}
        )
        yield {
            "name": ACCURACY_DATA,
            "type": "accuracy",
            "path": str(folder / ACCURACY_FILE),
            "accuracy_config": {
                "eval_method": job.scorer,
                "ground_truth": "reference",
                "extractor": "identity_extractor",
            },
            **({"generation_config_override": override} if override else {}),
        }


def write_job(job: OfficialClientJob, folder: Path) -> Path:
    """Write a job's configuration and data into a folder; returns the configuration's file.

    Raises OSError if they cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _write_lines(folder / DATA_FILE, job.performance)
    if job.accuracy is not None:
        _write_lines(folder / ACCURACY_FILE, job.accuracy)
    text = json.dumps(config_of_job(job, folder), indent=2)
    (folder / CONFIG_FILE).write_text(text + "\n", encoding="ascii")
    return folder / CONFIG_FILE


def _write_lines(path: Path, data: OfficialClientData) -> None:
    with path.open("w", encoding="ascii") as file:
        file.writelines(data.lines())
