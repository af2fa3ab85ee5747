"""Writes report.html, a self-contained page with styles for light, dark and print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from mlperf_suite.reports.energy import COST_HEAD, ENERGY_HEADER
from mlperf_suite.reports.plots import Plot
from mlperf_suite.reports.replicas import NODE_HEADER, REPLICA_HEADER
from mlperf_suite.reports.view import (
    CACHING_HEAD,
    CLIENT_HEADER,
    ENDPOINT_HEADER,
    NO_LIMIT,
    PART_HEADER,
    PROFILE_HEADER,
    REMOTE_NOTE,
    SLOW_HEAD,
    SLOW_HEADER,
    TIME_HEAD,
    view_of,
)
from mlperf_suite.results.schema import Config, Summary


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    # Everything that comes from a run, model output above all, is untrusted and always escaped.
    environment = Environment(
        loader=PackageLoader("mlperf_suite.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["whole_options"] = _whole_options
    return environment


def _whole_options(text: str) -> Any:
    """The text with options that do not break at their hyphens."""
    from markupsafe import Markup, escape

    option = Markup('<span class="option">{}</span>')
    words = (option.format(w) if w.startswith("--") else escape(w) for w in text.split(" "))
    return Markup(" ").join(words)


def render(template: str, **content: Any) -> str:
    """Render a template of this package with all content escaped."""
    return str(_environment().get_template(template).render(**content))


def drawn(plots: Sequence[Plot]) -> list[tuple[Any, str]]:
    """Each plot's SVG, which the suite draws and so needs no escaping, and its caption."""
    from markupsafe import Markup

    return [(Markup(plot.svg()), plot.caption) for plot in plots]  # noqa: S704 - our own drawing


def report_html(
    summary: Summary,
    config: Config | None = None,
    plots: Sequence[Plot] = (),
    samples: Sequence[Mapping[str, Any]] = (),
) -> str:
    """The report of a run from its summary.json and config.json.

    `samples`: a few answers, each with `index`, `input`, `answer` and `reference`.
    """
    view = view_of(summary, config)
    return render(
        "report.html.j2",
        view=view,
        plots=drawn(plots),
        samples=samples,
        endpoint_header=ENDPOINT_HEADER,
        client_header=CLIENT_HEADER,
        replica_header=REPLICA_HEADER,
        node_header=NODE_HEADER,
        profile_header=PROFILE_HEADER,
        caching_head=CACHING_HEAD,
        remote_note=REMOTE_NOTE,
        energy_header=ENERGY_HEADER,
        cost_head=COST_HEAD,
        time_head=TIME_HEAD,
        no_limit=NO_LIMIT,
        part_header=PART_HEADER,
        slow_head=SLOW_HEAD,
        slow_header=SLOW_HEADER,
    )
