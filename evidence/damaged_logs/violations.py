"""What a damage to a submission tree violates, worked out without the suite's own readers.

The file as it was is compared with the file as it is: for each value that is another, each line
that is gone or elsewhere, tables say which rules must not pass, or why the damage is harmless.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from evidence.damaged_logs.random_damages import Damage, Tree
from evidence.log_edits import PREFIX
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY

DATE_FORMAT, ZONE_S, MAX_LOG_DELAY_S = "%Y-%m-%dT%H:%M:%SZ", 900, 5.0
"""How a log's dates are written, by how much time zones differ, and how late a log may begin."""
Values = Mapping[str, Any]
Rules = frozenset[str]
Entries = list[dict[str, Any]]
"""What the lines of a detail log say."""


@dataclass(frozen=True)
class Demand:
    """Rules of which at least one must not pass; none where the change is harmless, with why."""

    rules: Rules = frozenset()
    harmless: str = ""


@dataclass(frozen=True)
class Value:
    """A value of a detail log before and after; `log` has all values before, by their keys."""

    key: str
    old: Any
    new: Any
    log: Values

    @property
    def number(self) -> float | None:
        """The new value, where it is a number that a log may have."""
        new = self.new
        if isinstance(new, bool) or not isinstance(new, int | float):
            return None
        return new if abs(new) < 2**64 else None


def seen(*rules: str) -> list[Demand]:
    return [Demand(frozenset(rules))]


def unseen(why: str) -> list[Demand]:
    return [Demand(harmless=why)]


Judge = Callable[[Value], Demand]
FileJudge = Callable[[Path, bytes, bytes], list[Demand]]
"""Compares a file as it was with the file as it is."""


def must(*rules: str) -> Judge:
    """Whatever else stands there, one of the rules sees it."""
    return lambda value: Demand(frozenset(rules))


def harmless(why: str) -> Judge:
    return lambda value: Demand(harmless=why)


def unless(holds: Callable[[Value], bool], why: str, *rules: str) -> Judge:
    """One of the rules sees it, but where that holds."""
    return lambda value: Demand(harmless=why) if holds(value) else Demand(frozenset(rules))


# Which rules decide by a key of a detail log

_PLACES = ("min", "50.00", "90.00", "95.00", "97.00", "99.00", "99.90", "max")


def _latency(place: str) -> str:
    share = "_percentile" if place[0].isdigit() else ""
    return f"result_{place}{share}_latency_ns"


def _ttft(place: str) -> str:
    share = "_percentile" if place[0].isdigit() else ""
    return f"result_first_token_{place}{share}_latency_ns"


def _tpot(place: str) -> str:
    if place[0].isdigit():
        return f"result_time_per_output_token_{place}_percentile_ns"
    return f"result_time_to_output_token_{place}"


def _in_place(key: Callable[[str], str]) -> Callable[[Value], bool]:
    """Whether a latency is still a number between its neighbours, a mean between the extremes."""

    def holds(value: Value) -> bool:
        number, names = value.number, [key(place) for place in _PLACES]
        if number is None:
            return False
        at = names.index(value.key) if value.key in names else None
        if at is None:
            low, high = value.log[names[0]], value.log[names[-1]]
        else:
            low = value.log[names[at - 1]] if at else 0
            high = value.log[names[at + 1]] if at + 1 < len(names) else math.inf
        return bool(low <= number <= high)

    return holds


def _tighter(value: Value) -> bool:
    """Whether a limit is one that the run would have kept as well."""
    name = "first_token_{}_latency_ns" if "ttft" in value.key else "time_per_output_token_{}_ns"
    p99 = value.log["result_" + name.format("99.00_percentile")]
    return value.number is not None and p99 <= value.number <= value.old


def _own_count(value: Value) -> bool:
    """Whether it stands for the number of samples that the QSL has, as it did."""
    return value.number == 0 and value.log["qsl_reported_performance_count"] == value.old


def _same_version(value: Value) -> bool:
    new = value.new
    return isinstance(new, str) and new.partition(" @ ")[0] == value.old.partition(" @ ")[0]


