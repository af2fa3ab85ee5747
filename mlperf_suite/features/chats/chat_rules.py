"""The rules of a benchmark of messages: recorded sessions, and function calling, without LoadGen.

Sources, in mlcommons/endpoints: compliance/checker.py, config/rulesets/mlcommons/{models,rules}.py
and examples/11_Edge_Agentic_Example (README.md, online_edge_full_run.yaml).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

from mlperf_suite.benchmarks.definition import Benchmark
from mlperf_suite.engines.protocol import StreamFigures
from mlperf_suite.features.chats.chat_prompts import CHATS
from mlperf_suite.rules.facts import Facts, Subject
from mlperf_suite.rules.limits import arrival_words, held_back
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, no_demand, not_judged, verdict

TEMPERATURE, SEED, CONCURRENCY = 0, 42, 1
CONVERSATIONS, TURNS = 20, 1_007
MAX_DURATION_S = 4 * 3600
"""max_duration_ms_valid of the ruleset edge-v0.1."""
_chat_rule = partial(rule, run_kind=CHATS)


@dataclass(frozen=True, slots=True)
class ChatFacts(Facts):
    """The facts of a run of messages; None if unknown.

    `sent`: by name, what each request said of temperature, seed, max_tokens and concurrency; a name
    that is missing is not known. `asked`, `answered`: turns or questions; `expected`: those of the
    data that was run. `conversations`: of a replay. `why_missing`: of the first without an answer.
    `reasoned`: answers with reasoning. `context`: the server's, in tokens. `miscounted`: answers
    whose tokens the server counts otherwise than the model's tokenizer, in words; None if nothing
    counts them. `deviations`: how the engine differs from what the benchmark says. `scores`: in
    percent, None without answers; `ungated` says why they are not held against the gates.
    `checker`: the program that checked the calls, `bfcl`: whether that is bfcl-eval.
    `accuracy_passed`: of the same system, None if there was no accuracy run. `seconds`: of the
    whole replay.
    `stream`: how its answers arrived; None if none was streamed.
    """

    run_kind: ClassVar[str] = CHATS
    benchmark: Benchmark
    mode: Literal["performance", "accuracy"]
    sent: Mapping[str, float | None] = field(default_factory=dict)
    asked: int = 0
    answered: int = 0
    expected: int = 0
    conversations: int | None = None
    why_missing: str = ""
    reasoned: int | None = None
    context: int | None = None
    miscounted: tuple[str, ...] | None = None
    deviations: tuple[str, ...] = ()
    scores: Mapping[str, float] | None = None
    ungated: str = ""
    checker: str = ""
    bfcl: bool | None = None
    accuracy_passed: bool | None = None
    seconds: float | None = None
    stream: StreamFigures | None = None
    smoke: bool = False

    @property
    def subject(self) -> Subject:
        return self.mode


def _settings(run: ChatFacts) -> Verdict:
    """Every request asks for temperature 0, seed 42 and at most 1,024 tokens, and one is in flight
    at a time."""
    assert run.benchmark.workload is not None
    most = run.benchmark.workload.generation.max_new_tokens
    demands = {"temperature": TEMPERATURE, "seed": SEED, "concurrency": CONCURRENCY}
    demands["max_tokens"] = most
    words = ", ".join(f"{name} {value:,}" for name, value in demands.items())
    known = {name: run.sent[name] for name in demands if name in run.sent}
    wrong = {name: value for name, value in known.items() if value != demands[name]}
    found = ", ".join(f"{name} {_number(value)}" for name, value in (wrong or known).items())
    unknown = [name for name in demands if name not in known]
    if unknown and not wrong:
        return not_judged(found, words, f"not known: {', '.join(unknown)}")
    return verdict(not wrong, found, words)


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:,g}"


_of_settings = partial(
    _chat_rule,
    source="edge-agentic: compliance/checker.py, check_config_lock; README.md, Run Parameters",
    fix="Leave out --max-new-tokens.",
    shortens=True,
)


@_of_settings("performance")
def replay_settings(run: ChatFacts) -> Verdict:
    """Every turn is sent with temperature 0, seed 42 and at most 1,024 tokens, one at a time."""
    return _settings(run)


@_of_settings("accuracy")
def calling_settings(run: ChatFacts) -> Verdict:
    """Every question is sent with temperature 0, seed 42, at most 1,024 tokens, one at a time."""
    return _settings(run)


@_chat_rule(
    "performance",
    source="edge-agentic: online_edge_full_run.yaml, num_trajectories_to_issue",
    fix="Replay the whole published file: --dataset agentic_coding_2.5h.jsonl.",
    shortens=True,
)
def whole_sessions(run: ChatFacts) -> Verdict:
    """The replay has the 20 published conversations, with 1,007 turns to answer."""
    found = f"{run.conversations or 0} conversations, {run.expected:,} turns"
    ok = (run.conversations, run.expected) == (CONVERSATIONS, TURNS)
    return verdict(ok, found, f"{CONVERSATIONS} conversations, {TURNS:,} turns")


@_chat_rule(
    "performance",
    source="edge-agentic: compliance/checker.py, check_perf_validity",
    fix="Find why the first turn failed; give a slow server more time per turn.",
)
def every_turn(run: ChatFacts) -> Verdict:
    """Every turn of every conversation was sent and answered."""
    return _all_answered(run, "turns")


@_chat_rule(
    "accuracy",
    source="edge-agentic: BFCLv4Scorer; a missing answer is wrong",
    fix="Find why the first question failed, and repeat the run.",
)
def every_question(run: ChatFacts) -> Verdict:
    """Every question was sent and answered."""
    return _all_answered(run, "questions")


def _all_answered(run: ChatFacts, name: str) -> Verdict:
    ok = run.answered == run.asked == run.expected > 0
    found = f"{run.answered:,} of {run.expected:,} {name} answered"
    return verdict(ok, found, f"every one of {run.expected:,}", "" if ok else run.why_missing)


@_chat_rule(
    "accuracy",
    source="edge-agentic: min_sample_count_valid of ruleset edge-v0.1; README.md, Dataset",
    fix="Run all questions of BFCL v4, drawn as officially.",
    shortens=True,
)
def whole_questions(run: ChatFacts) -> Verdict:
    """The questions are the 995 single turns of BFCL v4."""
    wanted = run.benchmark.samples_of("accuracy")
    return verdict(run.expected == wanted, f"{run.expected:,} questions", f"{wanted:,} questions")


def _no_reasoning(run: ChatFacts) -> Verdict:
    if run.reasoned is None:
        return not_judged("answers that are not known", "no reasoning")
    return verdict(run.reasoned == 0, f"{run.reasoned:,} answers with reasoning", "no reasoning")


_of_reasoning = partial(
    _chat_rule,
    source="edge-agentic: README.md, Run Parameters and step 5 (--reasoning off)",
    fix="Start the server without reasoning: llama-server --reasoning off; for vLLM "
    "--default-chat-template-kwargs '{\"enable_thinking\": false}'.",
)


@_of_reasoning("performance")
def replay_no_reasoning(run: ChatFacts) -> Verdict:
    """No turn is answered with reasoning, which the benchmark disables."""
    return _no_reasoning(run)


@_of_reasoning("accuracy")
def calling_no_reasoning(run: ChatFacts) -> Verdict:
    """No question is answered with reasoning, which the benchmark disables."""
    return _no_reasoning(run)


@_chat_rule(
    "performance",
    source="edge-agentic: README.md, --ctx-size 32768",
    fix="Start the server with a context of 32,768 tokens.",
    shortens=True,
)
def context_length(run: ChatFacts) -> Verdict:
    """The server's context holds 32,768 tokens."""
    assert run.benchmark.workload is not None and run.benchmark.workload.context is not None
    required = f"at least {run.benchmark.workload.context:,} tokens"
    if run.context is None:
        return not_judged("a context that the server does not report", required)
    return verdict(run.context >= run.benchmark.workload.context, f"{run.context:,}", required)


