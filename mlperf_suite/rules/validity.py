"""Rules of what makes a run a result: a valid verdict, whole logs, all samples, no change."""

from __future__ import annotations

import math

from mlperf_suite.benchmarks.definition import COUNTED_IN_A_SENTENCE
from mlperf_suite.benchmarks.rounds import round_of_seeds
from mlperf_suite.loadgen.load_plan import loadgen_mode
from mlperf_suite.loadgen.logs import ACCURACY
from mlperf_suite.rules.accuracy_files import (
    ACCURACY_TXT,
    MAX_ACCURACY_LOG_BYTES,
    parse_accuracy_txt,
)
from mlperf_suite.rules.facts import RunFacts, besides_length
from mlperf_suite.rules.registry import CLOSED, rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict

OUTSIDE = "NA"
"""What LoadGen logs in place of git's words if it was built outside of its repository, as pip does
where there is no wheel of it: on Linux for ARM."""


@rule(
    "performance",
    required="VALID",
    source="Inference rules, Benchmarks; result_validity in the detail log",
    fix="Follow LoadGen's advice in result_invalid_reason: a lower --server-target-qps, a "
    "higher --offline-target-qps, or a longer run.",
)
def result_valid(run: RunFacts) -> Verdict:
    """LoadGen's own verdict on the run is VALID.

    The official checker reads it and lets every other verdict pass.
    """
    validity = run.present("result_validity")
    advice = run.detail["result_invalid_reason"]
    return verdict(validity == "VALID", validity, why="" if advice is None else advice)


@rule(
    "performance",
    "accuracy",
    required="whole",
    source="submission checker, loadgen_parser.py: every line is an MLLOG entry",
    fix="Copy LoadGen's logs again without change; repeat the run if it was interrupted.",
)
def log_is_whole(run: RunFacts) -> Verdict:
    """LoadGen's logs of the run can be read from the first line to the last.

    A submission's accuracy log is cut in the middle, so there only its presence counts.
    """
    return whole_log_verdict(run)


def whole_log_verdict(run: RunFacts) -> Verdict:
    """Whether the detail log is whole, and of an accuracy run the accuracy log."""
    damage = list(run.detail.damage)
    if not run.has_its_end and not damage:
        damage.append("the last entries are missing")
    is_cut = run.submitted is not None and ACCURACY in run.logs.files
    if run.mode == "accuracy" and not is_cut:
        damage += run.logs.accuracy.damage
    return verdict(not damage, damage[0] if damage else "whole", "whole")


@rule(
    "performance",
    "accuracy",
    required="0 errors",
    source="submission checker, loadgen_errors_check",
    fix="Read the error in mlperf_log_detail.txt, remove its cause and repeat the run.",
)
def no_loadgen_errors(run: RunFacts) -> Verdict:
    """LoadGen logged no error in the run.

    The official checker looks only where it has to ignore some of them.
    """
    return error_verdict(run)


def error_verdict(run: RunFacts, allowed_text: str | None = None) -> Verdict:
    """Whether LoadGen logged no errors except those with the allowed text."""
    every_error = run.detail.errors
    errors = [text for text in every_error if allowed_text is None or allowed_text not in text]
    count = run.detail["num_errors"]
    # false is not a number, though Python takes it for 0.
    counted = not isinstance(count, bool) and count in (0, len(every_error))
    if not errors and count is not None and not counted:
        return verdict(False, f"num_errors {count}", "0 errors")
    return verdict(not errors, f"{len(errors)} errors", "0 errors", errors[0] if errors else "")


@rule(
    "performance",
    "accuracy",
    source="Inference rules, LoadGen Operation: accuracy and performance are modes of LoadGen",
    fix="Repeat the run in the mode and scenario that it is submitted as.",
)
def test_mode(run: RunFacts) -> Verdict:
    """The run was made in this scenario, in AccuracyOnly mode for accuracy and PerformanceOnly mode
    otherwise."""
    return mode_verdict(run)


def mode_verdict(run: RunFacts) -> Verdict:
    run.need_detail()
    values = [run.detail["effective_scenario"], run.detail["effective_test_mode"]]
    expectation = [run.scenario.loadgen_scenario, loadgen_mode(run.mode)]
    return verdict(values == expectation, " ".join(map(str, values)), " ".join(expectation))


@rule(
    "performance",
    source="submission checker, RESULT_FIELD_NEW and RESULT_FIELD_BENCHMARK_OVERWRITE",
    fix="Let the run complete, and the SUT report its tokens to LoadGen.",
)
def result_reported(run: RunFacts) -> Verdict:
    """The log contains the scenario's metric."""
    key, unit = run.scenario.metric, run.scenario.metric_unit
    required = f"more than 0 {unit}"
    figure = run.number(key, required)
    return verdict(figure > 0, f"{figure:,} {unit}", required)


