"""The prompts of recorded turns as the embedded model's tokenizer renders them."""

from __future__ import annotations

from transformers import AutoTokenizer

from mlperf_suite.assets import embedded_model_dir
from mlperf_suite.features.chats.agent_sessions import load_sessions
from mlperf_suite.features.chats.chat_prompts import EMBEDDED_TEMPLATE, ChatMessages


def test_prompts_carry_tools_and_arguments_as_objects() -> None:
    tokenizer = AutoTokenizer.from_pretrained(embedded_model_dir())
    prompt = ChatMessages(EMBEDDED_TEMPLATE)
    second = prompt.encode(load_sessions("embedded").items, tokenizer)[1]
    text = tokenizer.decode(second)
    assert '"name": "bash", "arguments": {"command": "grep' in text
    assert text.endswith("<|im_start|>assistant\n")
