"""Rules of an accuracy run: of the two ends of a submission's log, and one for each metric's score.

The rules of the scores are generated from the benchmarks: a new scorer needs no change here.
"""

from __future__ import annotations

import math
import re
from array import array
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.definition import LOADGEN, ExpectedScore
from mlperf_suite.loadgen.load_plan import AUDIT_MODES
from mlperf_suite.loadgen.logs import LoggedAnswers, LoggedSample
from mlperf_suite.rules.accuracy_files import (
    ACCURACY_TXT,
    CutEntry,
    CutLog,
    answers_in,
    parse_accuracy_txt,
    parse_cut_log,
)
from mlperf_suite.rules.facts import RunFacts, SubmittedTexts
from mlperf_suite.rules.registry import CLOSED, rule
from mlperf_suite.rules.verdict import Verdict, VerdictError, failure, not_judged, verdict

_HEX_OF_A_TOKEN = (8, 16)
"""Answers are int32, or int64 for one submitter in v5.1."""


@rule(
    "accuracy",
    required="LoadGen's entries at both ends",
    official=False,
    source="truncate_accuracy_log.py keeps 4,096 bytes of each end",
    fix="Cut LoadGen's own accuracy log with truncate_accuracy_log.py, once.",
    submitted_only=True,
)
def log_ends(run: RunFacts) -> Verdict:
    """The cut accuracy log begins and ends with LoadGen's entries, each for a different sample.

    The hash in accuracy.txt, which is of the log before it was cut, is not that of the cut one or
    of nothing. The official checker looks at size and form alone.
    """
    cut = _cut_log(run)
    # A log without the number of samples fails the rule on every sample.
    total = run.detail.number("qsl_reported_total_count") or math.inf
    problem = (
        ("its beginning is not an entry" if not cut.begins else "")
        or ("its end is not an entry" if not cut.ends else "")
        or (
            f"{len(cut.places)} entries, not cut"
            if cut.whole and len(cut.places) < total < math.inf
            else ""
        )
        or (
            f"{len(cut.places) - len(cut.entries)} entries are not LoadGen's"
            # The end of the first part may cut one off.
            if len(cut.places) - len(cut.entries) > (0 if cut.whole else 1)
            else ""
        )
        or _twice("place", (place for place, _ in cut.places))
        or _twice("sample", (index for _, index in cut.places))
        or next((f"number {n:,} of {total:,}" for at in cut.places for n in at if n >= total), "")
        or _wrong_hash(run, cut)
    )
    return verdict(not problem, problem or f"{len(cut.places)} entries")


@rule(
    "accuracy",
    required="the reported tokens in each answer",
    official=False,
    source="LoadGen's logging.cc: data, token_data and token_count of an answer",
    fix="Report to LoadGen the tokens and the token count of the answer itself.",
    submitted_only=True,
)
def log_tokens(run: RunFacts) -> Verdict:
    """Each answer at the ends of the cut accuracy log has the reported tokens.

    As many as were counted, and the first of them where the scenario reports those. An end that is
    within one long answer has none to judge. In the closed division one answer at least is as long
    as a quarter of the reference's mean, or of what an end has room for (public ones: 91%).
    """
    cut = _cut_log(run)
    least, longest = _SHARE * min(_mean_tokens(run), _MAX_TOKENS_IN_AN_END), cut.longest / 8
    if cut.begins and cut.ends and not cut.whole and longest < least:
        raise failure(f"no answer above {longest:,.0f} tokens", f"one of {least:,.0f} or more")
    wrong = [entry.index for entry in cut.entries if not _as_reported(entry, run)]
    right = f"{len(cut.entries) - len(wrong)} of {len(cut.entries)} answers"
    return verdict(not wrong, right, why=f"not sample {wrong[0]}" if wrong else "")


def _mean_tokens(run: RunFacts) -> float:
    """The least that an answer has on average, in tokens; 0 if nothing is known of it."""
    reference = run.benchmark.reference
    if run.division == "open":
        return 0.0
    if tokens := reference.of("tokens_per_sample"):
        return tokens.value
    characters = reference.of("gen_len")
    return characters.value / reference.answers / _MAX_TOKEN_LENGTH if characters else 0.0


_SHARE, _MAX_TOKENS_IN_AN_END = 0.25, 500
"""An end of 4,096 bytes has room for 500 tokens of 8 hex digits."""
_MAX_TOKEN_LENGTH = 20
"""More than the mean token of any answers has."""
_OF_NOTHING = sha256(b"").hexdigest()


def _wrong_hash(run: RunFacts, cut: CutLog) -> str:
    texts = run.submitted or SubmittedTexts()
    digest = parse_accuracy_txt(texts.accuracy_txt or "").hash or ""
    if digest == _OF_NOTHING or len(set(digest)) == 1:
        return f"hash={digest[:8]}… in {ACCURACY_TXT} is of no log"
    of_cut = sha256((texts.accuracy_log or "").encode()).hexdigest()
    return f"the hash in {ACCURACY_TXT} is of the cut log" * (digest == of_cut and not cut.whole)


