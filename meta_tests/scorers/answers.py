"""Answers made of texts, for the tests of scorers: a token is a character."""

from hypothesis import strategies as st

from mlperf_suite.datasets.samples import Sample
from mlperf_suite.scorers.scorer import Answer

PAIRS = [
    ("The boat sank in the harbour. Nobody was hurt.", "The boats were sinking. All were saved."),
    (" Yes.\n", "Yes."),
    ("", "An answer."),
    ("Dr. Smith paid $3.5m for it", "Dr. Smith paid $3.5m."),
    ("船が沈んだ。", "The ship sank."),
]
"""Answers of OpenOrca and their references."""
ANY_TEXT = st.text(max_size=80) | st.lists(
    st.sampled_from(
        [
            *("ANSWER", "Answer: ", "FINAL ", ":", "(", ")", " ", "\n", "A", "d", "J", "\u0131"),
            *("\\boxed{", "}", "{", "7", ",", ".", "-", "```", "```python", "**", "\\frac", "^"),
            *("<|channel|>final", "<|message|>", "<|return|>", "The answer is ", "\nQ:", "|", "x"),
        ]
    ),
    max_size=12,
).map("".join)
"""Any text, and one made of what the scorers look for."""


def answer(text: str, reference: str, kind: str = "", id_: str = "") -> Answer:
    return Answer(Sample("asked", reference, None, kind, id_), tuple(map(ord, text)), text)
