"""Benchmarks with sound or pictures: what a round changes, and what may not be changed."""

import json
import wave
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.datasets.media import MediaPrompt, Sound
from mlperf_suite.datasets.samples import Sample, Samples
from mlperf_suite.errors import DatasetError, UsageError
from mlperf_suite.features.multimodal.product_prompts import ProductPrompt
from mlperf_suite.features.multimodal.qwen3_vl import QWEN3_VL, HierarchicalF1Scorer
from mlperf_suite.features.multimodal.whisper import RATE_HZ, TokensBesideMedia, load_speech
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.settings import resolve_settings

WITH_MEDIA = [b for b in BENCHMARKS.values() if b.workload is not None and b.workload.media]


@pytest.mark.parametrize(
    ("profile", "round_", "longest"),
    [("smoke", "v6.0", 48), ("official", "v6.0", 2048), ("official", "v6.1", 150)],
)
def test_each_round_has_its_prompt_answer_limit_and_scorer(
    profile: str, round_: Any, longest: int
) -> None:
    options = {"benchmark": [QWEN3_VL.id], "profile": profile, "round": round_}
    workload = resolve_settings(options, {}).workload(QWEN3_VL)
    assert workload.prompt == ProductPrompt(round_)
    assert workload.scorer == HierarchicalF1Scorer(strips=round_ == "v6.1")
    limit = workload.generation.max_new_tokens
    assert limit == longest


@pytest.mark.parametrize("row", WITH_MEDIA, ids=lambda row: row.id)
def test_an_engine_that_is_not_given_the_media_is_refused(
    row: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_inputs = Inputs(resolve_settings({"benchmark": [row.id]}, {}), [row])
    run_inputs._check_media(row)
    source = SimpleNamespace(option="--elsewhere", takes=lambda media: False)
    monkeypatch.setattr("mlperf_suite.session.inputs.source_of", lambda _: source)
    words = f"--elsewhere: {row.id}'s prompts carry {row.smoke.media}"
    with pytest.raises(UsageError, match=words):
        run_inputs._check_media(row)


# LibriSpeech's repacked clips: manifest, WAV files, and prompts that carry the sound


def write_clip(path: Path, samples: int = 8, channels: int = 1, rate: int = RATE_HZ) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with wave.open(str(path), "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", "not compressed"))
        file.writeframes(np.arange(samples * channels, dtype="<i2").tobytes())


def row(name: str = "clips/a_0.wav", **changes: Any) -> dict[str, Any]:
    return {"transcript": "a b", "files": [{"fname": name, "speed": 1}]} | changes


def manifest(folder: Path, *rows: object) -> str:
    path = folder / "dev-all-repack.json"
    path.write_text(json.dumps(rows))
    return str(path)


def test_a_clip_of_more_than_30_s_is_left_out_as_officially(tmp_path: Path) -> None:
    write_clip(tmp_path / "clips/a_0.wav", 30 * RATE_HZ)
    write_clip(tmp_path / "clips/b_0.wav", 30 * RATE_HZ + 1)
    samples = load_speech(manifest(tmp_path, row(), row("clips/b_0.wav")))
    assert [sample.id for sample in samples.items] == ["a_0"]
    with pytest.raises(DatasetError, match="no clip of at most 30 s"):
        load_speech(manifest(tmp_path, row("clips/b_0.wav")))


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (3, "row 1: expected an object, found int"),
        (row(transcript=7), "row 1: 'transcript' is not a text"),
        (row(files=[]), "row 1: 'files' names no file of speed 1"),
        (row(files=[{"fname": "clips/a_0.wav", "speed": 0.9}]), "no file of speed 1"),
        (row("../../etc/passwd"), r"row 1: no file \.\./\.\./etc/passwd below"),
        (row("short.wav"), "short.wav is not a readable WAV file: it ends early"),
        (row("false.wav"), "false.wav is not a readable WAV file"),
        (row("empty.wav"), "empty.wav holds no sound"),
        (row("stereo.wav"), "stereo.wav has 2 channels of 16 bits at 16,000 Hz; MLPerf's"),
        (row("slow.wav"), "slow.wav has 1 channels of 16 bits at 8,000 Hz"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, entry: object, message: str) -> None:
    write_clip(tmp_path / "clips/a_0.wav")
    write_clip(tmp_path / "stereo.wav", channels=2)
    write_clip(tmp_path / "slow.wav", rate=8_000)
    write_clip(tmp_path / "empty.wav", samples=0)
    (tmp_path / "short.wav").write_bytes(b"RIFF")
    # Its header says that the sound is compressed.
    clip = bytearray((tmp_path / "clips/a_0.wav").read_bytes())
    clip[20:22] = (85).to_bytes(2, "little")
    (tmp_path / "false.wav").write_bytes(clip)
    with pytest.raises(DatasetError, match=message):
        load_speech(manifest(tmp_path, entry))


def test_the_packages_own_speech_is_short_and_each_clip_its_own() -> None:
    samples = load_speech("embedded")
    sounds = [s.media for s in samples.items if isinstance(s.media, Sound)]
    assert len({sound.sha256 for sound in sounds}) == len(samples.items) == 32
    assert all(1 < sound.seconds < 4 and abs(sound.waveform()).max() > 0.1 for sound in sounds)
    silent = replace(samples.items[0], media=Sound(bytes(4), RATE_HZ))
    changed = Samples(samples.name, (silent, *samples.items[1:]))
    assert changed.sha256 != samples.sha256


class Tokenizer:
    """Knows three tokens; any other one gets the id of the first."""

    NAMES = ("<|end|>", "<|start|>", "<|en|>")

    def convert_tokens_to_ids(self, tokens: list[str]) -> list[int]:
        return [self.NAMES.index(token) if token in self.NAMES else 0 for token in tokens]

    def convert_ids_to_tokens(self, token_id: int) -> str:
        return self.NAMES[token_id]


def test_a_prompt_carries_its_samples_sound() -> None:
    samples = load_speech("embedded").items[:2]
    prompts = TokensBesideMedia(("<|start|>", "<|en|>")).encode(samples, Tokenizer())
    assert [tuple(prompt) for prompt in prompts] == [(1, 2), (1, 2)]
    assert [prompt.media for prompt in prompts] == [sample.media for sample in samples]
    # As audio libraries read it; another prompt has another sound, as long as this one.
    sound = Sound(np.array([-32768, 0, 16384, 32767], dtype="<i2").tobytes(), RATE_HZ)
    assert sound.waveform().dtype == np.float32
    assert sound.waveform().tolist() == [-1.0, 0.0, 0.5, 32767 / 32768]
    other = MediaPrompt((1, 2), sound).other()
    assert isinstance(other, MediaPrompt) and isinstance(other.media, Sound)
    assert tuple(other) == (1, 2)
    assert other.media.waveform().tolist() == sound.waveform()[::-1].tolist()
    with pytest.raises(DatasetError, match="sample 0 has no sound"):
        TokensBesideMedia(("<|start|>",)).check([Sample("", "a")])
    with pytest.raises(UsageError, match=r"no token <\|fr\|>"):
        TokensBesideMedia(("<|fr|>",)).encode(samples, Tokenizer())
