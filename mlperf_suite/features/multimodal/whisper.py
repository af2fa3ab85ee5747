"""whisper: transcripts of LibriSpeech's clips by whisper-large-v3, Offline.

Sources: speech2text/README.md, QSL.py and reference_SUT.py of mlcommons/inference (prompt, at most
200 tokens, temperature 0, a context of 448, the reference's word error rate of 2.0671%), and
compliance/TEST01/whisper/audit.config (as long as a performance run, 4,096 answers logged).

Data: LibriSpeech as MLPerf repacks it, clips of up to 30 s, and a manifest with their transcripts.
Sources: utils/repackage_librispeech.py, manifest.py and QSL.py in speech2text/ of
mlcommons/inference. Clips are WAV files of one channel with 16 bits at 16 kHz.

Scorer: word accuracy of transcripts, 100 minus the word error rate.
Source: speech2text/accuracy_eval.py, helpers.py and reference_SUT.py of mlcommons/inference. Both
texts are reduced to the round's characters and put through Whisper's normalizer of English. These
official rules look like mistakes but are intended:

- an answer is lowered before other characters are dropped, a reference is not: its capital letters
  are dropped;
- words that only differ by spaces count as right ("any one" for "anyone"), up to three on a side,
  found by one walk over both texts that skips a word of each where they differ.
"""

from __future__ import annotations

import json
import wave
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any, Protocol, cast

from mlperf_suite import IS_CLONE
from mlperf_suite.assets import has_spellings, set_up_spellings, spellings_file
from mlperf_suite.benchmarks.audits import Audit
from mlperf_suite.benchmarks.definition import (
    ALL_ROUNDS,
    COUNTED_IN_A_SENTENCE,
    UNKNOWN_IDENTITY,
    WORD_ACCURACY,
    WORD_ERROR_RATE,
    Benchmark,
    Generation,
    ReferenceAccuracy,
    Workload,
    at_least,
    from_a_file,
    offline,
)
from mlperf_suite.benchmarks.model_identity import ModelIdentity, SiblingModel
from mlperf_suite.datasets.media import MediaPrompt, Sound
from mlperf_suite.datasets.samples import Sample, Samples, json_rows
from mlperf_suite.errors import DatasetError, UsageError, first_line
from mlperf_suite.random_models import RANDOM_WHISPER
from mlperf_suite.scorers.scorer import GEN_NUM, Answer, Score, Scores, token_figures

LETTERS = frozenset(" abcdefghijklmnopqrstuvwxyz'0123456789$%+-")
"""The characters that the reference passes to LoadGen (`labels` in reference_SUT.py)."""
V5_1_LETTERS = LETTERS - frozenset("0123456789$%+-")
"""Round v5.1's: the others came with pull request 2252, in October 2025."""
_MAX_JOINED_WORDS = 3
"""The most words that count as one."""


class Normalizer(Protocol):
    """Turns a text into the form in which words are compared."""

    def __call__(self, text: str) -> str: ...


@dataclass(frozen=True, slots=True)
class WordAccuracyScorer:
    """`word_accuracy` and `word_error_rate` in percent, over all words of the references.

    `letters`: the characters of both texts that count.
    """

    letters: frozenset[str] = LETTERS
    name: str = "word_accuracy"

    def check(self) -> None:
        """Make sure of the normalizer's table of spellings; without a clone it is downloaded.

        Raises UsageError if it is missing.
        """
        if not IS_CLONE and not has_spellings():
            set_up_spellings()
        spellings_file()

    def score(self, answers: Sequence[Answer]) -> Scores:
        """Score the answers. An answer's own figure is not given: the rate is over all words."""
        normalize = english_normalizer()
        counts = [word_errors(a.text, a.sample.reference, normalize, self.letters) for a in answers]
        errors, words = sum(count[0] for count in counts), sum(count[1] for count in counts)
        count = Score(GEN_NUM, len(answers), "answers")
        figures = (count, *token_figures(answers, 1))
        if not words:
            why = "the references have no words"
            return Scores(figures, not_judged={WORD_ACCURACY: why, WORD_ERROR_RATE: why})
        rate = errors / words
        scores = (
            Score(WORD_ACCURACY, (1 - rate) * 100, "%"),
            Score(WORD_ERROR_RATE, rate * 100, "%"),
        )
        return Scores((*scores, *figures))


