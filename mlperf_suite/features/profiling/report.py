"""What reports say of a profiled run."""

from __future__ import annotations

from mlperf_suite.features.profiling.trace import PROFILE, Operation, ProfileFigures
from mlperf_suite.reports.feature_report import FeatureReport
from mlperf_suite.reports.sections import (
    Cell,
    Line,
    Section,
    Table,
    decimal,
    notes,
    record_table,
    time_cell,
)
from mlperf_suite.results.schema import PROFILED, Config, Summary


class ProfileReport(FeatureReport):
    def sections(self, summary: Summary, config: Config | None) -> list[Section]:
        """What the trace is, how to open it, and the operations that took longest."""
        profile: ProfileFigures = summary.parts[PROFILE]
        lines = [
            f"{PROFILED[0].upper()}{PROFILED[1:]}. The profiler ({profile.profiler}) ran for "
            f"{decimal(profile.seconds, 1)} s, from LoadGen's start to its end, and slowed the "
            "engine down.",
            profile.opens,
        ]
        table, top = list[Table](), profile.operations
        if top and top.damaged:
            lines.append("A trace could not be read completely: the table shows what was read.")
        if top and top.operations:
            lines.append(
                f"The operations that took longest on the {top.where}, over all threads and "
                "processes, each without the operations that it called: "
                f"{time_cell(top.total_ms)} in total."
            )
            table = record_table(
                [_operation(operation) for operation in top.operations], ["operation"]
            )
        return [Section("Profile", [*notes(lines), *table])]

    def closing(self, summary: Summary) -> list[Line]:
        profile: ProfileFigures = summary.parts[PROFILE]
        lines, top = [Line("profile", profile.opens)], profile.operations
        if top and top.operations:
            first = top.operations[0]
            words = f"longest on the {top.where}: {first.name}, {first.share * 100:.1f}%"
            lines.append(Line("", words))
        return lines


REPORT = ProfileReport()


def _operation(operation: Operation) -> dict[str, Cell]:
    return {
        "operation": operation.name,
        "calls": f"{operation.calls:,}",
        "own time": time_cell(operation.self_ms),
        "share, %": decimal(operation.share * 100, 1),
    }