def _same_sources(value: Value) -> bool:
    """Whether the hashes of the files that LoadGen is compiled from are there as they were."""
    if not isinstance(value.new, dict):
        return False
    sources = {
        name
        for name in (*value.old, *value.new)
        if name.endswith((".cc", ".h")) and "mlperf_conf.h" not in name
    }
    return all(value.old.get(name) == value.new.get(name) for name in sources)


def _same_but_for_zone(value: Value) -> bool:
    """Whether a date is as late as it was but for time zones and the seconds of tolerance."""
    try:
        old, new = (datetime.strptime(date, DATE_FORMAT) for date in (value.old, value.new))
    except (TypeError, ValueError):
        return False
    return ((old - new).total_seconds() + 1) % ZONE_S <= MAX_LOG_DELAY_S + 2


def _as_printed(value: Value) -> bool:
    """Whether a figure is the same but for its last digit."""
    return value.number is not None and abs(value.number - value.old) <= 2e-5 * abs(value.old)


def _may_be_issued(value: Value) -> bool:
    """Whether the last query is still issued between its due time and its answer."""
    names = ("scheduled_samples_per_sec", "completed_samples_per_sec")
    scheduled, completed = (value.log.get(f"result_{name}") for name in names)
    if not value.number or scheduled is None or completed is None:
        return _as_printed(value)
    # All tokens, by the rate until the last answer, over the same number of gaps.
    issued_over_done = value.log["result_completed_tokens_per_second"] / value.number
    return bool(completed / scheduled * (1 - 1e-4) <= issued_over_done <= 1 + 1e-4)


_FIGURES = (
    "percentile_order",
    "mean_in_percentiles",
    "token_times",
    "query_rate",
    "token_rate",
    "ttft_limit",
    "tpot_limit",
    "summary_agrees",
)
_RATES = ("query_rate", "token_rate", "scheduled_rate", "tokens_as_in_accuracy", "summary_agrees")
_BETWEEN = "a latency between its neighbours: the log has no latencies of single answers"
_CHOICE = "a setting that the submitter chooses"
_WORDS = "LoadGen's messages for people"
_COUNTER = "a counter of LoadGen's internal work"
_COMMIT = "the commit in LoadGen's version: the hashes of its files decide"
_NO_SOURCE = "the hash of a file that LoadGen is not compiled from"
_BUILD = "when LoadGen was built"
_ZONE = "the same time in another time zone, within seconds"
_AUDIT = "an audit run's speed is not compared"
_WHEN_ISSUED = "the last query may have been issued then, according to the log"
_PRINTED = "the last digit of a figure, which LoadGen rounds"
_MODES = {"P": "performance", "A": "accuracy", "T": "test06"}
_KEYS: tuple[tuple[str, str, Judge], ...] = (
    ("PA", r"loadgen_version", unless(_same_version, _COMMIT, "loadgen_files", "log_lines")),
    ("PA", r"loadgen_file_sha1", unless(_same_sources, _NO_SOURCE, "loadgen_files")),
    ("PA", r"loadgen_git_status_message", must("loadgen_unmodified")),
    ("PAT", r"loadgen_git_log_message|get_sut_name_duration_ns", harmless(_WORDS)),
    ("PAT", r"loadgen_(build_date_local|build_date_utc|git_commit_date)", harmless(_BUILD)),
    ("PA", r"test_datetime", unless(_same_but_for_zone, _ZONE, "clock_dates")),
    ("PA", r"power_begin|power_end", must("clock_dates", "time_span", "query_rate")),
    ("PA", r"(sut|qsl)_name", must("same_system")),
    ("PAT", r"qsl_reported_total_count", must("same_system", "loaded_samples", "log_agrees")),
    ("PAT", r"qsl_reported_performance_count", harmless("overridden by the setting")),
    ("P", r"requested_use_token_latencies", must("token_latencies")),
    (
        "P",
        r"requested_server_t[tp][fo]t_latency",
        unless(_tighter, "a tighter limit", "latency_targets", "validity_agrees"),
    ),
    ("PAT", r"requested_server_(coalesce|find_peak|num_issue)\w+", harmless(_CHOICE)),
    ("AT", r"requested_(use_token_latencies|server_t\w+_latency)", harmless(_CHOICE)),
    (
        "PAT",
        r"requested_performance_sample_count_override",
        unless(_own_count, "0 means the same number", "settings_took", "log_agrees"),
    ),
    ("PA", r"(requested|effective)_\w+", must("settings_took", "seeds", "samples_drawn")),
    ("T", r"(requested|effective)_\w+", must("log_agrees", "settings", "test_mode")),
    ("PA", r"loaded_qsl_set", must("loaded_samples")),
    ("PA", r"generated_\w+", must("generated_queries")),
    ("PAT", r"logger_\w+", harmless(_COUNTER)),
    ("P", r"result_validity", must("result_valid")),
    ("P", r"result_\w+_met|early_stopping_met", must("validity_agrees", "early_stopping")),
    ("P", r"early_stopping_t\w+_result", must("validity_agrees", "summary_agrees")),
    ("P", r"result_query_count", must("queries_issued")),
    ("P", r"result_overlatency_query_count", must("validity_agrees")),
    (
        "P",
        r"result_token_throughput_with_loadgen_overhead",
        unless(_may_be_issued, _WHEN_ISSUED, "issued_token_rate", "token_rate"),
    ),
    (
        "P",
        r"result_\w+_per_sec(ond)?|result_token_throughput",
        unless(_as_printed, _PRINTED, *_RATES),
    ),
    ("P", r"result_first_token_\S+", unless(_in_place(_ttft), _BETWEEN, *_FIGURES)),
    ("P", r"result_time_\S+", unless(_in_place(_tpot), _BETWEEN, *_FIGURES)),
    ("P", r"result_\S+_latency_ns", unless(_in_place(_latency), _BETWEEN, *_FIGURES)),
    ("P", r"num_errors", must("no_loadgen_errors", "log_is_whole")),
    ("T", r"\w+", harmless(_AUDIT)),
)
_ALIKE = {"T": {"log_lines": "test06_log_agrees", "log_agrees": "test06_log_agrees"}}


