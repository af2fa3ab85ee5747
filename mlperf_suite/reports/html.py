"""Renders a report's sections as a self-contained page, with styles for light, dark and print."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from mlperf_suite.reports.sections import Picture, Plot, Section
from mlperf_suite.untrusted_files import read_regular

_NO_TEXT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
"""Control characters other than tabs and line ends, and halves of surrogate pairs."""
_MAX_UNBROKEN = 26
"""Characters of a word that may be too wide for its column on a phone."""
_PARTS = re.compile(r"[^/_=@+-]{1,24}[/_=@+-]*|[/_=@+-]+")
"""Parts of a path, a URL or a name."""


def html_page(sections: Sequence[Section], *, title: str = "", broad: bool = False) -> str:
    """The sections as a page. `title`: of the page, else the first section's. `broad`: for wide
    tables, printed in landscape.

    Raises OSError if a picture cannot be read.
    """
    first = sections[0]
    own_title = f"{first.title}: {first.status}" if first.status else first.title
    page = _environment().get_template("page.html.j2")
    text = page.render(sections=sections, title=title or own_title, broad=broad)
    return _NO_TEXT.sub("?", str(text))


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
    environment.filters |= {
        "kind": lambda block: type(block).__name__,
        "svg": _svg,
        "data_url": _data_url,
        "breakable": _breakable,
    }
    return environment


def _svg(plot: Plot) -> Any:
    """The plot's SVG, which the suite draws and so needs no escaping."""
    from markupsafe import Markup

    return Markup(plot.svg())  # noqa: S704 - our own drawing


def _data_url(picture: Picture) -> str:
    content = read_regular(picture.folder / picture.name)
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _breakable(text: str) -> Any:
    """The text with options that do not break at their hyphens, and with long names that break
    between their parts; a part that is longer than any word breaks anywhere."""
    from markupsafe import Markup, escape

    option, place = Markup('<span class="option">{}</span>'), Markup("<wbr>")
    words = (
        option.format(word)
        if word.startswith("--")
        else place.join(_PARTS.findall(word))
        if len(word) > _MAX_UNBROKEN
        else escape(word)
        for word in text.split(" ")
    )
    return Markup(" ").join(words)
