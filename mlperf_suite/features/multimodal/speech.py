"""LibriSpeech as MLPerf repacks it: clips of up to 30 s, and a manifest with their transcripts.

Sources: utils/repackage_librispeech.py, manifest.py and QSL.py in speech2text/ of
mlcommons/inference. Clips are WAV files of one channel with 16 bits at 16 kHz.
"""

from __future__ import annotations

import wave
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath

from mlperf_suite.datasets.media import Sound
from mlperf_suite.datasets.samples import Sample, Samples, json_rows
from mlperf_suite.errors import DatasetError, first_line

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
