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


_LLAVA_TOKENS = ("<|end|>", "<|user|>", "<|assistant|>", "<|system|>", "<image>")
_PATCH, _PICTURE = 14, 56
"""In pixels; each picture becomes sixteen tokens."""
_CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>"
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}"
    "{% endfor %}{% endif %}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def make_llava(folder: Path) -> None:
    """A LLaVA of 0.2 million random weights, whose tokens are bytes.

    Qwen3-VL itself would need torchvision for its processor, of which the package index has no CPU
    build.
    """
    import torch
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as Decoder
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from transformers import (
        CLIPImageProcessorPil,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        PreTrainedTokenizerFast,
    )

    bytes_ = Tokenizer(
        BPE({letter: i for i, letter in enumerate(sorted(ByteLevel.alphabet()))}, [])
    )
    bytes_.pre_tokenizer, bytes_.decoder = ByteLevel(add_prefix_space=False), Decoder()
    end = _LLAVA_TOKENS[0]
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=bytes_, eos_token=end, pad_token=end)
    tokenizer.add_special_tokens({"additional_special_tokens": list(_LLAVA_TOKENS[1:])})
    tokenizer.chat_template = _CHAT_TEMPLATE
    shape = {
        "hidden_size": _WIDTH,
        "intermediate_size": 2 * _WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    end_id = tokenizer.eos_token_id
    config = LlavaConfig(
        text_config={
            "model_type": "llama",
            **shape,
            "vocab_size": len(tokenizer),
            "num_key_value_heads": 2,
            "max_position_embeddings": 8192,
            "initializer_range": 0.3,
            "eos_token_id": end_id,
            "bos_token_id": end_id,
        },
        vision_config={
            "model_type": "clip_vision_model",
            **shape,
            "image_size": _PICTURE,
            "patch_size": _PATCH,
            "initializer_range": 0.3,
        },
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
        image_seq_length=(_PICTURE // _PATCH) ** 2,
        initializer_range=0.3,
    )
    torch.manual_seed(0)
    model = LlavaForConditionalGeneration(config)
    model.generation_config.eos_token_id = end_id
    model.save_pretrained(folder)
    side = {"height": _PICTURE, "width": _PICTURE}
    pictures = CLIPImageProcessorPil(size={"shortest_edge": _PICTURE}, crop_size=side)
    LlavaProcessor(
        pictures,
        tokenizer,
        patch_size=_PATCH,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        image_token="<image>",  # noqa: S106 - no secret
        chat_template=_CHAT_TEMPLATE,
    ).save_pretrained(folder)


RANDOM_WHISPER, RANDOM_LLAVA = "random-whisper", "random-llava"
RANDOM_MODELS: Mapping[str, Callable[[Path], None]] = {
    RANDOM_WHISPER: make_whisper,
    RANDOM_LLAVA: make_llava,
}
"""By the model's name, what makes its folder."""
