"""What tells a benchmark's model from its public siblings, as far as a model's files show it.

The values and siblings are in each benchmark's file. Source: config.json, generation_config.json
and the chat template of the named repositories on huggingface.co.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

EOS, TEMPLATE = "eos_token_id", "chat_template"
LLAMA_3_1_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
"""Llama 3.0 does not scale RoPE, and Llama 3.2 does by another factor."""


@dataclass(frozen=True, slots=True)
class SiblingModel:
    """A public model of the same architecture. `distinguished_by`: the fact of its files that tells
    it from the benchmark's, an entry of `ModelIdentity.shape`, `EOS` or `TEMPLATE`; empty if none
    does."""

    name: str
    distinguished_by: str = ""


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """How the files of a benchmark's model differ from those of its siblings.

    `shape`: entries of config.json; of an object, those that count. `eos`: an id among those that
    end an answer. `template`: a regular expression that its chat template matches.
    """

    shape: Mapping[str, object] = field(default_factory=dict)
    eos: int | None = None
    template: str = ""
    siblings: tuple[SiblingModel, ...] = ()

    def differences(self, facts: Mapping[str, object]) -> list[str]:
        """What shows that a model is another one, a few words each. `facts`: `model_facts`."""
        lines = [
            f"{name} {of_model}, not {value}"
            for name, value, of_model in _entries(self.shape, facts)
            if of_model != value
        ]
        ids, template = facts.get(EOS), facts.get(TEMPLATE)
        if self.eos is not None and isinstance(ids, list) and self.eos not in ids:
            lines.append(f"{EOS} {', '.join(map(str, ids))} without {self.eos}")
        if isinstance(template, str) and not re.search(self.template, template, re.DOTALL):
            lines.append("the chat template of another model")
        return lines

    def possible_models(self, facts: Mapping[str, object]) -> list[str]:
        """The siblings that a model may be, though its files show no difference."""
        return [
            s.name
            for s in self.siblings
            if not s.distinguished_by or facts.get(s.distinguished_by) is None
        ]


def _entries(
    shape: Mapping[str, object], facts: Mapping[str, object]
) -> Iterator[tuple[str, object, object]]:
    """Each entry's name and value, and a model's own value."""
    for name, value in shape.items():
        of_model = facts.get(name)
        if isinstance(value, Mapping):
            inner = of_model if isinstance(of_model, Mapping) else {}
            yield from ((f"{name}.{key}", v, inner.get(key)) for key, v in value.items())
        else:
            yield name, value, of_model


def model_facts(read: Callable[[str], str | None]) -> dict[str, object] | None:
    """What a model's files say of it: the entries of config.json, `EOS` as a list of all ids that
    end an answer, and `TEMPLATE` if it has one; None if there is no config.json.

    `read`: the text of a file by its name, None if there is none. Raises ValueError for a file that
    is not JSON.
    """

    def content(name: str) -> dict[str, object]:
        value = json.loads(read(name) or "{}")
        return value if isinstance(value, dict) else {}

    config = content("config.json")
    if not config:
        return None
    # transformers writes base and scaling to rope_parameters since 5.0, and "type" until 4.43.
    rope = config.get("rope_scaling") or config.get("rope_parameters")
    if isinstance(rope, dict):
        rope = {"rope_type": rope.get("type"), **rope}
    facts = config | {"rope_scaling": rope}
    values = [entry.get(EOS) for entry in (config, content("generation_config.json"))]
    ids = [i for value in values for i in (value if isinstance(value, list) else [value])]
    template = read("chat_template.jinja") or content("tokenizer_config.json").get(TEMPLATE)
    if isinstance(template, list):
        # Named templates, of which one is for a plain conversation.
        template = next((t.get("template") for t in template if t.get("name") == "default"), None)
    return facts | {EOS: [i for i in ids if i is not None] or None, TEMPLATE: template}
