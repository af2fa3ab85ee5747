"""The tiny speech model with random weights: another sound gets another answer."""

from __future__ import annotations

from pathlib import Path

from mlperf_suite.features.multimodal.whisper import WHISPER, load_speech
from mlperf_suite.random_models import RANDOM_MODELS, RANDOM_WHISPER


def test_the_random_whisper_hears_the_difference(tmp_path: Path) -> None:
    import torch
    from transformers import WhisperForConditionalGeneration, WhisperProcessor

    RANDOM_MODELS[RANDOM_WHISPER](tmp_path)
    processor = WhisperProcessor.from_pretrained(tmp_path)
    model = WhisperForConditionalGeneration.from_pretrained(tmp_path).eval()
    assert WHISPER.smoke is not None
    samples = load_speech("embedded").items[:4]
    answers = set()
    for prompt in WHISPER.smoke.prompt.encode(samples, processor.tokenizer):
        sound = prompt.media  # type: ignore[attr-defined]
        extract = processor.feature_extractor
        features = extract(sound.waveform(), sampling_rate=sound.rate_hz, return_tensors="pt")
        ids = torch.tensor([list(prompt)])
        with torch.no_grad():
            for _ in range(8):
                logits = model(**features, decoder_input_ids=ids).logits[0, -1]
                ids = torch.cat([ids, logits.argmax()[None, None]], 1)
        answers.add(tuple(ids[0].tolist()))
    assert len(answers) == len(samples)
