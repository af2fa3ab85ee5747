"""Text in place of tokens, with the embedded model's own tokenizer."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.llama3_1_8b import LLAMA3_1_8B
from mlperf_suite.benchmarks.prompts import load_tokenizer
from mlperf_suite.engines.endpoint.exchanges import TextCodec
from mlperf_suite.session.inputs import Inputs
from mlperf_suite.settings import resolve_settings


@pytest.fixture(scope="module")
def codec() -> TextCodec:
    return TextCodec(str(embedded_model_dir()))


def test_a_prompts_text_is_the_same_tokens_again(codec: TextCodec) -> None:
    settings = resolve_settings({}, {})
    prompts = Inputs(settings, [LLAMA3_1_8B]).prompts(LLAMA3_1_8B)
    tokenizer = load_tokenizer(str(embedded_model_dir()), None)
    assert len(prompts) > 10
    for prompt in prompts:
        assert tokenizer(codec.prompt(list(prompt)))["input_ids"] == prompt


def test_tokens_are_counted_over_the_whole_text(codec: TextCodec) -> None:
    # One character of several tokens, none of which is a text of its own.
    assert len(codec.tokens("\N{GRINNING FACE}")) > 1
    assert codec.tokens("a summary") == codec.tokens("a") + codec.tokens(" summary")


def test_an_answer_that_ended_at_once_is_its_end_alone(codec: TextCodec) -> None:
    tokenizer = load_tokenizer(str(embedded_model_dir()), None)
    assert codec.tokens("") == [tokenizer.eos_token_id]


def test_what_a_server_puts_before_every_text_is_not_sent_twice(tmp_path: Path) -> None:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing

    tokenizer = Tokenizer(WordLevel({"<s>": 0, "a": 1, "b": 2}, unk_token="<s>"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing("<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    codec = TextCodec(str(tmp_path))
    assert codec.prompt([0, 1, 2]) == "a b"
    assert codec.prompt([1, 2]) == "a b"
    assert codec.tokens("a b") == [1, 2]
    assert codec.tokens("") == []