_LENGTHS = ("gen_len", "gen_num", "gen_tok_len", "tokens_per_sample")
_MAX_ROUGE = 90.0
"""In 906 public results the most is 47.7; of prepared answers 77.7."""
_UNREAD = (
    (re.compile(r"\bFAILED\b"), "it says FAILED"),
    (re.compile(r": +np\.float"), "the official checker reads no np.float64(…)"),
)
_ROUNDED = 0.051
"""tokens_per_sample has one decimal, at most 0.05 off in 259 public results."""


@rule(
    "accuracy",
    required="figures that one set of answers can have",
    official=False,
    source="the definition of ROUGE; evaluate-accuracy.py of the benchmarks: tokens_per_sample",
    fix="Submit accuracy.txt as the official script wrote it.",
    submitted_only=True,
)
def score_figures(run: RunFacts) -> Verdict:
    """The figures of accuracy.txt agree: no longest sequence or pair exceeds the single words.

    tokens_per_sample is the mean of gen_tok_len, whose tokens have 1 to 20 characters on average.
    Each figure of answers is one number, in the form that the official
    checker reads, no ROUGE is above 90, and no line says FAILED.
    """
    scores = run.scores or {}
    text = (run.submitted.accuracy_txt if run.submitted else None) or ""
    # A figure with a rule of its own fails there.
    judged = {*run.benchmark.metrics, run.benchmark.counted_as}
    unclear = parse_accuracy_txt(text).unclear & {*_LENGTHS, *METRICS} - judged
    faults = [f"{name} is not one number" for name in sorted(unclear)]
    faults += [words for expression, words in _UNREAD if expression.search(text)]
    faults += [
        f"{name} {value:,}"
        for name, value in scores.items()
        if name.startswith("rouge") and value > _MAX_ROUGE
    ]
    for part in ("rougeL", "rougeLsum", "rouge2"):
        if scores.get(part, 0.0) > scores.get("rouge1", math.inf):
            faults.append(f"{part} {scores[part]:,} above rouge1 {scores['rouge1']:,}")
    tokens, answers_scored = scores.get("gen_tok_len"), scores.get("gen_num")
    if tokens and answers_scored:
        mean = tokens / answers_scored
        if abs(scores.get("tokens_per_sample", mean) - mean) > _ROUNDED:
            faults.append(f"tokens_per_sample {scores['tokens_per_sample']:,}, not {mean:,.1f}")
        if not tokens <= scores.get("gen_len", tokens) <= _MAX_TOKEN_LENGTH * tokens:
            faults.append(f"gen_len {scores['gen_len']:,.0f} of {tokens:,.0f} tokens")
    return verdict(not faults, "; ".join(faults) or f"{len(scores)} figures")


_MOST_TOKENS = 2**31
_ALIKE, _MIN_REPEATS = 32, 3
"""Answers are compared by so many tokens, if there are so many answers. In 398 public results at
most 3 of 100 answers of an audit begin alike, and of a cut log none that are as long."""


@rule(
    "accuracy",
    *AUDIT_MODES,
    required="tokens of the model's vocabulary, for each sample its own",
    official=False,
    source="LoadGen's logging.cc: data of an answer; vocab_size in the model's config.json",
    fix="Report to LoadGen the tokens that the model generated for each sample.",
)
def answers(run: RunFacts) -> Verdict:
    """Each logged answer has tokens of the model's vocabulary, or is text where the reference
    passes text, and the answers are not all the same.

    Of a submission's cut log, the answers at its two ends.
    """
    samples = run.logs.accuracy.samples
    if run.submitted is not None and run.mode == "accuracy":
        samples = answers_in(run.submitted.accuracy_log or "")
    if not samples:
        return not_judged("no answer", why="the log has no answer that can be read")
    benchmark = run.benchmark
    faults: Iterable[str] = ()
    most = run.vocabulary or _MOST_TOKENS
    # Of millions of answers, each takes long.
    if not (isinstance(samples, LoggedAnswers) and samples.are_within(most)):
        faults = (
            _foreign_token(s, run.vocabulary)
            for s in samples
            if not (benchmark.answers_as_text and _is_text(s.token_ids, benchmark.letters))
        )
    # An audit of one or two samples issues each many times.
    few = run.detail["qsl_reported_total_count"] in range(1, _MIN_REPEATS)
    fault = next(filter(None, faults), "") or ("" if few else _one_for_all(samples))
    return verdict(not fault, fault or f"{len(samples):,} answers")


def _is_text(token_ids: Sequence[int], letters: int) -> bool:
    """Whether an answer's bytes are UTF-8, whose last character may be cut, or numbers of letters.

    In tokens, the highest byte of each is 0, which no text has. Numbers of letters are int8 to
    int64 (--output_dtype of whisper's accuracy_eval.py), whose bytes are all small.
    """
    try:
        raw = array("i", token_ids).tobytes()
        if raw and max(raw) < letters:
            return True
        text = getincrementaldecoder("utf-8")().decode(raw)
    except (UnicodeDecodeError, OverflowError):
        return False
    return bool(text) and "\0" not in text


