"""What a run's report says, in order: valid? how fast? how accurate? what was run? what is wrong?

The sections are made once, for report.md and report.html; closing.py is the terminal's summary.
Figures are summary.json's; what an older or foreign summary.json lacks is
left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mlperf_suite.reports.accuracy_sections import (
    accuracy_section,
    caching_sections,
    mmlu_blocks,
)
from mlperf_suite.reports.machine_sections import (
    endpoint_sections,
    energy_sections,
    is_remote,
    profile_sections,
    remote_note,
    replica_sections,
)
from mlperf_suite.reports.performance_sections import (
    projection_sections,
    regression_sections,
    speed_sections,
    time_sections,
)
from mlperf_suite.reports.sections import (
    Block,
    Cell,
    ColumnKind,
    Paragraph,
    Picture,
    Plot,
    Points,
    Row,
    Section,
    Style,
    Table,
    Words,
    count,
    duration,
    fact_table,
    file_link,
    paragraphs,
    record_table,
)
from mlperf_suite.results.schema import (
    Config,
    Meta,
    Summary,
)
from mlperf_suite.rules import rule_named
from mlperf_suite.rules.registry import Rule
from mlperf_suite.rules.verdict import Status, Verdict


def run_sections(
    summary: Summary,
    config: Config | None = None,
    plots: Sequence[Plot] = (),
    samples: Sequence[Mapping[str, str]] = (),
) -> list[Section]:
    """The report of a run from its summary.json and config.json.

    `samples`: a few answers, each with `index`, `input`, `answer` and `reference`.
    """
    files = [Words(name, link=file_link(name)) for name in (*summary.logs, *summary.plots)]
    return [
        _head(summary),
        Section("Is it valid?", [_answer(summary)]),
        *_problems(summary),
        *speed_sections(summary, plots),
        *time_sections(summary, config),
        *energy_sections(summary.run),
        *projection_sections(summary),
        *regression_sections(summary.regression),
        *profile_sections(summary.run.profile),
        accuracy_section(summary, samples),
        *caching_sections(summary.run.caching),
        *endpoint_sections(summary.run, config),
        *replica_sections(summary.run.replicas, summary.run.scaling),
        *_run_sections(summary, config),
        _every_rule(summary.verdicts),
        Section("Files", [Points(files)]),
    ]


def mmlu_sections(summary: Summary, folder: Path, config: Config | None = None) -> list[Section]:
    """The report of an MMLU run, whose plots are in its folder."""
    meta, mmlu = summary.meta, summary.run.mmlu
    about = f"Model {meta.model}, data {meta.dataset}, started {meta.started}."
    blocks: list[Block] = [Paragraph(about, lead=f"{meta.label}.")]
    if meta.reason:
        blocks.append(Paragraph(lead=f"The run failed: {meta.reason}"))
    blocks += mmlu_blocks(mmlu) if mmlu else []
    if is_remote(summary.run, config):
        blocks.append(Paragraph(remote_note("summary.json and config.json")))
    rules = [*verdict_table(summary.verdicts), *_demands(summary.verdicts)]
    pictures = [
        Picture(folder, name, "score by subject")
        for name in sorted(_plots(folder) & set(summary.plots))
    ]
    return [
        Section("MMLU", blocks, 1, meta.status),
        Section("Rules", [*rules, *pictures]),
    ]


def _plots(folder: Path) -> set[str]:
    """The plots in a run's folder. A summary may name any file, which no report is to contain."""
    paths = (folder / "plots").glob("*.png") if not (folder / "plots").is_symlink() else ()
    return {f"plots/{path.name}" for path in paths if path.is_file() and not path.is_symlink()}


# Is it valid?


def _head(summary: Summary) -> Section:
    meta = summary.meta
    title = " ".join(name or "?" for name in (meta.benchmark, meta.category, meta.scenario))
    # A green "complete" would look like a result.
    mark = "profiled" if meta.profiler else "smoke run" if meta.profile == "smoke" else ""
    status = ", ".join(filter(None, (meta.status, mark)))
    label = [Paragraph(lead=f"{meta.label}.")] if meta.label else []
    return Section(title, [*label, Paragraph(f"Measured: {summary.measured}.")], 1, status)


def _answer(summary: Summary) -> Paragraph:
    meta, verdicts = summary.meta, summary.verdicts
    failures, passes, unjudged, shortened = (
        len(_with_status(verdicts, status))
        for status in ("failed", "passed", "not judged", "shortened")
    )
    style: Style = "bad"
    if meta.status == "failed":
        answer = f"No: the run failed. {meta.reason or ''}".strip()
    elif failures:
        reason = f" This run is {summary.no_result}." if summary.no_result else ""
        answer = f"No: {count(failures, 'rule')} failed of {len(verdicts)}.{reason}"
    elif meta.profiler is not None:
        answer = f"No: {summary.no_result}. No rule is judged."
    elif meta.status == "running" or not verdicts:
        style, answer = "open", "Unknown: the run has not finished, or no rule was judged."
    elif not (shortened or unjudged) and meta.profile != "smoke":
        style, answer = "ok", f"Yes: every one of {len(verdicts)} rules holds."
    else:
        style, answer = "open", f"No rule failed: {count(passes, 'rule')} of {len(verdicts)} passed"
        answer += f", {unjudged} could not be judged" if unjudged else ""
        answer += f", {shortened} were shortened" if shortened else ""
        answer += ". A smoke run is not an MLPerf result." if meta.profile == "smoke" else "."
    return Paragraph(answer, style=style)