@rule(
    "accuracy",
    source="Inference rules, Constraints for the Closed division: accuracy is tested over the "
    "whole data set",
    fix="Let the SUT answer every query of the accuracy run, and score every answer.",
)
def every_sample(run: RunFacts) -> Verdict:
    """Every sample that LoadGen issues in an accuracy run was answered, and accuracy.txt is of it.

    The QSL may have more of them: accuracy_sample_count_override, which mlperf.conf sets for
    gpt-oss-120b, has LoadGen take its first ones.
    A submission's log is cut, so there the number of answers that were scored counts. An
    accuracy.txt beside a whole log is of its answers: it has the log's hash, if any, and their mean
    length in tokens, if it says one, to 5%.
    """
    count = run.number(run.detail.accuracy_count_key, "every sample")
    required = f"{count:,} samples"
    if run.submitted is None:
        samples = run.logs.accuracy.indices
        whole = len(samples) == count and all(0 <= index < count for index in samples)
        fault = _scored_log(run) if whole else ""
        return verdict(whole and not fault, fault or f"{len(samples):,} samples", required)
    name = run.benchmark.counted_as
    scored = (run.scores or {}).get(name)
    if scored is None and run.scores and name == COUNTED_IN_A_SENTENCE:
        return not_judged("nothing", required, "accuracy.txt need not say how many were scored")
    if run.scores is None and run.no_score_reason:
        return not_judged("nothing", required, run.no_score_reason)
    if scored is None:
        return verdict(False, "nothing", required, f"accuracy.txt has no {name}")
    return verdict(scored == count, f"{scored:,.0f} samples", required)


def _scored_log(run: RunFacts) -> str:
    """How the log differs from the one that accuracy.txt beside it was made from; "" if not."""
    scored, own = run.hashes or ("", "")
    if scored != own:
        return f"hash={scored[:8]}… in {ACCURACY_TXT}, {own[:8]}… of the log"
    mean, tokens = (run.scores or {}).get("tokens_per_sample"), run.accuracy_tokens
    if mean is None or tokens is None or run.benchmark.answers_as_text:
        return ""
    words = f"tokens_per_sample {mean:,} in {ACCURACY_TXT}, {tokens.mean:,.1f} in the log"
    return "" if math.isclose(mean, tokens.mean, rel_tol=_TOKENS_APART) else words


_TOKENS_APART = 0.05
"""For how scorers count: with the end-of-text token or without, as text tokenized again."""


@rule(
    "accuracy",
    source="submission checker, dataset_check; MODEL_CONFIG's data set sizes",
    fix="Use the whole data set: --profile official, no --total-sample-count.",
    shortens=True,
)
def whole_dataset(run: RunFacts) -> Verdict:
    """The accuracy run uses the benchmark's whole data set."""
    size = run.benchmark.samples_of("accuracy")
    required = f"{size:,} samples"
    count = run.number(run.detail.accuracy_count_key, required)
    return verdict(count == size, f"{count:,} samples", required)


def _departs_in_length_alone(run: RunFacts) -> bool:
    """Whether only the answer length limit deviates from the benchmark: smoke does not excuse a
    cache, or a server that did not do as asked."""
    remote = run.in_session.remote
    by_server = remote is not None and remote.departures
    return not by_server and not besides_length(run.in_session.deviations)


@rule(
    "performance",
    "accuracy",
    required="as the benchmark specifies",
    source="the benchmark's reference implementation; Inference rules, LoadGen Operation "
    "(no caching of queries)",
    fix="Leave --max-new-tokens at its default, and turn prefix caching, and speculative decoding "
    "other than the round's, off in the engine or server.",
    session_only=True,
    shortens=_departs_in_length_alone,
)
def generation(run: RunFacts) -> Verdict:
    """Answers are generated as the benchmark says: by its model unchanged, no more tokens than its
    limit, no prefix cache, and speculative decoding only as the round allows it.

    Neither LoadGen's log nor the official checker knows. It is not judged if the engine does not
    say whether, or how, it decodes speculatively. What else the model may be, if its files or the
    server do not show it, stands beside the verdict.
    """
    session = run.in_session
    remote = session.remote
    deviations = (*session.deviations, *(remote.departures if remote else ()))
    if deviations:
        return verdict(False, ", ".join(deviations))
    if session.undisclosed:
        words = "as the benchmark specifies, as far as it is known"
        why = f"the engine does not say {', '.join(session.undisclosed)}"
        return not_judged(words, why="; ".join(filter(None, [why, session.possible_models])))
    return verdict(True, "as the benchmark specifies", why=session.possible_models)


@rule(
    "performance",
    source="Inference rules, LoadGen Operation: caching of queries is prohibited",
    fix="Turn prefix caching off in the engine or the server.",
    session_only=True,
)
def cached_prompt_tokens(run: RunFacts) -> Verdict:
    """The engine reports no cached prompt tokens in the performance run.

    MLPerf issues samples more than once, and each must be computed each time.
    """
    return cached_tokens_verdict(run.in_session.cached_tokens)


def cached_tokens_verdict(count: int | None) -> Verdict:
    """Whether no prompt token came from a cache. `count`: the engine's, None if it has none."""
    required = "0 prompt tokens from a cache"
    if count is None:
        why = "the engine does not say whether prompts were answered from a prefix cache"
        return not_judged("no count", required, why)
    return verdict(count == 0, f"{count:,} prompt tokens from a cache", required)