def _in_mode(rules: Rules, mode: str) -> Rules:
    """The rules by their names in a mode: accuracy_seeds is that of an accuracy run."""
    prefix = {"P": "", "A": "accuracy_", "T": "test06_"}[mode]
    names = rules | {f"{prefix}{name}" for name in rules}
    return frozenset(names | {_ALIKE.get(mode, {}).get(name, name) for name in rules})


# Detail logs


def mode_of(file: Path) -> str:
    if "TEST06" in file.parts:
        return "T"
    return "A" if "accuracy" in file.parts else "P"


def _entries(lines: list[str]) -> Iterator[tuple[str, dict[str, Any] | None]]:
    """Each line that is not empty, and what it says where it is an entry of LoadGen."""
    for line in lines:
        if line.strip():
            yield line, _entry(line)


def _entry(line: str) -> dict[str, Any] | None:
    try:
        entry = json.loads(line.removeprefix(PREFIX)) if line.startswith(PREFIX) else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not isinstance(entry.get("metadata"), dict):
        return None
    if not isinstance(entry["metadata"].get("is_error"), bool):
        return None
    return entry if isinstance(entry.get("key"), str) else None


def _is_message(key: str) -> bool:
    return key.endswith("generic_message")


def _detail(file: Path, before: bytes, after: bytes) -> list[Demand]:
    mode = mode_of(file)
    name = _MODES[mode]
    whole = frozenset({"log_is_whole" if mode == "P" else f"{name}_log_is_whole"})
    try:
        text = after.decode("utf-8")
    except UnicodeDecodeError:
        return [Demand(whole)]
    old_lines = before.decode().split("\n")
    old, new = list(_entries(old_lines)), list(_entries(text.split("\n")))
    if any(entry is None for _, entry in new):
        return [Demand(whole)]
    old_entries = [entry for _, entry in old if entry is not None]
    new_entries = [entry for _, entry in new if entry is not None]
    log = {entry["key"]: entry["value"] for entry in old_entries}
    demands = _lines(old_entries, new_entries, log, mode, whole)
    if any(required.rules for required in demands):
        # Rules that compare a log with itself do not judge one that is not whole.
        return demands
    by_key = {entry["key"]: entry for entry in new_entries}
    for entry in old_entries:
        key = entry["key"]
        if key in by_key and by_key[key] != entry and not _is_message(key):
            demands += _changed(entry, by_key[key], log, mode)
    demands += _stamps(old_entries, new_entries, mode)
    if sum(bool(required.rules) for required in demands) > _OF_ANOTHER_RUN:
        rules = frozenset[str]().union(*(required.rules for required in demands))
        return [Demand(rules | _in_mode(frozenset({"test_mode"}), mode))]
    return demands