def _counts(run: ChatFacts) -> Verdict:
    required = "the same counts"
    if run.miscounted is None:
        return not_judged("no counts", required, "the server reports no usage")
    if run.miscounted:
        return verdict(False, f"{len(run.miscounted)} answers: {run.miscounted[0]}", required)
    return verdict(True, f"{run.answered:,} answers counted alike", required)


_of_counts = partial(
    _chat_rule,
    official=False,
    source="the server's usage against the model's tokenizer through its chat template",
    fix="Serve the model's own chat template, or set --model to the served model.",
)


@_of_counts("performance")
def replay_counts(run: ChatFacts) -> Verdict:
    """The server and the tokenizer count the same tokens in each turn's prompt and answer."""
    return _counts(run)


@_of_counts("accuracy")
def calling_counts(run: ChatFacts) -> Verdict:
    """The server and the tokenizer count the same tokens in each question and answer."""
    return _counts(run)


@_chat_rule(
    "performance",
    source="edge-agentic: max_duration_ms_valid of ruleset edge-v0.1",
    fix="Use a faster system: the replay may take four hours.",
)
def most_duration(run: ChatFacts) -> Verdict:
    """The replay takes at most four hours."""
    required = f"at most {MAX_DURATION_S:,} s"
    if run.seconds is None:
        return not_judged("a duration that is not known", required)
    return verdict(0 < run.seconds <= MAX_DURATION_S, f"{run.seconds:,.1f} s", required)


