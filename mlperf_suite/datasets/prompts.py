"""From a news item to the tokens that the engine is given."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlperf_suite.benchmarks.tasks import Task
from mlperf_suite.datasets.news import NewsItem
from mlperf_suite.errors import UsageError


def load_tokenizer(model: str, token: str | None = None) -> Any:
    """The tokenizer of a folder or hub id. Raises UsageError where there is none."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(model, token=token, trust_remote_code=False)
    # transformers and the hub's client raise many kinds of error; all mean the same here.
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        kind = "folder" if Path(model).is_dir() else "hub id"
        raise UsageError(f"--model {model}: no tokenizer in this {kind}: {reason}") from error


def end_of_text_ids(model: str, tokenizer: Any, token: str | None = None) -> tuple[int, ...]:
    """The model's EOS ids: its generation config's, which may be several, or its tokenizer's."""
    from transformers import GenerationConfig

    try:
        found = GenerationConfig.from_pretrained(model, token=token).eos_token_id
    except OSError:
        found = None
    found = tokenizer.eos_token_id if found is None else found
    return tuple(found) if isinstance(found, list) else (found,)


def encode_prompts(items: Sequence[NewsItem], task: Task, tokenizer: Any) -> list[list[int]]:
    """Each item's prompt as token ids, in order.

    The official task is raw text with the tokenizer's BOS, cut at 8,000 tokens; a chat task is
    one user message in the model's own template.
    """
    texts = [task.prompt.format(article=item.article) for item in items]
    if task.chat:
        messages = [[{"role": "user", "content": text}] for text in texts]
        texts = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    encoded = tokenizer(
        texts,
        # A chat template writes its own special tokens.
        add_special_tokens=not task.chat,
        truncation=task.truncate_prompt_tokens is not None,
        max_length=task.truncate_prompt_tokens,
    )
    prompts: list[list[int]] = encoded["input_ids"]
    return prompts