@rule(
    "performance",
    source="submission checker, seeds_check; mlperf.conf: qsl_rng_seed, sample_index_rng_seed, "
    "schedule_rng_seed",
    fix="Choose the round with --round; with a harness of your own, use that round's mlperf.conf.",
)
def seeds(run: RunFacts) -> Verdict:
    """The run's three random seeds are those of the round."""
    run.need_detail()
    values = {name: run.detail[f"effective_{name}"] for name in run.round.seeds}
    wrong = [
        name
        for name, seed in run.round.seeds.items()
        # A float may compare equal to a seed.
        if type(values[name]) is not int or values[name] != seed
    ]
    required = f"the seeds of {run.round.name}"
    if not wrong:
        return verdict(True, required, required)
    their_round = round_of_seeds(values)
    if their_round:
        return verdict(False, f"the seeds of {their_round.name}", required)
    return verdict(False, ", ".join(f"{name} {values[name]}" for name in wrong), required)


@rule(
    "performance",
    source="mlperf.conf: sample_concatenate_permutation",
    fix="Use the round's mlperf.conf, and do not override the key in user.conf.",
)
def equal_issue_mode(run: RunFacts) -> Verdict:
    """Every sample is issued equally often (sample_concatenate_permutation).

    The official checker tests this the wrong way round, and since v5.0 not at all; the rule is
    mlperf.conf's.
    """
    return _is_true(run, "effective_sample_concatenate_permutation")


@rule(
    "performance",
    source="submission checker, llm_check; mlperf.conf: use_token_latencies",
    fix="Use the round's mlperf.conf, under the name of the benchmark's model.",
)
def token_latencies(run: RunFacts) -> Verdict:
    """LoadGen counts tokens if mlperf.conf sets use_token_latencies for the benchmark."""
    key = "requested_use_token_latencies"
    if run.scenario.counts_tokens:
        return _is_true(run, key)
    value = run.detail[key]
    return verdict(not value, "no entry" if value is None else value, "no entry, or false")


def _is_true(run: RunFacts, key: str) -> Verdict:
    value = run.present(key, "true")
    return verdict(value is True, value, "true")


@rule(
    "accuracy",
    required="a line hash=<64 hex digits>",
    source="submission checker, accuracy_result_check; truncate_accuracy_log.py",
    fix="Cut the accuracy log with truncate_accuracy_log.py, which writes the hash.",
    divisions=CLOSED,
    submitted_only=True,
)
def hash(run: RunFacts) -> Verdict:
    """accuracy.txt ends with the SHA-256 of the whole accuracy log, before it was cut."""
    text = run.submitted.accuracy_txt if run.submitted else None
    if text is None:
        return not_judged("no hash", why=f"no accuracy/{ACCURACY_TXT}")
    digest = parse_accuracy_txt(text).hash
    return verdict(digest is not None, f"hash={digest}" if digest else "no such line")


@rule(
    "accuracy",
    required=f"at most {MAX_ACCURACY_LOG_BYTES:,} bytes",
    source="submission checker, accuracy_json_check: MAX_ACCURACY_LOG_SIZE",
    fix="Cut the accuracy log with truncate_accuracy_log.py before submitting.",
    submitted_only=True,
)
def log_is_cut(run: RunFacts) -> Verdict:
    """The submission has the accuracy log, cut to its first and last entries."""
    size = run.logs.files.get(ACCURACY)
    if size is None:
        return verdict(False, f"no {ACCURACY}")
    return verdict(0 < size <= MAX_ACCURACY_LOG_BYTES, f"{size:,} bytes")


@rule(
    "performance",
    "accuracy",
    required="no local change",
    source="Inference rules, LoadGen Operation: LoadGen is compiled from a tagged revision",
    fix="Install the released mlcommons_loadgen, or build it from a clean checkout.",
)
def loadgen_unmodified(run: RunFacts) -> Verdict:
    """The run's LoadGen was built from a release, without local changes.

    Outside of its repository git says nothing; `loadgen_files` compares the files in any case.
    """
    status = run.present("loadgen_git_status_message")
    if status == OUTSIDE == run.detail["loadgen_git_log_message"]:
        return verdict(
            True, "built outside of its repository", why="loadgen_files compares its files"
        )
    return verdict(status == "", status or "no local change")


@rule(
    "performance",
    required="accuracy passed",
    source="Inference rules, Constraints for the Closed division: a result reaches the quality "
    "target",
    fix="Make the accuracy run of the same system, and first fix what fails there.",
    divisions=CLOSED,
)
def accuracy_passed(run: RunFacts) -> Verdict:
    """The accuracy run of the same system passed; without it, performance does not count."""
    if run.accuracy_passed is None:
        why = run.accuracy_note or "no accuracy run was judged"
        return not_judged("no accuracy run", why=why)
    outcome = "accuracy passed" if run.accuracy_passed else "accuracy failed"
    return verdict(run.accuracy_passed, f"{outcome} {run.accuracy_note}".rstrip())