@lru_cache(maxsize=1)
def english_normalizer() -> Normalizer:
    """Whisper's normalizer of English. Raises UsageError if its table of spellings is missing."""
    table = json.loads(spellings_file().read_text(encoding="utf-8"))
    from transformers.models.whisper.english_normalizer import EnglishTextNormalizer

    return cast(Normalizer, EnglishTextNormalizer(table))


def word_errors(
    text: str, reference: str, normalize: Normalizer, letters: frozenset[str] = LETTERS
) -> tuple[int, int]:
    """The errors of an answer, and the words of its reference."""
    answer = _words(text.lower().strip(), normalize, letters)
    words = _words(reference, normalize, letters)
    joined, others = join_words(answer, words)
    return edit_distance(joined, others), len(words)


def _words(text: str, normalize: Normalizer, letters: frozenset[str]) -> list[str]:
    """The words of a text as they are compared; of one that the normalizer refuses, its own.

    The normalizer raises for some constructed numbers, which an answer can hold.
    """
    kept = "".join(filter(letters.__contains__, text))
    try:
        return normalize(kept).split()
    except (ArithmeticError, ValueError):
        return kept.split()


def join_words(answer: Sequence[str], reference: Sequence[str]) -> tuple[list[str], list[str]]:
    """Both texts with words joined that the other has as one word."""
    joined: tuple[list[str], list[str]] = ([], [])
    i = j = 0
    while i < len(answer) and j < len(reference):
        mine, others = _joint(
            answer[i : i + _MAX_JOINED_WORDS], reference[j : j + _MAX_JOINED_WORDS]
        )
        joined[0].append("".join(answer[i : i + mine]))
        joined[1].append("".join(reference[j : j + others]))
        i, j = i + mine, j + others
    return [*joined[0], *answer[i:]], [*joined[1], *reference[j:]]


def _joint(answer: Sequence[str], reference: Sequence[str]) -> tuple[int, int]:
    """How many words of the answer and of the reference, from their beginnings, make the same one;
    one of each if none do."""
    for count in range(1, _MAX_JOINED_WORDS + 1):
        if count <= len(reference) and "".join(reference[:count]) == answer[0]:
            return 1, count
        if count <= len(answer) and "".join(answer[:count]) == reference[0]:
            return count, 1
    return 1, 1


def edit_distance(one: Sequence[str], other: Sequence[str]) -> int:
    """The least number of words to add, drop or replace (Levenshtein's distance)."""
    import numpy as np

    numbers: dict[str, int] = {}
    columns = np.array([numbers.setdefault(word, len(numbers)) for word in other], dtype=np.int64)
    places = np.arange(len(other) + 1)
    row = places.copy()
    for word in one:
        best = row + 1
        replaced = row[:-1] + (columns != numbers.get(word, -1))
        np.minimum(best[1:], replaced, out=best[1:])
        # Adding words from the left, all at once: the least of best[k] + (j - k) over k <= j.
        row = np.minimum.accumulate(best - places) + places
    return int(row[-1])


EMBEDDED_SPEECH = Path(__file__).parent / "embedded" / "speech.json"
"""Four sentences of this project, spoken by eSpeak NG (scripts/make_speech.py)."""
RATE_HZ = 16_000
_PAUSES = 8
"""Before the package's own clips, in steps of 0.1 s."""
_MAX_CLIP_S = 30.0
"""Longer clips are left out, as officially: Whisper hears 30 s."""


