"""The answer at the end of a chain of thought: a letter, an integer, a box's content, a program.

Source: language/deepseek-r1/eval_accuracy.py and language/gpt-oss-120b/eval_accuracy.py, whose
rules are the same unless a function says otherwise. Some of the official patterns take time
quadratic or cubic in the length of a run of spaces; those here find the same matches in linear
time, because they take each run whole (the possessive *+).
"""

from __future__ import annotations

import re

_LETTER_AFTER = {
    last: re.compile(
        rf"\b(?:FINAL)?ANSWER\b\s*+(?:[:=]\s*+)?+(?:\(\s*+)?+([A-{last}])(?![A-Za-z])", re.I
    )
    for last in "DJ"
}
"""The official pattern also takes "FINAL ANSWER" with a space and the text after the letter.

Neither changes which letter is the last one found: a match never ends within another's beginning.
"""
_ANY_LETTER = re.compile(r"\b([A-J])\b", re.I)
_BOX = r"\boxed{"
_BRACE = re.compile("[{}]")
_BOXED_DIGITS = re.compile(r"\\boxed{\s*(\d+)\s*}")
_ANSWERED_DIGITS = re.compile(r"Answer:\s*+(\d+)(?!\.)\b", re.I)
_HIGHEST_OF_AIME = 999
_PYTHON_BLOCK = re.compile("```python(.*?)```", re.S)
_BLOCK = re.compile("```(.*?)```", re.S)
_PYTHON_NAME = re.compile(r"^(?:python|py)\s*\n", re.I)


def unquoted(text: str) -> str:
    """The string inside a text that was printed as a list of one string: strips brackets and
    quotes."""
    if text.startswith(("['", '["')) and text.endswith(("']", '"]')):
        return text[2:-2].strip()
    return text


def unescaped(text: str) -> str:
    """Replaces escaped line ends and quotes (a backslash and n or ') by the characters
    themselves."""
    return text.replace(r"\n", "\n").replace(r"\'", "'")


def letter_after_answer(text: str, last: str) -> str | None:
    """The letter after the last "answer", from A to `last` (D or J); None if there is none."""
    found = None
    for match in _LETTER_AFTER[last].finditer(text):
        found = match[1].upper()
    return found


def last_letter(text: str) -> str | None:
    """The last letter from A to J that stands alone; None if there is none."""
    found = _ANY_LETTER.findall(text)
    return found[-1].upper() if found else None


def is_choice(letter: str | None, reference: str, last: str) -> bool:
    """Whether a letter is the reference's and in the range A to `last`."""
    allowed = "ABCDEFGHIJ"[: ord(last) - ord("A") + 1]
    return letter is not None and letter in allowed and letter == reference.upper()


def boxed(text: str) -> str | None:
    r"""The content of the last \boxed{}; None if there is none or it is not closed."""
    start = text.rfind(_BOX)
    if start < 0:
        return None
    start += len(_BOX)
    depth = 1
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return text[start : brace.start()].strip()
    return None


def aime_integer(text: str) -> int | None:
    r"""The integer in the last \boxed{}, or else after the last "Answer:"; None above 999."""
    found = _BOXED_DIGITS.findall(text) or _ANSWERED_DIGITS.findall(text)
    if not found:
        return None
    try:
        value = int(found[-1])
    except ValueError:  # Python parses no integers of more than a few thousand digits.
        return None
    return value if value <= _HIGHEST_OF_AIME else None


def is_integer(value: int | None, reference: str) -> bool:
    """Whether an AIME answer equals the reference, which is parsed as an integer."""
    try:
        return value is not None and value == int(reference)
    except ValueError:
        return False


def programs(text: str) -> list[str]:
    """The content of each closed Python block, in order."""
    return [program.strip() for program in _PYTHON_BLOCK.findall(text)]


def blocks(text: str) -> list[str]:
    """The content of each closed block in any language, in order, without a leading "python" or
    "py"."""
    return [_PYTHON_NAME.sub("", block.strip()) for block in _BLOCK.findall(text)]