_OF_ANOTHER_RUN = 2
"""With more values than this changed a log is of another run, which is seen as one thing."""


def _lines(
    old_entries: Entries, new_entries: Entries, log: Values, mode: str, whole: Rules
) -> list[Demand]:
    """Of lines that are lost, stand elsewhere or twice."""
    old_keys = [entry["key"] for entry in old_entries]
    new_keys = [entry["key"] for entry in new_entries]
    old = [key for key in old_keys if not _is_message(key)]
    new = [key for key in new_keys if key in log and not _is_message(key)]
    demands = []
    if old != new:
        # An audit's log of another run has other settings before all else.
        settings = frozenset({"test06_settings"} if mode == "T" else ())
        demands.append(Demand(_in_mode(frozenset({"log_lines"}), mode) | whole | settings))
    elif new_keys != old_keys:
        demands.append(Demand(harmless="a message, which may be anywhere"))
    if any(entry["metadata"]["is_error"] for entry in new_entries):
        demands.append(Demand(_in_mode(frozenset({"no_loadgen_errors"}), mode)))
    return demands


def _changed(
    entry: dict[str, Any], new_entry: dict[str, Any], log: Values, mode: str
) -> Iterator[Demand]:
    """Of an entry that says something else."""
    key, old, new = entry["key"], entry["value"], new_entry["value"]
    if json.dumps(old) != json.dumps(new):
        judge = next(
            (
                judge
                for modes, pattern, judge in _KEYS
                if mode in modes and re.fullmatch(pattern, key)
            ),
            harmless("a line that no rule reads"),
        )
        required = judge(Value(key, old, new, log))
        yield (
            Demand(_in_mode(required.rules, mode), required.harmless)
            if required.rules
            else required
        )
    elif entry != new_entry:
        yield Demand(harmless="the place in LoadGen that wrote a line, and the thread")


def _stamps(old_entries: Entries, new_entries: Entries, mode: str) -> list[Demand]:
    """Of timestamps that go back or are none, and of another process."""
    if mode == "T" or old_entries == new_entries:
        return []
    stamps = _in_mode(frozenset({"time_stamps"}), mode)
    times: dict[str, float] = {}
    for entry in new_entries:
        ms, thread = entry.get("time_ms"), str(entry["metadata"].get("tid"))
        if isinstance(ms, bool) or not isinstance(ms, int | float) or not 0 <= ms < math.inf:
            return [Demand(stamps)]
        if ms < times.get(thread, 0.0):
            return [Demand(stamps)]
        times[thread] = ms
    if len({str(entry["metadata"].get("pid")) for entry in new_entries}) > 1:
        return [Demand(stamps)]
    stamps_ms = {e["key"]: e["time_ms"] for e in new_entries}
    for entry in old_entries:
        key = entry["key"]
        late = abs(stamps_ms.get(key, entry["time_ms"]) - entry["time_ms"])
        if key in ("generated_query_count", "power_end") and late > _MAX_LATE_MS:
            return [Demand(_in_mode(frozenset({"time_span", "clock_dates"}), mode))]
    return []


_MAX_LATE_MS = 8000
"""What the rules leave between LoadGen's work and its entry on it, and a little more."""


# Other files


def _summary(file: Path, before: bytes, after: bytes) -> list[Demand]:
    if mode_of(file) != "P":
        return unseen("the summary of an accuracy or audit run has no figure")
    if not after:
        return seen("required_files")
    old, new = (_figures(text.decode("utf-8", "replace")) for text in (before, after))
    figures: dict[str, set[str]] = {}
    for name, figure in old:
        figures.setdefault(name, set()).add(figure)
    offline = "Offline" in file.parts
    differences = [
        name
        for name, figure in new
        if _REPEATED.fullmatch(name)
        and not (offline and name.startswith("t"))
        and name in figures
        and not any(_same_figure(figure, before) for before in figures[name])
    ]
    if differences or any(name not in dict(new) for name in _ALWAYS):
        return seen("summary_agrees")
    return unseen("a summary with a line missing or reworded")


