"""A report's page in Chromium, which a distribution's package brings (`apt install chromium`)."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from meta_tests.reports.kept_run import change_summary, write_kept
from mlperf_suite.reports.writing import write_reports

CONFIG = {
    "engine": {
        "name": "vLLM",
        "version": "0.32.0",
        "model": "/a/model",
        "max_model_len": 8192,
        "settings": {"tensor_parallel_size": 2, "gpus": "2 of 3: a power of two"},
    }
}
_BROKEN = """<iframe id="f" width="390" height="900"></iframe><pre id="p"></pre><script>
f.srcdoc = %s;
f.onload = () => { const page = f.contentDocument, broken = [];
  page.querySelectorAll("details").forEach(fold => fold.open = true);
  const texts = page.createTreeWalker(page.body, 4);
  while (texts.nextNode()) for (const word of texts.currentNode.data.matchAll(/[^\\s-]+/g)) {
    const range = page.createRange();
    range.setStart(texts.currentNode, word.index);
    range.setEnd(texts.currentNode, word.index + word[0].length);
    const boxes = [...range.getClientRects()].filter(box => box.width);
    if (new Set(boxes.map(box => Math.round(box.top))).size > 1) broken.push(word[0]);
  }
  if (page.documentElement.scrollWidth > 390) broken.push("wider than the screen");
  p.textContent = "broken: " + JSON.stringify(broken); };
</script>"""


@pytest.mark.skipif(
    not shutil.which("chromium"), reason="no Chromium in PATH: apt-get install chromium"
)
def test_no_word_is_broken_on_a_phone(tmp_path: Path) -> None:
    run = write_kept(tmp_path / "20261120-065625-llama3.1-8b-server")
    (run / "config.json").write_text(json.dumps(CONFIG))
    # The longest of the titles' words.
    change: dict[str, Any] = {"metric": "qps", "label": "samples/s", "outcome": "cannot tell"}
    change_summary(run, regression={"metrics": [change]})
    write_reports(run)
    page = json.dumps((run / "report.html").read_text()).replace("</", "<\\/")
    (tmp_path / "frame.html").write_text(_BROKEN % page)
    chromium = ("chromium", "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom")
    browser = subprocess.run(
        [*chromium, "--virtual-time-budget=5000", (tmp_path / "frame.html").as_uri()],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "broken: []" in browser.stdout, browser.stdout[-500:]
