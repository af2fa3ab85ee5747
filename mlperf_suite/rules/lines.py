"""Rules of a log's lines: all that LoadGen writes, and settings that follow from the requested
ones."""

from __future__ import annotations

from mlperf_suite.loadgen.effective_settings import unfollowed_setting
from mlperf_suite.loadgen.releases import is_known, out_of_place
from mlperf_suite.rules.facts import RunFacts
from mlperf_suite.rules.registry import rule
from mlperf_suite.rules.verdict import Verdict, not_judged, verdict


@rule(
    "performance",
    "accuracy",
    demand="every line that LoadGen writes, in its order",
    official=False,
    source="LoadGen's loadgen.cc, test_settings_internal.cc and results.cc",
    fix="Submit the log exactly as LoadGen wrote it; if it is, repeat the run.",
    whole_log=True,
)
def log_lines(run: RunFacts) -> Verdict:
    """The run's log has each line that LoadGen writes of such a run, in its order."""
    version = run.detail["loadgen_version"]
    if not isinstance(version, str):
        return verdict(False, f"loadgen_version {version}")
    if not is_known(version):
        return not_judged(f"LoadGen {version}", why="the lines of this LoadGen are not known")
    keys = [entry.key for entry in run.detail.entries]
    errors = [key for key in keys if key.startswith("error")]
    if len(errors) > len(run.detail.errors):
        return verdict(False, f"{errors[0]} that is marked as none")
    problem = out_of_place(
        keys,
        run.scenario.loadgen_scenario,
        version,
        accuracy=run.is_accuracy,
        valid=run.detail["result_validity"] == "VALID",
    )
    return verdict(not problem, problem or f"{len(keys)} lines")


_EFFECTIVE = "the settings that follow from those requested"


@rule(
    "performance",
    "accuracy",
    demand=_EFFECTIVE,
    official=False,
    source="LoadGen's test_settings_internal.cc",
    fix="Submit the log exactly as LoadGen wrote it; if it is, repeat the run.",
    whole_log=True,
)
def settings_took(run: RunFacts) -> Verdict:
    """The run's effective settings are those that follow from what was requested."""
    problem = unfollowed_setting(run.detail.values)
    return verdict(not problem, problem or _EFFECTIVE)


_PLAIN = "no sample repeated or chosen, no answer logged"


@rule(
    "performance",
    "accuracy",
    demand=_PLAIN,
    official=False,
    source="LoadGen's test_settings_internal.cc; the audits' audit.config",
    fix="Remove a leftover audit.config from LoadGen's folder, and repeat the run.",
    whole_log=True,
)
def samples_drawn(run: RunFacts) -> Verdict:
    """Samples are issued as in every such run: not one over and over, none for an audit."""
    for key in ("effective_performance_issue_same", "effective_performance_issue_unique"):
        if run.flag(key):
            return verdict(False, f"{key} true")
    for key in ("effective_accuracy_log_probability", "effective_accuracy_log_sampling_target"):
        if number := run.amount(key):
            return verdict(False, f"{key} {number}")
    return verdict(True, _PLAIN)