_REPEATED = re.compile(
    r".* latency \(ns\)|.* Output Token \(ns\)|.* to output token \(ns\)"
    r"|.*(amples|okens) per second|samples_per_query|target_qps|t[tp]\wt_latency \(ns\)"
    r"|max_async_queries|\w+_rng_seed|m\w+_duration \(ms\)|m\w+_query_count"
    r"|performance_sample_count|Result is|Mode|Scenario|SUT name"
)
_ALWAYS = ("SUT name", "Scenario", "Mode", "Result is", "Min latency (ns)")


def _same_figure(first: str, second: str) -> bool:
    try:
        return first == second or abs(float(first) - float(second)) < _CENTS
    except ValueError:
        return False


_CENTS = 0.02


def _figures(text: str) -> list[tuple[str, str]]:
    """The lines of a summary that name something and say what it is."""
    lines = (line.partition(":") for line in re.split(r"\r\n|\r|\n", text) if ":" in line)
    return [(name.strip(), figure.strip()) for name, _, figure in lines]


def _accuracy_txt(file: Path, before: bytes, after: bytes) -> list[Demand]:
    if not after:
        return seen("required_files")
    text = after.decode("utf-8", "replace")
    demands = []
    if not re.search(r"^hash=[0-9a-f]{64}\s*$", text, re.MULTILINE):
        demands.append(Demand(frozenset({"accuracy_hash"})))
    for name, (rule, low, high) in _GATES.items():
        values = re.findall(rf"'{name}':\s+'?(\d+(?:\.\d+)?)'?(?=[,}}\s]|$)", text)
        if f"'{name}'" in before.decode() and not (
            values and all(low <= float(value) <= high for value in values)
        ):
            demands.append(Demand(frozenset({rule})))
    return demands or unseen("accuracy.txt still passes, and its log is submitted truncated")


_GATES = {
    "gen_num": ("accuracy_every_sample", 8313, 24576),
    "rouge1": ("accuracy_rouge1", 44.386, 100),
    "rouge2": ("accuracy_rouge2", 22.0132, 100),
    "rougeL": ("accuracy_rougel", 28.5876, 100),
}


def _verified(file: Path, before: bytes, after: bytes) -> list[Demand]:
    if not after:
        return seen("required_files")
    lines = {line.strip() for line in after.decode("utf-8", "replace").splitlines()}
    checks = {line for line in before.decode().splitlines() if " check pass: " in line}
    if checks <= lines:
        return unseen("the audit's verdict is unchanged")
    return seen("test06_verified")


