"""The answer at the end of a chain of thought: a letter, an integer, what is in a box, a program.

Source: language/deepseek-r1/eval_accuracy.py and language/gpt-oss-120b/eval_accuracy.py, whose
rules are the same but where a function says otherwise. Some of the official patterns take a time
that grows with the square or the cube of a run of spaces; those here find the same in linear time,
by taking each run whole (the possessive *+).
"""

from __future__ import annotations

import re

_LETTER_AFTER = {
    last: re.compile(
        rf"\b(?:FINAL)?ANSWER\b\s*+(?:[:=]\s*+)?+(?:\(\s*+)?+([A-{last}])(?![A-Za-z])", re.I
    )
    for last in "DJ"
}
"""The official pattern also takes "FINAL ANSWER" with a space and what follows the letter.

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
    """A text that was printed as a list of one string, as that string: brackets and quotes off."""
    if text.startswith(("['", '["')) and text.endswith(("']", '"]')):
        return text[2:-2].strip()
    return text


def unescaped(text: str) -> str:
    """Written line ends and quotes (a backslash and n or ') as the characters themselves."""
    return text.replace(r"\n", "\n").replace(r"\'", "'")


def letter_after_answer(text: str, last: str) -> str | None:
    """The letter after the last "answer", from A to `last` (D or J); None without any."""
    found = None
    for match in _LETTER_AFTER[last].finditer(text):
        found = match[1].upper()
    return found


def last_letter(text: str) -> str | None:
    """The last of A to J that stands alone; None without any."""
    found = _ANY_LETTER.findall(text)
    return found[-1].upper() if found else None


def is_choice(letter: str | None, reference: str, last: str) -> bool:
    """Whether a letter is the reference's, and one of A to `last`."""
    allowed = "ABCDEFGHIJ"[: ord(last) - ord("A") + 1]
    return letter is not None and letter in allowed and letter == reference.upper()


def boxed(text: str) -> str | None:
    r"""What the last \boxed{} holds; None where there is none or it is not closed."""
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
    r"""The integer of the last \boxed{}, or without any of the last "Answer:"; None above 999."""
    found = _BOXED_DIGITS.findall(text) or _ANSWERED_DIGITS.findall(text)
    if not found:
        return None
    try:
        value = int(found[-1])
    except ValueError:  # Python reads no integer of more than some thousands of digits.
        return None
    return value if value <= _HIGHEST_OF_AIME else None


def is_integer(value: int | None, reference: str) -> bool:
    """Whether an answer of AIME is the reference, which is read as an integer."""
    try:
        return value is not None and value == int(reference)
    except ValueError:
        return False


def programs(text: str) -> list[str]:
    """What is in each closed block of Python, in order."""
    return [program.strip() for program in _PYTHON_BLOCK.findall(text)]


def blocks(text: str) -> list[str]:
    """What is in each closed block of any language, in order, without Python's name before it."""
    return [_PYTHON_NAME.sub("", block.strip()) for block in _BLOCK.findall(text)]