@_chat_rule(
    "performance",
    official=False,
    source="docs/endpoints.md: answers that do not arrive as they are made",
    fix="Turn off buffering between the server and the client, and let its parser of tool calls "
    "stream.",
)
def replay_streamed(run: ChatFacts) -> Verdict:
    """The answers of turns arrive as they are made.

    Not judged where they do not, which a parser of tool calls may cause: TTFT and TPOT are then not
    the server's, and no limit is on them.
    """
    required = "less than 1% of the answers in one piece"
    if run.stream is None:
        return no_demand("no answers of a server were streamed")
    if why := held_back(run.stream):
        return not_judged(arrival_words(run.stream), required, why)
    return verdict(True, arrival_words(run.stream), required)


@_chat_rule(
    "performance",
    official=False,
    source="language/edge-agentic/README.md: performance and accuracy from one configuration",
    fix="Leave the engine's settings as the benchmark sets them.",
)
def chat_generation(run: ChatFacts) -> Verdict:
    """The engine answers with the benchmark's model, unchanged, and only the decoding that the
    round allows."""
    found = "; ".join(run.deviations) or "as the benchmark says"
    return verdict(not run.deviations, found, "as the benchmark says")


@_chat_rule(
    "performance",
    source="language/edge-agentic/README.md: one run of both parts, so that neither is made under "
    "other settings",
    fix="Run accuracy in the same session, and check which of its rules failed.",
)
def calling_passed(run: ChatFacts) -> Verdict:
    """Function calling of the same system passed; without it, performance does not count."""
    if run.accuracy_passed is None:
        return not_judged("no verdict on accuracy", "passed", "no accuracy run that was judged")
    words = "passed" if run.accuracy_passed else "not passed"
    return verdict(run.accuracy_passed, words, "passed")


@_chat_rule(
    "accuracy",
    source="edge-agentic: README.md, bfcl-eval's AST checker",
    fix="Install bfcl-eval with make bfcl.",
)
def calls_checked(run: ChatFacts) -> Verdict:
    """The calls are checked by bfcl-eval's own AST checker."""
    required = "bfcl-eval's AST checker"
    if run.bfcl is None or run.bfcl:
        return verdict(True, run.checker or required, required)
    return not_judged(run.checker, required, "make bfcl installs bfcl-eval")


def _gate(run: ChatFacts, name: str) -> Verdict:
    target = run.benchmark.reference.of(name)
    assert target is not None
    required = f"at least {target.low():.2f}%"
    score = None if run.scores is None else run.scores.get(name)
    if score is None:
        return verdict(False, "no figure", required)
    if run.ungated:
        return not_judged(f"{score:.2f}%", required, run.ungated)
    return verdict(score >= target.low(), f"{score:.2f}%", required)


_of_gates = partial(
    _chat_rule,
    "accuracy",
    source="edge-agentic: README.md, Accuracy gate: 0.97 of the reference; compliance/checker.py",
    fix="Check quantization, chat template and the server's parser of tool calls.",
)


@_of_gates()
def calling_overall(run: ChatFacts) -> Verdict:
    """The share of correct answers is at least 0.97 of the reference, 86.23%."""
    return _gate(run, "overall")


@_of_gates()
def calling_normalized(run: ChatFacts) -> Verdict:
    """The mean over non_live, live and hallucination is at least 0.97 of the reference, 87.96%."""
    return _gate(run, "normalized")
