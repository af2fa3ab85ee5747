"""Prompts as token ids: the official text and cut, and the embedded model's chat wrapping."""

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.benchmarks.catalog import BENCHMARKS
from mlperf_suite.benchmarks.embedded import EMBEDDED
from mlperf_suite.benchmarks.llama3_1_8b import OFFICIAL
from mlperf_suite.benchmarks.prompts import SUMMARIZE, TextPrompt, load_tokenizer
from mlperf_suite.datasets.news import load_news
from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import UsageError
from mlperf_suite.session.scenario_runs import decoded

BOS = "<|begin_of_text|>"
OFFICIAL_TEXT = (
    "Summarize the following news article in 128 tokens. Please output the summary only, "
    "without any other text.\n\nArticle:\nARTICLE\n\nSummary:"
)


def news(*articles: str) -> list[Sample]:
    return [Sample(article, "highlights") for article in articles]


@pytest.fixture(scope="module")
def llama_like(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tokenizer of Llama's shape (byte level, BOS by post-processor), one token for each byte."""
    # Here, as each of pytest-xdist's workers collects this file.
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {symbol: number for number, symbol in enumerate([BOS, "<|eot_id|>", *alphabet])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BOS} $A", special_tokens=[(BOS, vocabulary[BOS])]
    )
    folder = tmp_path_factory.mktemp("llama-like")
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=BOS,
        eos_token="<|eot_id|>",
        model_max_length=131_072,
        # As Llama 3.1's configuration has it.
        clean_up_tokenization_spaces=True,
    )
    fast.save_pretrained(folder)
    return load_tokenizer(str(folder))


@pytest.fixture(scope="module")
def embedded() -> Any:
    return load_tokenizer(str(embedded_model_dir()))


def test_the_official_prompt_is_raw_text_with_one_bos(llama_like: Any) -> None:
    (prompt,) = OFFICIAL.prompt.encode(news("Two {boats} sank."), llama_like)
    assert prompt[0] == llama_like.bos_token_id
    assert prompt.count(llama_like.bos_token_id) == 1
    assert llama_like.eos_token_id not in prompt
    text = OFFICIAL_TEXT.replace("ARTICLE", "Two {boats} sank.")
    assert llama_like.decode(prompt[1:], clean_up_tokenization_spaces=False) == text
    assert len(prompt) == 1 + len(text)


def test_answers_are_decoded_as_the_reference_decodes_them(llama_like: Any) -> None:
    """With transformers 4.46.2, which cleans up spaces where the tokenizer asks for it."""
    text, clean = "It 's late , isn't it ? I 'm  .", "It's late, isn't it? I'm ."
    ids = llama_like(text, add_special_tokens=False)["input_ids"]
    assert decoded(llama_like, [ids], cleans_up_spaces=OFFICIAL.cleans_up_spaces) == [clean]
    assert decoded(llama_like, [ids]) == [text]
    workloads = {b.id: b.workload for b in BENCHMARKS.values() if b.workload}
    cleaned = {name for name, workload in workloads.items() if workload.cleans_up_spaces}
    assert {name.split("-")[0] for name in cleaned} >= {"llama3.1", "llama2"}


@pytest.mark.parametrize("article_tokens", [7_800, 7_900])
def test_the_official_prompt_is_cut_at_8000_tokens_on_the_right(
    llama_like: Any, article_tokens: int
) -> None:
    article = "".join(chr(ord("a") + i % 26) for i in range(article_tokens))
    (prompt,) = OFFICIAL.prompt.encode(news(article), llama_like)
    text = OFFICIAL_TEXT.replace("ARTICLE", article)
    assert len(prompt) == min(8000, 1 + len(text))
    again = llama_like.decode(prompt[1:], clean_up_tokenization_spaces=False)
    assert again == text[: len(prompt) - 1]


def test_the_embedded_prompts_are_one_user_message_in_the_models_own_template(
    embedded: Any,
) -> None:
    items = load_news("embedded").items
    prompts = [
        embedded.apply_chat_template(
            [{"role": "user", "content": OFFICIAL_TEXT.replace("ARTICLE", item.input)}],
            add_generation_prompt=True,
            tokenize=True,
            return_dict=False,
        )
        for item in items
    ]
    assert EMBEDDED.prompt.encode(items, embedded) == prompts
    assert all(embedded.decode(ids).endswith("<|im_start|>assistant\n") for ids in prompts)


def test_a_chat_template_with_bos_gets_no_second_one(llama_like: Any) -> None:
    llama_like.chat_template = (
        "{{ bos_token }}{% for message in messages %}{{ message.content }}{% endfor %}"
    )
    chat = TextPrompt(SUMMARIZE, chat=True)
    (prompt,) = chat.encode(news("Boats."), llama_like)
    assert prompt.count(llama_like.bos_token_id) == 1


def test_a_folder_without_a_tokenizer_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_tokenizer(str(tmp_path))
    message = str(caught.value)
    assert message.startswith(f"--model {tmp_path}: no tokenizer in this folder: ")
    assert len(message.splitlines()) == 1
