"""Whisper's transcripts by `speech2text/accuracy_eval.py` and by the suite.

The script of round v5.1 is that of the checkout's tag: it knows fewer letters.
"""

from __future__ import annotations

import array
import json
import os
import random
import re
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from evidence.from_elsewhere import INFERENCE
from evidence.scorers.environments import Comparison, Environment, Options, code_at, fresh_folder
from mlperf_suite.assets import spellings_file
from mlperf_suite.datasets.news import load_news
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.features.multimodal.whisper import WHISPER, WordAccuracyScorer
from mlperf_suite.scorers.scorer import Answer

_V5_1 = "v5.1"
"""A round, and the tag with its script."""
OF_V5_1 = f"whisper-{_V5_1}"
_PATH = "speech2text/accuracy_eval.py"
_LABELS = " abcdefghijklmnopqrstuvwxyz'0123456789$%+-"
_PRINTED = re.compile(r"Word Error Rate: (\S+)%, accuracy=(\S+)%")
_ODD = (
    ("", "nothing was said"),
    (" ", "a pause"),
    ("any one can not see the rail road", "anyone cannot see the railroad"),
    ("anyone cannot see the railroad", "any one can not see the rail road"),
    ("notwithstanding the here in after", "not with standing the hereinafter"),
    ("An Answer With Capitals.", "A Reference With Capitals"),
    ("twenty one hundred and five dollars and fifty cents", "$2105.50"),
    ("Ünïcode 한국어 “quotes” — and 😀 emoji", "unicode quotes and emoji"),
    ("he'll won't they're let's it's", "he will will not they are let us it is"),
    ("uh hmm mr. Smith and dr. Jones [laughs] (aside)", "mister smith and doctor jones"),
    ("1,000 10% -5 +3 5th 1990s 3.5m", "one thousand ten percent minus five plus three fifth"),
    ("double o seven one oh one triple nine", "007 101 999"),
    ("a million and a half point five", "1500000.5"),
    ("word " * 90, "word " * 30),
)


def environment(checkout: Path) -> Environment:
    """What speech2text/Dockerfile pins of what the script imports."""
    docker = (checkout / "speech2text" / "Dockerfile").read_text()
    pins = dict(re.findall(r"\b(numpy|pandas)==([\d.]+)", docker))
    # Its torch is linked, and Triton, which the package asks for, only runs the model.
    more, alone = ("more-itertools", "numba", "tiktoken", "tqdm"), ("openai-whisper",)
    return Environment("whisper", {"numpy": pins["numpy"]}, more, alone=alone, links_torch=True)


def compared(_: Options) -> Comparison:
    """Score one log by both."""
    assert WHISPER.workload is not None
    return _compared("whisper", INFERENCE, _PATH, WHISPER.workload.scorer)


def compared_in_v5_1(_: Options) -> Comparison:
    """The same with the script of v5.1."""
    code = code_at(INFERENCE, _V5_1, f"code-of-{OF_V5_1}", "speech2text")
    assert WHISPER.workload is not None
    scorer = WHISPER.by_round[_V5_1](WHISPER.workload).scorer
    return _compared(OF_V5_1, code, f"{_V5_1}: {_PATH}", scorer)


def _compared(name: str, checkout: Path, path: str, scorer: object) -> Comparison:
    """`path`: how the page names the script."""
    assert isinstance(scorer, WordAccuracyScorer)
    pairs = list(texts())
    around = environment(checkout)
    folder = fresh_folder(f"log-of-{name}")
    log = [
        {"seq_id": n, "qsl_idx": n, "data": as_logged(text, scorer.letters)}
        for n, (text, _) in enumerate(pairs)
    ]
    (folder / "mlperf_log_accuracy.json").write_text(json.dumps(log))
    files = [{"fname": "clip.wav", "speed": 1, "duration": 9.0}]
    clip: dict[str, object] = {"files": files, "original_duration": 9.0}
    (folder / "manifest.json").write_text(json.dumps([clip | {"transcript": t} for _, t in pairs]))
    command = [str(around.python), str(checkout / _PATH), f"--log_dir={folder}"]
    command += [f"--dataset_dir={folder}", f"--manifest={folder / 'manifest.json'}"]
    clean = os.environ | {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"}
    printed = subprocess.check_output(command, env=clean, text=True)
    (figures,) = _PRINTED.findall(printed)
    official = dict(zip(("word_error_rate", "word_accuracy"), map(float, figures), strict=True))
    answers = [Answer(Sample("", reference), (), text) for text, reference in pairs]
    own = dict(scorer.score(answers).values)
    return Comparison(name, path, around.packages, len(pairs), official, own)


def as_logged(text: str, letters: frozenset[str]) -> str:
    """The letters as the reference logs them: their places among its labels (reference_SUT.py)."""
    labels = _LABELS[: len(letters)]
    assert set(labels) == letters
    places = [labels.index(letter) for letter in text.lower().strip() if letter in letters]
    return array.array("q", places).tobytes().hex()


def texts() -> Iterator[tuple[str, str]]:
    """Transcripts, each with its reference."""
    yield from _ODD
    chance = random.Random(1)
    spellings = json.loads(spellings_file().read_text())
    british = list(spellings.items())
    for item in load_news("embedded").items:
        words = re.findall(r"\S+", item.input)
        for start in range(0, len(words), 30):
            said = words[start : start + 30]
            yield " ".join(_misheard(said, chance)), " ".join(said).lower()
            one, other = zip(*chance.sample(british, 4), strict=True)
            yield " ".join([*said[:4], *one]), " ".join([*said[:4], *other])


def _misheard(words: Sequence[str], chance: random.Random) -> Iterator[str]:
    """The words with some dropped, doubled, joined, replaced, and written as numbers."""
    for word in words:
        what = chance.randrange(24)
        if what == 0:
            continue
        yield word
        if what == 1:
            yield word
        elif what == 2:
            yield chance.choice(["colour", "mr.", "um", "it's", "gonna", "ain't", "o'clock"])
        elif what == 3:
            yield chance.choice(
                ["twenty one", "one hundred and five", "$3.5", "5th", "1,000", "ten percent", "-7"]
            )


COMPARISONS = {WHISPER.id: compared, OF_V5_1: compared_in_v5_1}