def _audit_answers(file: Path, before: bytes, after: bytes) -> list[Demand]:
    if not after:
        return seen("required_files")
    try:
        rows = json.loads(after.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return seen("test06_log_is_whole")
    old = json.loads(before)
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return seen("test06_log_is_whole")
    same = [row for row in rows if row in old]
    if len(same) == len(rows) == len(old):
        return unseen("the same answers in a different notation")
    harmless_changes = (
        (_only_placeless, "an answer that does not say its place"),
        (_only_other_tokens, "a different token in an answer, after the first"),
    )
    for differs, why in harmless_changes:
        if len(rows) == len(old) and all(map(differs, old, rows)):
            return unseen(why)
    rules = "log_is_whole sample_count first_token token_count eos issue_order log_agrees"
    return seen(*(f"test06_{rule}" for rule in rules.split()))


def _only_placeless(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether two answers are the same, but that one does not say when it was issued."""
    placeless = new.get("seq_id") is None
    return old == new or (placeless and old | {"seq_id": None} == new | {"seq_id": None})


def _only_other_tokens(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Whether two answers differ in tokens after the first alone, or in a token_data not asked."""
    if old | {"data": new.get("data")} != new:
        return False
    data = new["data"]
    digits = isinstance(data, str) and re.fullmatch("[0-9A-Fa-f]*", data)
    streams = "token_data" in old
    return bool(
        digits and len(data) == len(old["data"]) and (not streams or data[:8] == old["data"][:8])
    )


def _cut_log(file: Path, before: bytes, after: bytes) -> list[Demand]:
    if not after:
        return seen("required_files")
    if len(after) > 10 * 1024:
        return seen("accuracy_log_is_cut")
    old, new = (_one_line_end(text.decode("utf-8", "replace")) for text in (before, after))
    numbers = r'"(seq_id|qsl_idx)" : (\d+)'
    ends = frozenset(
        {"accuracy_log_ends", "accuracy_log_tokens", "accuracy_issue_order", "accuracy_log_order"}
    )
    shape = (old[:40] == new[:40], old.rstrip()[-5:] == new.rstrip()[-5:])
    if re.findall(numbers, old) != re.findall(numbers, new) or not all(shape):
        return [Demand(ends)]
    return unseen("inside a truncated answer, whose content is not recorded")


def _one_line_end(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _json(rules: tuple[str, ...], fields: tuple[str, ...]) -> FileJudge:
    """A JSON file of which some fields are required."""

    def judge(file: Path, before: bytes, after: bytes) -> list[Demand]:
        try:
            content = json.loads(after.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return seen(*rules, "required_files")
        old = json.loads(before)
        if not isinstance(content, dict):
            return seen(*rules)
        empty = [key for key in old if key not in _MAY_BE_EMPTY and not content.get(key)]
        missing_keys = [*empty, *(key for key in old if key != "note" and key not in content)]
        changes = [key for key in fields if content.get(key) != old.get(key)]
        if missing_keys or changes:
            return seen(*rules)
        return unseen("text that the submitter chooses")

    return judge


def _present(file: Path, before: bytes, after: bytes) -> list[Demand]:
    if after:
        return unseen("text that the submitter chooses")
    return seen("required_files")


_MAY_BE_EMPTY = (
    "note",
    "hw_notes",
    "sw_notes",
    "system_type_detail",
    "host_processor_frequency",
    "host_processor_caches",
    "host_processor_interconnect",
    "accelerator_frequency",
    "accelerator_interconnect_topology",
    "accelerator_on-chip_memories",
)
_MUST_SAY = ("submitter", "division", "system_type", "status")
_FILES: dict[str, FileJudge] = {
    DETAIL: _detail,
    SUMMARY: _summary,
    "accuracy.txt": _accuracy_txt,
    "verify_accuracy.txt": _verified,
    "measurements.json": _json(("measurements",), ()),
    "Replay.json": _json(("system_description", "system_fields"), _MUST_SAY),
}


def demands(tree: Tree, damage: Damage) -> list[Demand]:
    """What a damage demands, at least one demand or reason for each file that it touched."""
    if damage.file not in tree.before:
        files = [file for file in tree.before if damage.file in file.parents]
        submitted = [
            file for file in files if file.name not in _NOT_ASKED and not _is_audit_run(file)
        ]
        if submitted:
            return [Demand(_GONE)]
        return unseen("an audit's log, which a submission need not contain")
    path, before = tree.root / damage.file, tree.before[damage.file]
    if path.is_symlink() or not path.is_file():
        return _missing_file_demands(damage.file)
    after = path.read_bytes()
    if after == before:
        return unseen("nothing changed")
    judge: FileJudge
    if damage.file.name == ACCURACY:
        judge = _audit_answers if mode_of(damage.file) == "T" else _cut_log
    else:
        judge = _FILES.get(damage.file.name, _present)
    if judge is _present and "src" in damage.file.parts:
        return unseen("text that the submitter chooses")
    return judge(damage.file, before, after) or unseen("not part of a log's content")


_NOT_ASKED = ("note",)
_GONE = frozenset({"required_files", "layout", "system_description", "required_scenarios"})


def _is_audit_run(file: Path) -> bool:
    return mode_of(file) == "T" and file.name in (DETAIL, SUMMARY)


def _missing_file_demands(file: Path) -> list[Demand]:
    if _is_audit_run(file):
        return unseen("an audit's log, which a submission need not contain")
    if "src" in file.parts:
        return unseen("text that the submitter chooses")
    return [Demand(_GONE | {"measurements", "system_fields"})]