def _with_status(verdicts: Sequence[Verdict], status: Status) -> list[Verdict]:
    return [verdict for verdict in verdicts if verdict.status == status]


def _names(verdicts: Sequence[Verdict], status: Status) -> str:
    return ", ".join(verdict.rule for verdict in _with_status(verdicts, status))


# What was run?


def _run_sections(summary: Summary, config: Config | None) -> list[Section]:
    run = _run_rows(summary.meta, config or Config())
    for mode, warm_up in summary.run.warm_up.items():
        kind = f", {warm_up.what}" if warm_up.what else ""
        words = (
            f"{count(warm_up.requests, 'request')}{kind}: {count(warm_up.tokens, 'token')} in "
            f"{warm_up.elapsed_s:,.1f} s, not timed"
        )
        run.append((f"warm-up of {mode}", words))
    blocks = [fact_table(run)]
    if engine := _engine_rows(config):
        blocks.append(fact_table(engine, "The engine"))
    if system := _facts(summary.system):
        remote = is_remote(summary.run, config)
        blocks.append(fact_table(system, "The client's machine" if remote else "The system"))
    steps = [
        {"step": row.what, "estimated": _length(row.estimated_s), "took": _length(row.took_s)}
        for row in summary.plan
    ]
    plan = record_table(steps, ["step"], style="small", title="The plan", folded=True)
    return [Section("What was run?", [*blocks, *plan])]


def _run_rows(meta: Meta, config: Config) -> list[Row]:
    samples = meta.samples if meta.samples is not None else config.dataset.samples
    length = meta.max_new_tokens or config.settings.get("max_new_tokens")
    return _facts(
        {
            "model": meta.model,
            "dataset": meta.dataset,
            "round": meta.round,
            "profile": meta.profile,
            "started": meta.started,
            "node": meta.node_name,
            "maximum answer length, tokens": length,
            "samples per run": None if samples is None else f"{samples:,}",
            "reason for this number": meta.samples_why,
            "samples in the data set": config.dataset.samples,
            "data sha256": config.dataset.sha256,
            "suite": config.suite_version,
        },
        only_known=True,
    )


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
    return [*_facts(facts, only_known=True), *_facts(engine.settings)]


def _length(seconds: float | None) -> str:
    return "not known" if seconds is None else duration(seconds)


def _facts(facts: Mapping[str, object], *, only_known: bool = False) -> list[Row]:
    rows = []
    for name, value in facts.items():
        if value is None and only_known:
            continue
        words = ", ".join(map(str, value)) if isinstance(value, list) else value
        rows.append((str(name).replace("_", " "), "none" if words in (None, "") else str(words)))
    return rows


# What is wrong?


def _problems(summary: Summary) -> list[Section]:
    """What failed, and beside it what each rule that did not pass demands; none if all is well."""
    verdicts, reason = summary.verdicts, summary.meta.reason
    lines = [f"The run failed: {reason}"] if reason else []
    for verdict in _with_status(verdicts, "failed"):
        why = f" ({verdict.why})" if verdict.why else ""
        lines.append(f"{verdict.rule}: found {verdict.found}, required {verdict.required}{why}")
    if shortened := _names(verdicts, "shortened"):
        lines.append(f"Shortened for smoke, therefore not met: {shortened}.")
    if unjudged := _names(verdicts, "not judged"):
        lines.append(f"Not judged: {unjudged}.")
    for change in summary.regression.metrics if summary.regression else ():
        if change.outcome == "regressed":
            lines.append(f"{change.label} regressed against the baseline: {change.words}")
    return [Section("Problems", [Points(lines), *_demands(verdicts)], 3)] if lines else []


def _demands(verdicts: Sequence[Verdict]) -> list[Table]:
    """A table of what each rule that did not pass demands, by which source, and the usual fix;
    folded if none failed."""
    records: list[dict[str, Cell]] = [
        {
            "rule": verdict.rule,
            "demands": rule.sentence,
            "source": rule.attribution,
            "usual fix": rule.fix,
        }
        for verdict, rule in _rules_not_passed(verdicts)
    ]
    folded = all(verdict.status != "failed" for verdict in verdicts)
    title = "What the rules that did not pass demand"
    return _rule_table(records, "wide whole-words", title, folded=folded)


def _rules_not_passed(verdicts: Sequence[Verdict]) -> list[tuple[Verdict, Rule]]:
    return [
        (verdict, rule)
        for verdict in verdicts
        if not verdict.passed and (rule := rule_named(verdict.rule))
    ]


def _every_rule(verdicts: Sequence[Verdict]) -> Section:
    table = verdict_table(verdicts, title=count(len(verdicts), "rule"), folded=True)
    return Section("Every rule", table or paragraphs(["No rule was judged."]))


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
    texts = ("found", "required", "why", "demands", "source", "usual fix")
    kinds: dict[str, ColumnKind] = {"rule": "rule", "status": "badge"}
    return record_table(records, texts, kinds=kinds, style=style, title=title, folded=folded)