def load_speech(source: str, token: str | None = None) -> Samples:
    """Read a manifest (JSON) and its clips, or (`embedded`) the package's own.

    A clip is found under the manifest's folder, by its name in the manifest or by the end of that
    name. `token` is unused because the files are local. Raises DatasetError.
    """
    path = EMBEDDED_SPEECH if source == "embedded" else Path(source).expanduser()
    try:
        samples = tuple(_samples(path))
    except OSError as error:
        raise DatasetError(f"--dataset {path}: cannot be read: {error.strerror or error}") from None
    if source == "embedded":
        samples = tuple(_after_pauses(samples))
    if not samples:
        raise DatasetError(f"--dataset {path}: no clip of at most {_MAX_CLIP_S:.0f} s")
    return Samples("embedded" if source == "embedded" else path.name, samples)


def _after_pauses(samples: Sequence[Sample]) -> Iterator[Sample]:
    """Each clip after several pauses: as many samples as show a rate that holds for more."""
    for number in range(_PAUSES):
        silence = bytes(2 * number * RATE_HZ // 10)
        for sample in samples:
            if isinstance(sample.media, Sound):
                sound = Sound(silence + sample.media.pcm, RATE_HZ)
                yield replace(sample, id=f"{sample.id}-{number}", media=sound)


def _samples(manifest: Path) -> Iterator[Sample]:
    for place, row in json_rows("--dataset", manifest):
        where = f"--dataset {manifest}: {place}"
        if not isinstance(row, Mapping):
            raise DatasetError(f"{where}: expected an object, found {type(row).__name__}")
        transcript, name = row.get("transcript"), _file_name(where, row)
        if not isinstance(transcript, str):
            raise DatasetError(f"{where}: 'transcript' is not a text")
        sound = _read_clip(where, _find_clip(where, manifest.parent, name))
        if sound.seconds <= _MAX_CLIP_S:
            yield Sample("", transcript, id=PurePosixPath(name).stem, media=sound)


def _file_name(where: str, row: Mapping[str, object]) -> str:
    """The clip at its own speed: the manifest lists the files of a sample."""
    files = row.get("files")
    for file in files if isinstance(files, list) else ():
        if isinstance(file, Mapping) and file.get("speed", 1) == 1:
            name = file.get("fname")
            if isinstance(name, str) and name:
                return name
    raise DatasetError(f"{where}: 'files' names no file of speed 1")


def _find_clip(where: str, folder: Path, name: str) -> Path:
    """The file of a clip, which lies below the folder wherever the manifest was made."""
    parts = [part for part in PurePosixPath(name).parts if part not in ("/", ".", "..")]
    for start in range(len(parts)):
        path = folder.joinpath(*parts[start:])
        if path.is_file():
            return path
    raise DatasetError(f"{where}: no file {name} below {folder}")


def _read_clip(where: str, path: Path) -> Sound:
    """The clip in a WAV file; of one that is too long, enough to show it."""
    try:
        with wave.open(str(path), "rb") as file:
            form = (file.getnchannels(), 8 * file.getsampwidth(), file.getframerate())
            frames = file.readframes(int(_MAX_CLIP_S * RATE_HZ) + 1)
    except (wave.Error, EOFError) as error:
        why = "it ends early" if isinstance(error, EOFError) else first_line(error)
        raise DatasetError(f"{where}: {path.name} is not a readable WAV file: {why}") from None
    if form != (1, 16, RATE_HZ):
        raise DatasetError(
            f"{where}: {path.name} has {form[0]} channels of {form[1]} bits at {form[2]:,} Hz; "
            f"MLPerf's repacked clips have one of 16 bits at {RATE_HZ:,} Hz"
        )
    if len(frames) < 2:
        raise DatasetError(f"{where}: {path.name} holds no sound")
    return Sound(frames, RATE_HZ)


_SAMPLES, _OWN_CLIPS, _SMOKE_TOKENS = 1_633, 32, 48
_REFERENCE = ReferenceAccuracy((at_least(WORD_ACCURACY, 100 - 2.0671),), _SAMPLES)


@dataclass(frozen=True, slots=True)
class TokensBesideMedia:
    """The same tokens for each sample, by their names, beside the sample's media."""

    tokens: tuple[str, ...]

    def check(self, samples: Sequence[Sample]) -> None:
        """Raise DatasetError for a sample without media."""
        for index, sample in enumerate(samples):
            if not isinstance(sample.media, Sound):
                raise DatasetError(f"--dataset: sample {index} has no sound")

    def encode(self, samples: Sequence[Sample], tokenizer: Any) -> list[MediaPrompt]:
        """Each sample's prompt. Raises DatasetError for one without media, and UsageError for a
        tokenizer without the tokens."""
        self.check(samples)
        ids = tokenizer.convert_tokens_to_ids(list(self.tokens))
        for name, token_id in zip(self.tokens, ids, strict=True):
            # An unknown token gets the id of another one.
            if token_id is None or tokenizer.convert_ids_to_tokens(token_id) != name:
                raise UsageError(f"--model: its tokenizer has no token {name}")
        return [MediaPrompt(ids, sample.media) for sample in samples if sample.media]

    def as_json(self) -> dict[str, object]:
        return {"prompt": "".join(self.tokens), "chat_template": False}


_OFFICIAL = Workload(
    model="openai/whisper-large-v3",
    model_identity=ModelIdentity(
        shape={
            "model_type": "whisper",
            "d_model": 1280,
            "encoder_layers": 32,
            "decoder_layers": 32,
            "num_mel_bins": 128,
            "vocab_size": 51866,
        },
        siblings=(
            SiblingModel("openai/whisper-large-v2", "num_mel_bins"),
            SiblingModel("openai/whisper-large-v3-turbo", "decoder_layers"),
        ),
    ),
    load=from_a_file("the manifest of its repacked clips (dev-all-repack.json)", load_speech),
    prompt=TokensBesideMedia(
        ("<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>")
    ),
    generation=Generation(max_new_tokens=200, min_new_tokens=0, top_k=0, seed=None),
    scorer=WordAccuracyScorer(),
    reference=_REFERENCE,
    # Of the references' lengths: some 75 words in clips that approach 30 s. Not published.
    mean_tokens=100,
    prompt_tokens=4,
    context=448,
    media="sound",
)


def _as_in_v5_1(workload: Workload) -> Workload:
    return replace(workload, scorer=WordAccuracyScorer(V5_1_LETTERS))


TEST01 = Audit(
    "test01",
    queries=_SAMPLES,
    logged=4096,
    compares=True,
    also_verified_in="verify_performance.txt",
)
WHISPER = Benchmark(
    "whisper",
    "datacenter",
    _SAMPLES,
    (offline("whisper"),),
    ALL_ROUNDS,
    # The id of <|endoftext|>.
    (50257,),
    _REFERENCE,
    (TEST01,),
    workload=_OFFICIAL,
    smoke=replace(
        _OFFICIAL,
        model=RANDOM_WHISPER,
        model_identity=UNKNOWN_IDENTITY,
        load=load_speech,
        dataset="embedded",
        generation=replace(_OFFICIAL.generation, max_new_tokens=_SMOKE_TOKENS),
        mean_tokens=_SMOKE_TOKENS,
        ungated="random weights: no answer is meant",
        own_samples=_OWN_CLIPS,
    ),
    counted_as=COUNTED_IN_A_SENTENCE,
    required=(("Offline",),),
    by_round={"v5.1": _as_in_v5_1},
    answers_as_text=True,
    # `labels` in accuracy_eval.py: space, a to z, the apostrophe, digits and $%+-.
    letters=42,
    also="edge",
)
BENCHMARKS = (WHISPER,)