def _foreign_token(sample: LoggedSample, vocabulary: int | None) -> str:
    ids = sample.token_ids
    if not ids:
        return f"sample {sample.index}: no token"
    least, most = min(ids), max(ids)
    if least >= 0 and most < (vocabulary or math.inf):
        return ""
    of = f" of a vocabulary of {vocabulary:,}" if vocabulary else ""
    return f"sample {sample.index}: token {least if least < 0 else most}{of}"


def _one_for_all(samples: Sequence[LoggedSample]) -> str:
    commonest, lead = None, 0
    # Of any majority, this finds the beginning (Boyer and Moore), without a count of each.
    for beginning in _beginnings(samples):
        if lead == 0:
            commonest = beginning
        lead += 1 if beginning == commonest else -1
    if lead == 0:
        return ""
    most = sum(beginning == commonest for beginning in _beginnings(samples))
    alike = most >= _MIN_REPEATS and 2 * most > len(samples)
    return f"{most:,} of {len(samples):,} answers have the same first {_ALIKE} tokens" * alike


def _beginnings(samples: Sequence[LoggedSample]) -> Iterable[object]:
    if isinstance(samples, LoggedAnswers):
        return samples.beginnings(_ALIKE)
    return [tuple(sample.token_ids[:_ALIKE]) for sample in samples]


def _cut_log(run: RunFacts) -> CutLog:
    text = run.submitted.accuracy_log if run.submitted else None
    if text is None:
        raise VerdictError(not_judged("no cut accuracy log", why="the rule on its size fails it"))
    return parse_cut_log(text)


def _twice(kind: str, numbers: Iterable[int]) -> str:
    counts = Counter(numbers).items()
    return next((f"{kind} {n:,} {count} times" for n, count in counts if count > 1), "")


def _as_reported(entry: CutEntry, run: RunFacts) -> bool:
    right_length = (
        entry.tokens is None
        or run.benchmark.answers_as_text
        or any(len(entry.answer) == entry.tokens * digits for digits in _HEX_OF_A_TOKEN)
    )
    if not run.scenario.streams:
        return right_length and entry.first is None
    return right_length and bool(entry.first) and entry.answer.startswith(entry.first or "")


def gate_name(metric: str) -> str:
    """The name of a metric's rule: accuracy_rougel for rougeL."""
    return f"accuracy_{metric.lower()}"


def _gate_of(metric: str) -> Callable[[RunFacts], Verdict]:
    def check(run: RunFacts) -> Verdict:
        score = (run.scores or {}).get(metric)
        # What lies beside the log excuses no figure that is there.
        if score is None and metric in run.figures_not_judged:
            return not_judged("no figure", metric, run.figures_not_judged[metric])
        if run.scores is None and run.no_score_reason:
            return not_judged("no figure", metric, run.no_score_reason)
        if run.scores is None:
            return verdict(False, "no figure", metric, "nothing was scored")
        gate = run.reference.of(metric) if run.reference else None
        if gate is None:
            why = run.no_reference_reason or f"no reference accuracy is known for {metric}"
            figure = "no figure" if score is None else f"{score:,.10g}"
            return not_judged(figure, "a share of the reference", why)
        if score is None:
            return verdict(False, "no figure", metric, f"{metric} is not among the scores")
        return run.unless_unreferenced(_judge_score(score, gate, strict=run.high_accuracy))

    check.__name__ = metric.lower()
    check.__doc__ = (
        f"{metric} reaches its share of the reference, and does not exceed its upper limit."
    )
    return check


def _judge_score(score: float, gate: ExpectedScore, *, strict: bool) -> Verdict:
    low, unit = gate.low(strict=strict), gate.unit
    if unit == "%":
        share = gate.strict_share if strict else gate.share
        return verdict(
            low <= score <= (100 if gate.high is None else gate.high),
            f"{score:.4f}",
            f"at least {low:.4f}",
            f"{share * 100:g}% of the reference {gate.value:.4f}",
        )
    digits = ",.0f" if float(gate.value).is_integer() else ",.2f"
    if gate.high is None:
        return verdict(score >= low, f"{score:{digits}} {unit}", f"at least {low:{digits}} {unit}")
    required = f"{low:{digits}} to {gate.high:{digits}} {unit}"
    return verdict(low <= score <= gate.high, f"{score:{digits}} {unit}", required)


METRICS: tuple[str, ...] = tuple(
    dict.fromkeys(name for b in BENCHMARKS.values() if b.run_kind == LOADGEN for name in b.metrics)
)
"""Every metric that a benchmark of LoadGen's is judged by."""
GATES: Mapping[str, Callable[[RunFacts], Verdict]] = {
    metric: rule(
        "accuracy",
        source="submission checker, accuracy_result_check; accuracy-target and "
        "accuracy-upper-limit in MODEL_CONFIG",
        fix="Check precision, chat template and generation settings against the reference.",
        divisions=CLOSED,
        metric=metric,
    )(_gate_of(metric))
    for metric in METRICS
}
"""The check of each metric."""
