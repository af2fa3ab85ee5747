"""Turns samples, and messages, into the tokens that the engine is given."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.errors import DatasetError, UsageError, first_line

SUMMARIZE = (
    "Summarize the following news article in 128 tokens. Please output the summary only, "
    "without any other text.\n\nArticle:\n{input}\n\nSummary:"
)
"""The prompt of the official data preparation (language/llama3.1-8b/download_cnndm.py)."""

NO_TEMPLATE = (
    "--model: its tokenizer has no chat template, as those of base models: add a "
    "chat_template.jinja to the model's folder, or choose the model trained on instructions"
)


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """A template around the sample's input.

    `chat`: whether the text is wrapped in the model's chat template, as one user message; otherwise
    it is raw text with the tokenizer's BOS. `truncate_tokens`: the maximum length; longer prompts
    are cut on the right.
    """

    template: str
    chat: bool
    truncate_tokens: int | None = None

    def check(self, samples: Sequence[Sample]) -> None:
        """Accept any text."""

    def encode(self, samples: Sequence[Sample], tokenizer: Any) -> list[list[int]]:
        """Each sample's prompt as token ids, in order. Raises UsageError for a tokenizer without a
        chat template where one is to be used."""
        texts = [self.template.format(input=sample.input) for sample in samples]
        if self.chat:
            if not tokenizer.chat_template:
                raise UsageError(NO_TEMPLATE)
            messages = [[{"role": "user", "content": text}] for text in texts]
            texts = tokenizer.apply_chat_template(
                messages, add_generation_prompt=True, tokenize=False
            )
        encoded = tokenizer(
            texts,
            # A chat template adds its own special tokens.
            add_special_tokens=not self.chat,
            truncation=self.truncate_tokens is not None,
            max_length=self.truncate_tokens,
        )
        prompts: list[list[int]] = encoded["input_ids"]
        return prompts

    def as_json(self) -> dict[str, object]:
        return {"prompt": self.template, "chat_template": self.chat}


@dataclass(frozen=True, slots=True)
class PublishedTokens:
    """Prompts published as token ids, used unchanged."""

    def check(self, samples: Sequence[Sample]) -> None:
        """Raise DatasetError for a sample without tokens."""
        for index, sample in enumerate(samples):
            if sample.token_ids is None:
                raise DatasetError(
                    f"--dataset: sample {index} has no token ids: this benchmark's data is "
                    "published tokenized, and text is not tokenized again"
                )

    def encode(self, samples: Sequence[Sample], tokenizer: Any) -> Sequence[Sequence[int]]:
        """Each sample's prompt. Raises DatasetError for a sample without tokens."""
        self.check(samples)
        return [sample.token_ids or () for sample in samples]

    def as_json(self) -> dict[str, object]:
        return {"prompt": "token ids as published", "chat_template": False}


def load_tokenizer(model: str, token: str | None = None) -> Any:
    """The tokenizer of a folder or hub id. Raises UsageError if there is none."""
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(model, token=token, trust_remote_code=False)
    # transformers and the hub client raise many kinds of error; all mean the same here.
    except Exception as error:
        kind = "folder" if Path(model).is_dir() else "hub id"
        raise UsageError(
            f"--model {model}: no tokenizer in this {kind}: {first_line(error)}"
        ) from error


def end_of_text_ids(model: str, tokenizer: Any, token: str | None = None) -> tuple[int, ...]:
    """The model's EOS ids: those of its generation config, or else its tokenizer's."""
    from transformers import GenerationConfig

    try:
        ids = GenerationConfig.from_pretrained(model, token=token).eos_token_id
    except OSError:
        ids = None
    ids = tokenizer.eos_token_id if ids is None else ids
    return tuple(ids) if isinstance(ids, list) else (ids,)


Json = Mapping[str, Any]


def in_template(
    messages: Sequence[Json], tools: Sequence[Json] | None, tokenizer: Any, **arguments: Any
) -> list[int]:
    """The tokens of messages as they are in a tokenizer's chat template, which gets the arguments.

    Raises UsageError if the template refuses them, or there is none.
    """
    try:
        options = {"add_generation_prompt": True, **arguments, "return_dict": False}
        tokens: list[int] = tokenizer.apply_chat_template(messages, tools=tools, **options)
    # jinja2 raises errors of its own, and transformers ValueError without a template; a template
    # may also do with a tool's schema what Python refuses.
    except Exception as error:
        raise UsageError(f"--model: its chat template fails: {first_line(error)}") from error
    return tokens


def with_objects(message: Json, empty: str = "") -> dict[str, Any]:
    """A message whose calls have an object as arguments, not its JSON. `empty`: for none."""
    ready = dict(message)
    if calls := message.get("tool_calls"):
        ready["tool_calls"] = [_with_object(call, empty) for call in calls]
    return ready


def _with_object(call: Any, empty: str) -> Any:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"] or empty)
    except (ValueError, RecursionError):
        return call
    if not isinstance(arguments, dict):
        return call
    return {**call, "function": {**function, "arguments": arguments}}
