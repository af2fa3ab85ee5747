"""Tiny models with random weights, for benchmarks whose kind of model no package carries.

They make the smoke forms run on real engines: the architecture, the tokens and the processing of
sound are real, and no answer is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

_WHISPER_TOKENS = (
    *("<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|translate|>", "<|transcribe|>"),
    *("<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"),
)
"""The special tokens, by Whisper's names."""
_WIDTH, _MEL_BINS = 64, 80


def make_whisper(folder: Path) -> None:
    """A Whisper of 0.3 million random weights, whose tokens are bytes."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import (
        WhisperConfig,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
        WhisperProcessor,
        WhisperTokenizer,
    )

    end = _WHISPER_TOKENS[0]
    vocabulary = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    tokenizer = WhisperTokenizer(
        vocab=vocabulary, merges=[], unk_token=end, bos_token=end, eos_token=end
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(_WHISPER_TOKENS[1:])})
    end_id = tokenizer.convert_tokens_to_ids(end)
    shape = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in {"layers": 1, "attention_heads": 2, "ffn_dim": 2 * _WIDTH}.items()
    }
    config = WhisperConfig(
        vocab_size=len(tokenizer),
        d_model=_WIDTH,
        # With the usual small weights, all sounds have the same answer.
        init_std=0.5,
        num_mel_bins=_MEL_BINS,
        pad_token_id=end_id,
        bos_token_id=end_id,
        eos_token_id=end_id,
        decoder_start_token_id=tokenizer.convert_tokens_to_ids(_WHISPER_TOKENS[1]),
        # Those of the published models are ids of their vocabulary.
        suppress_tokens=None,
        begin_suppress_tokens=None,
        **shape,
    )
    torch.manual_seed(0)
    WhisperForConditionalGeneration(config).save_pretrained(folder)
    extractor = WhisperFeatureExtractor(feature_size=_MEL_BINS)
    WhisperProcessor(extractor, tokenizer).save_pretrained(folder)


RANDOM_WHISPER = "random-whisper"
RANDOM_MODELS: Mapping[str, Callable[[Path], None]] = {RANDOM_WHISPER: make_whisper}
"""By the model's name, what makes its folder."""
