"""What a run's report says, in order: valid? how fast? how accurate? what was run? what is wrong?

The sections are made once, for report.md and report.html; closing.py is the terminal's summary.
Figures are summary.json's; what an older or foreign summary.json lacks is
left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from mlperf_suite.engines.protocol import SERVER_SETTINGS
from mlperf_suite.reports.feature_report import feature_reports
from mlperf_suite.reports.headline import findings, status_words
from mlperf_suite.reports.performance_sections import (
    regression_sections,
    speed_sections,
    time_sections,
)
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    Code,
    ColumnKind,
    Paragraph,
    Plot,
    Points,
    Quote,
    Quotes,
    Row,
    Section,
    Table,
    Words,
    count,
    duration,
    fact_table,
    file_link,
    in_unit,
    in_utc,
    notes,
    paragraphs,
    record_table,
)
from mlperf_suite.results.schema import AccuracyFigures, Config, Meta, Run, ScoreFigures, Summary
from mlperf_suite.rules import rule_named
from mlperf_suite.rules.verdict import Status, Verdict, with_status
from mlperf_suite.secrets import REDACTED

_SHA256, _HASH_DIGITS = re.compile("[0-9a-f]{64}"), 16
"""A hash, and how many of its digits tell it from others: summary.json and config.json have all."""
_NAMES = {
    "cpu": "CPU",
    "cpu_count": "cores",
    "memory_gib": "memory, GiB",
    "gpu_count": "number of accelerators",
    "gpus": "accelerators",
    "platform": "operating system",
    "python_version": "Python",
    "vllm_version": "vLLM",
    "vllm_distribution": "vLLM's package",
    "loadgen_version": "LoadGen",
    "dtype": "precision",
    "dtype_why": "reason for the precision",
    "enable_prefix_caching": "prefix cache",
    "enforce_eager": "eager mode",
    "kv_cache_dtype": "precision of the KV cache",
    "max_num_seqs": "maximum requests per step (max_num_seqs)",
    "max_num_batched_tokens": "maximum tokens per step (max_num_batched_tokens)",
    "speculative": "speculative decoding",
    "tensor_parallel_why": "reason for the tensor parallel size",
    "idle_gpus": "idle accelerators",
    "gpus_used": "accelerators used",
    "stream_interval": "tokens per streamed chunk",
    "omp_threads_bind": "cores that the threads are bound to",
    "model_files_sha256": "SHA-256 of the model's files",
    "load_s": "load time, s",
    "fields": "request fields",
    "tokens": "tokens are counted by",
    "tokens_why": "reason for this count",
    "key": "API key",
}
"""What summary.json and config.json call by a key; other keys are words with underscores."""


def run_sections(
    summary: Summary,
    config: Config | None = None,
    plots: Sequence[Plot] = (),
    samples: Sequence[Mapping[str, str]] = (),
) -> list[Section]:
    """The report of a run from its summary.json and config.json.

    `samples`: a few answers, each with `index`, `input`, `answer` and `reference`.
    """
    of_features = [s for report in feature_reports(summary) for s in report.speed(summary)]
    is_core = summary.run.performance is not None or not of_features
    return [
        _head(summary),
        _validity(summary),
        *(speed_sections(summary, plots) if is_core else []),
        *of_features,
        *time_sections(summary, config),
        *(s for report in feature_reports(summary) for s in report.of_speed(summary)),
        *regression_sections(summary.regression),
        accuracy_section(summary, samples),
        *(s for report in feature_reports(summary) for s in report.sections(summary, config)),
        _run_section(summary, config),
    ]


def page_title(summary: Summary) -> str:
    """A page's title: what ran, and what was measured."""
    return f"{_kind(summary.meta)}, {status_words(summary)}: {summary.measured}"


# Is it valid?


def _head(summary: Summary) -> Section:
    meta = summary.meta
    label = [Paragraph(lead=f"{meta.label}.")] if meta.label else []
    if meta.not_submittable:
        label.append(Paragraph(f"{meta.not_submittable}.", lead="It cannot be submitted:"))
    measured = Paragraph(f"Measured: {summary.measured}.")
    title = f"{_kind(meta)} of {summary.model}"
    worst = findings(summary)[0]
    return Section(title, [measured, *label], 1, status_words(summary), worst.style)


def _kind(meta: Meta) -> str:
    return " ".join(filter(None, (meta.benchmark, meta.category, meta.scenario))) or "a run"


def _validity(summary: Summary) -> Section:
    """The answer, beside it what is wrong, and every rule."""
    table = verdict_table(summary.verdicts, title="Every rule", folded=True)
    rules = table or paragraphs(["No rule was judged."])
    return Section("Is it valid?", [*findings(summary), *_problems(summary), *rules])


def _names(verdicts: Sequence[Verdict], status: Status) -> str:
    return ", ".join(verdict.rule for verdict in with_status(verdicts, status))


# What was run?


