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


_PALIGEMMA_TOKENS = ("<|end|>", "<|begin|>", "<|user|>", "<|assistant|>", "<|system|>", "<image>")
_PATCH, _PICTURE = 14, 56
"""In pixels; each picture becomes sixteen tokens."""
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content if part.type == 'text' %}{{ part.text }}{% endfor %}"
    "{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""PaliGemma's picture stands before all text, without a placeholder."""


def make_paligemma(folder: Path) -> None:
    """A PaliGemma of 0.3 million random weights, whose tokens are bytes.

    Qwen3-VL itself needs torchvision in transformers and vLLM, of which the package index has no
    CPU build; PaliGemma does not.
    """
    import torch
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as Decoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import (
        PaliGemmaConfig,
        PaliGemmaForConditionalGeneration,
        PaliGemmaProcessor,
        PreTrainedTokenizerFast,
        SiglipImageProcessorPil,
    )

    letters = {letter: number for number, letter in enumerate(sorted(ByteLevel.alphabet()))}
    of_bytes = Tokenizer(BPE(letters, []))
    of_bytes.pre_tokenizer, of_bytes.decoder = ByteLevel(add_prefix_space=False), Decoder()
    end, begin = _PALIGEMMA_TOKENS[:2]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=of_bytes, eos_token=end, pad_token=end, bos_token=begin
    )
    tokenizer.add_special_tokens({"additional_special_tokens": list(_PALIGEMMA_TOKENS[2:])})
    tokenizer.chat_template = _CHAT_TEMPLATE
    pictures = SiglipImageProcessorPil(size={"height": _PICTURE, "width": _PICTURE})
    pictures.image_seq_length = (_PICTURE // _PATCH) ** 2
    processor = PaliGemmaProcessor(pictures, tokenizer, chat_template=_CHAT_TEMPLATE)
    shape = {
        "hidden_size": _WIDTH,
        "intermediate_size": 2 * _WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    special = {"eos_token_id": tokenizer.eos_token_id, "bos_token_id": tokenizer.bos_token_id}
    text = {
        "model_type": "gemma",
        **shape,
        "vocab_size": len(processor.tokenizer),
        "num_key_value_heads": 1,
        "head_dim": _WIDTH // 2,
        "max_position_embeddings": 8192,
        "initializer_range": 0.3,
        "num_image_tokens": pictures.image_seq_length,
        "pad_token_id": tokenizer.pad_token_id,
        **special,
    }
    vision = {
        "model_type": "siglip_vision_model",
        **shape,
        "image_size": _PICTURE,
        "patch_size": _PATCH,
        "projection_dim": _WIDTH,
        "num_image_tokens": pictures.image_seq_length,
    }
    config = PaliGemmaConfig(
        text_config=text,
        vision_config=vision,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        projection_dim=_WIDTH,
        hidden_size=_WIDTH,
        **special,
    )
    torch.manual_seed(0)
    PaliGemmaForConditionalGeneration(config).save_pretrained(folder)
    processor.save_pretrained(folder)


RANDOM_WHISPER, RANDOM_PALIGEMMA = "random-whisper", "random-paligemma"
RANDOM_MODELS: Mapping[str, Callable[[Path], None]] = {
    RANDOM_WHISPER: make_whisper,
    RANDOM_PALIGEMMA: make_paligemma,
}
"""By the model's name, what makes its folder."""
