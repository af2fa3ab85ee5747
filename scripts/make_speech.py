"""Make the speech of whisper's smoke form with eSpeak NG, which has to be installed.

    python -m scripts.make_speech

The sentences were written for this project. Each is spoken by the program `espeak-ng` and
converted to 16 kHz; the clips and their manifest replace those in the package.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import wave
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

from mlperf_suite.features.multimodal.whisper import EMBEDDED_SPEECH, RATE_HZ

SENTENCES = (
    "the server answered every request within a second",
    "please count the words that were heard",
    "a small test is better than none at all",
    "sound travels through air and water",
)


def _program() -> str:
    path = shutil.which("espeak-ng")
    if path is None:
        raise SystemExit("espeak-ng is not installed: install the Debian package espeak-ng")
    return path


def spoken(text: str) -> bytes:
    """The 16-bit samples of a text at 16 kHz."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "speech.wav"
        subprocess.run([_program(), "-v", "en-us", "-s", "200", "-w", str(path), text], check=True)
        with wave.open(str(path), "rb") as file:
            rate, frames = file.getframerate(), file.readframes(file.getnframes())
    samples = resample_poly(np.frombuffer(frames, dtype="<i2").astype(np.float64), RATE_HZ, rate)
    return bytes(samples.round().clip(-32768, 32767).astype("<i2").tobytes())


def main() -> None:
    folder, rows = EMBEDDED_SPEECH.parent, []
    for number, text in enumerate(SENTENCES, 1):
        name, pcm = f"speech-{number}.wav", spoken(text)
        with wave.open(str(folder / name), "wb") as file:
            file.setparams((1, 2, RATE_HZ, 0, "NONE", "not compressed"))
            file.writeframes(pcm)
        seconds = len(pcm) / 2 / RATE_HZ
        files = [{"fname": name, "speed": 1, "duration": seconds}]
        rows.append({"transcript": text, "files": files, "original_duration": seconds})
    EMBEDDED_SPEECH.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