def is_remote(run: Run, config: Config | None) -> bool:
    """Whether the run was made on endpoints. A run that failed early has no figures of them, but
    its engine's description names them."""
    engine = config.engine if config else None
    return bool(run.remote) or (engine is not None and "endpoints" in engine.settings)


def remote_note(place: str) -> str:
    """Whose hardware is described. `place`: where the reader sees it described."""
    return (
        f"The engine is a server reached over HTTP. The hardware in {place} is that of the "
        "client's machine, on which the suite ran; the server's is not known."
    )


def _run_section(summary: Summary, config: Config | None) -> Section:
    remote = is_remote(summary.run, config)
    machines = config.engine.machines if config and config.engine else []
    machine = "The client's machine" if remote else "The system"
    if not all(of_replicas.get("here") for of_replicas in machines):
        machine = "The driver's machine"
    notes = filter(None, (report.system_note(summary) for report in feature_reports(summary)))
    named_facts = [
        ("The run", _run_rows(summary, config or Config()), ""),
        ("The engine", _engine_rows(config), ""),
        (machine, _facts(summary.system), " ".join(notes)),
    ]
    tables = [fact_table(rows, title, note) for title, rows, note in named_facts if rows]
    steps: list[dict[str, Cell]] = [
        {"step": row.what, "estimated": _length(row.estimated_s), "took": _length(row.took_s)}
        for row in summary.plan
    ]
    plan = record_table(steps, ["step"], style="small", title="The plan", folded=True)
    links = [Words(name, link=file_link(name)) for name in (*summary.logs, *summary.plots)]
    files = [Points(links, "Files")] if links else []
    return Section("What was run?", [Paragraph(_run_line(summary.meta)), *tables, *plan, *files])


def _run_line(meta: Meta) -> str:
    """What readers ask first."""
    facts = (("round", meta.round), ("profile", meta.profile), ("data", meta.dataset))
    words = [f"{name} {value}" for name, value in facts if value]
    words += [f"started {in_utc(meta.started)}"] if meta.started else []
    line = ", ".join(words)
    return f"{line[:1].upper()}{line[1:]}." if line else ""


def _run_rows(summary: Summary, config: Config) -> list[Row]:
    meta = summary.meta
    samples = meta.samples if meta.samples is not None else config.dataset.samples
    length = meta.max_new_tokens or config.settings.get("max_new_tokens")
    rows = _facts(
        {
            "model": meta.model,
            "node": meta.node_name,
            "maximum answer length, tokens": length,
            "samples per run": None if samples is None else f"{samples:,}",
            "reason for this number": meta.samples_why,
            "samples in the data set": config.dataset.samples,
            "SHA-256 of the data": config.dataset.sha256,
            "suite": config.suite_version,
        },
        only_known=True,
    )
    for mode, warm_up in summary.run.warm_up.items():
        kind = f", {warm_up.what}" if warm_up.what else ""
        words = (
            f"{count(warm_up.requests, 'request')}{kind}: {count(warm_up.tokens, 'token')} in "
            f"{warm_up.elapsed_s:,.1f} s, not timed"
        )
        rows.append((f"warm-up of {mode}", words))
    return rows


def _engine_rows(config: Config | None) -> list[Row]:
    """The engine's description of itself, with its actual settings."""
    engine = config.engine if config else None
    if engine is None:
        return []
    facts: dict[str, object] = {
        "engine": f"{engine.name} {engine.version}",
        "model loaded": engine.model,
        "maximum context, tokens": engine.max_model_len,
    }
    own = {name: value for name, value in engine.settings.items() if name != SERVER_SETTINGS}
    of_servers = [(f"server: {name}", value) for name, value in _facts(engine.server_settings)]
    return [*_facts(facts, only_known=True), *_facts(own), *of_servers]


def _length(seconds: float | None) -> str:
    return "not known" if seconds is None else duration(seconds)


def _facts(facts: Mapping[str, object], *, only_known: bool = False) -> list[Row]:
    return [
        (_NAMES.get(name, str(name).removesuffix("_version").replace("_", " ")), _value(value))
        for name, value in facts.items()
        if not (value is None and only_known)
    ]


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    words = "none" if value in (None, "") else str(value)
    return f"{words[:_HASH_DIGITS]}…" if _SHA256.fullmatch(words) else words


def reproduction(meta: Meta) -> list[Section]:
    """The command, and which suite it ran; none if the summary does not say."""
    if not meta.command:
        return []
    commit, *changed = (meta.suite_commit or "").split("-", maxsplit=1)
    checkout = [f"git checkout {commit}"] if commit else []
    words = [f"The command as typed, with mlperf-suite {meta.suite_version or '?'}."]
    words += ["The clone had local changes, which its commit lacks."] if changed else []
    words += ["A secret is shown as ***."] if REDACTED in meta.command else []
    return [Section("Reproduce it", [Paragraph(" ".join(words)), Code([*checkout, meta.command])])]


# What is wrong?


