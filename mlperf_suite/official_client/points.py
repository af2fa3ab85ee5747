"""One point of a curve with the official client: a fixed concurrency for some seconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from mlperf_suite.benchmarks.definition import Generation
from mlperf_suite.official_client.client_job import ClientData, ClientJob, ClientLoad, Route
from mlperf_suite.official_client.client_process import ClientProgress, run_client
from mlperf_suite.official_client.installation import ClientInstallation, find_client

_SLACK_S = 300.0
"""What a run may need beside its load, in s: start, connections, counting tokens at the end."""


def run_client_point(
    url: str,
    concurrency: int,
    seconds: float,
    folder: Path,
    *,
    model: str,
    tokenizer: Path | None,
    prompts: Sequence[Sequence[int]] | Sequence[str],
    max_new_tokens: int,
    generation: Generation | None = None,
    requests: int | None = None,
    seeds: tuple[int, int] = (42, 42),
    key_variable: str | None = None,
    on_progress: Callable[[ClientProgress], None] | None = None,
    client: ClientInstallation | None = None,
) -> Path:
    """Run one point of a curve: streaming requests, always `concurrency` of them in flight.

    Returns the client's result folder: config.yaml, events.jsonl, performance/result_summary.json.
    Token ids among `prompts` go to /v1/completions, texts to /v1/chat/completions. After `seconds`
    the requests in flight are dropped and do not count; with `requests` the point ends when so many
    are answered instead, however long that takes. `seeds`: of schedule and sample order.

    Raises UsageError without the client, ClientRunError if it ends without a result; in both cases
    no process is left, and what it wrote stays in `folder`.
    """
    route: Route = "openai" if isinstance(prompts[0], str) else "openai_completions"
    load = (
        ClientLoad(concurrency=concurrency, most_s=seconds)
        if requests is None
        else ClientLoad(concurrency=concurrency, requests=requests, least_s=seconds)
    )
    job = ClientJob(
        name=f"concurrency {concurrency}",
        urls=(url,),
        model=model,
        tokenizer=tokenizer,
        load=load,
        performance=ClientData(prompts=prompts),
        generation=generation,
        max_new_tokens=max_new_tokens,
        seeds=seeds,
        key_variable=key_variable,
        route=route,
    )
    limit_s = seconds + _SLACK_S if requests is None else None
    return run_client(
        client or find_client(), job, folder, on_progress=on_progress, limit_s=limit_s
    )
