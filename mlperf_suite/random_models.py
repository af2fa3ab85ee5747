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


_BLIP_TOKENS = ("<|end|>", "<|begin|>", "<|user|>", "<|assistant|>", "<|system|>", "<image>")
_PATCH, _PICTURE, _PICTURE_TOKENS = 14, 56, 16
"""Patches and pictures in pixels; the tokens that a picture becomes."""
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content if part.type == 'text' %}{{ part.text }}{% endfor %}"
    "{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""BLIP-2's picture stands before all text, without a placeholder."""


def make_blip2(folder: Path) -> None:
    """A BLIP-2 of 0.9 million random weights, whose tokens are bytes.

    Qwen3-VL itself needs torchvision in transformers and vLLM, of which the package index has no
    CPU build; BLIP-2 does not.
    """
    import torch
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as Decoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import (
        Blip2Config,
        Blip2ForConditionalGeneration,
        Blip2Processor,
        BlipImageProcessorPil,
        PreTrainedTokenizerFast,
    )

    letters = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    of_bytes = Tokenizer(BPE(letters, []))
    of_bytes.pre_tokenizer, of_bytes.decoder = ByteLevel(add_prefix_space=False), Decoder()
    end, begin = _BLIP_TOKENS[:2]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=of_bytes, eos_token=end, pad_token=end, bos_token=begin
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(_BLIP_TOKENS[2:])})
    tokenizer.chat_template = _CHAT_TEMPLATE
    shape = {"hidden_size": _WIDTH, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {
        "model_type": "opt",
        **shape,
        "vocab_size": len(tokenizer),
        "ffn_dim": 2 * _WIDTH,
        "word_embed_proj_dim": _WIDTH,
        "max_position_embeddings": 8192,
        "init_std": 0.3,
        "eos_token_id": tokenizer.eos_token_id,
        "bos_token_id": tokenizer.bos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    sight = {**shape, "intermediate_size": 2 * _WIDTH, "image_size": _PICTURE}
    config = Blip2Config(
        text_config=text,
        vision_config={**sight, "patch_size": _PATCH},
        qformer_config={**shape, "intermediate_size": 2 * _WIDTH, "encoder_hidden_size": _WIDTH},
        num_query_tokens=_PICTURE_TOKENS,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
    )
    torch.manual_seed(0)
    Blip2ForConditionalGeneration(config).save_pretrained(folder)
    pictures = BlipImageProcessorPil(size={"height": _PICTURE, "width": _PICTURE})
    Blip2Processor(pictures, tokenizer, _PICTURE_TOKENS).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


RANDOM_WHISPER, RANDOM_BLIP2 = "random-whisper", "random-blip2"
RANDOM_MODELS: Mapping[str, Callable[[Path], None]] = {
    RANDOM_WHISPER: make_whisper,
    RANDOM_BLIP2: make_blip2,
}
"""By the model's name, the function that makes its folder."""