def _problems(summary: Summary) -> list[Block]:
    """What failed, what was not judged or shortened, and what each of these rules demands."""
    verdicts, lines = summary.verdicts, []
    if unjudged := _names(verdicts, "not judged"):
        lines.append(f"Not judged: {unjudged}.")
    if shortened := _names(verdicts, "shortened"):
        lines.append(f"Shortened for smoke, so not met: {shortened}.")
    failures = with_status(verdicts, "failed")
    rest = [verdict for verdict in verdicts if verdict.status not in ("failed", "passed")]
    more = "other " if failures else ""
    return [
        *requirements(failures),
        *([Points(lines)] if lines else []),
        *requirements(rest, f"What the {more}rules that did not pass require"),
    ]


def requirements(verdicts: Sequence[Verdict], fold: str = "") -> list[Table]:
    """What was found, and what each rule demands, by which source, with the usual fix. `fold`: a
    title that opens the table."""
    records: list[dict[str, Cell]] = []
    for verdict in verdicts:
        rule, why = rule_named(verdict.rule), verdict.why
        asides = (f"Source: {rule.attribution}.", f"Usual fix: {rule.fix}") if rule else ()
        required = Words(rule.sentence if rule else why, (why if rule else "", *asides))
        record: dict[str, Cell] = {"rule": verdict.rule, "found": verdict.found}
        records.append(record | {"required": verdict.required, "the rule": required})
    return _rule_table(records, "wide", fold, folded=bool(fold))


def verdict_table(
    verdicts: Sequence[Verdict], *, brief: bool = False, title: str = "", folded: bool = False
) -> list[Table]:
    """Each rule's verdict; `brief`: without why, for the terminal."""
    records: list[dict[str, Cell]] = []
    for verdict in verdicts:
        record: dict[str, Cell] = {"rule": verdict.rule, "status": verdict.status}
        record |= {"found": verdict.found, "required": verdict.required}
        records.append(record if brief else record | {"why": verdict.why})
    return _rule_table(records, "wide rules", title, folded=folded)


def _rule_table(
    records: Sequence[Mapping[str, Cell]], style: str, title: str = "", *, folded: bool = False
) -> list[Table]:
    texts = ("found", "required", "why", "the rule")
    kinds: dict[str, ColumnKind] = {"rule": "rule", "status": "badge"}
    return record_table(records, texts, kinds=kinds, style=style, title=title, folded=folded)


_SCORE_NAMES = {"gen_len": "length of all answers"}


def accuracy_section(summary: Summary, samples: Sequence[Mapping[str, str]] = ()) -> Section:
    """The scores with a requirement, a sentence with the others, and a few answers of the model.

    `samples`: each with `index`, `input`, `answer` and `reference`.
    """
    accuracy = summary.run.accuracy
    said = filter(None, (report.scores(summary) for report in feature_reports(summary)))
    blocks: list[Block] = [*notes([next(said, "No accuracy result.")])]
    if accuracy is not None:
        blocks = _scores(accuracy, summary.verdicts)
    if samples:
        names = ("The input begins", "The model's answer", "The reference")
        texts = [(s["input"], s["answer"], s["reference"]) for s in samples]
        quotes = [
            Quote(f"Sample {sample['index']}", list(zip(names, of_sample, strict=True)))
            for sample, of_sample in zip(samples, texts, strict=True)
        ]
        blocks.append(Quotes(quotes, "Sample answers", folded=True))
    return Section("How accurate?", blocks)


def _scores(accuracy: AccuracyFigures, verdicts: Sequence[Verdict]) -> list[Block]:
    requirements = {
        v.rule: f"not judged: {v.why}" if v.status == "not judged" else v.required for v in verdicts
    }
    units = Counter(score.unit for score in accuracy.scores)
    rows, rest = [], []
    for score in accuracy.scores:
        requirement = requirements.get(f"accuracy_{score.name.lower()}") or _range(score)
        value = in_unit(score.value, score.unit)
        if requirement or score.is_percentage:
            with_unit = f"{value}%" if score.is_percentage else f"{value} {score.unit}".strip()
            row: dict[str, Cell] = {"score": _name(score), "found": with_unit}
            rows.append(row | {"required": requirement or "not judged"})
        else:
            words = f"{value} {score.unit}".strip()
            rest.append(words if units[score.unit] == 1 else f"{_name(score)} {words}")
    table = record_table(rows, ["score", "required"], style="small")
    return [*table, *notes([f"{', '.join(rest)}."] if rest else [])]


def _name(score: ScoreFigures) -> str:
    return _SCORE_NAMES.get(score.name, score.name.replace("_", " "))


def _range(score: ScoreFigures) -> str:
    """The requirement on a score, in words; empty if there is none."""
    low, high = (None if v is None else in_unit(v, score.unit) for v in (score.low, score.high))
    if low is None:
        return "" if high is None else f"at most {high}"
    return f"at least {low}" if high is None else f"{low} to {high}"
