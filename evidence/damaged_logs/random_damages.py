"""Damages to a submission tree, drawn one after another: a value, a type, a line, bytes, a file."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from evidence.log_edits import Entry
from mlperf_suite.loadgen.logs import ACCURACY, DETAIL, SUMMARY
from mlperf_suite.rules.accuracy_files import ACCURACY_TXT

Item = TypeVar("Item")


@dataclass(frozen=True)
class Damage:
    """A damage that was made. `kind`: its row of the table. `words`: what was done."""

    kind: str
    file: Path
    words: str


class Tree:
    """A tree that can be damaged and made whole again."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.before = {
            path.relative_to(root): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file()
        }
        self._lines = {
            path: content.decode().split("\n")
            for path, content in self.before.items()
            if path.name in (DETAIL, SUMMARY)
        }

    def lines(self, file: Path) -> list[str]:
        """The lines of a detail log or a summary as they were, in a new list."""
        return list(self._lines[file])

    def write(self, file: Path, content: bytes) -> None:
        (self.root / file).write_bytes(content)

    def heal(self) -> None:
        """Put back each file that is not as it was."""
        for file, content in self.before.items():
            path = self.root / file
            if path.is_symlink() or (path.is_file() and path.read_bytes() != content):
                path.unlink()
            elif path.is_dir():
                shutil.rmtree(path)
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)


# What is drawn

Draw = Callable[[random.Random, Tree], Damage]
WRONG_TYPES: tuple[Any, ...] = (
    "",
    "x",
    None,
    True,
    False,
    [],
    {},
    [[1]],
    float("nan"),
    10**400,
    "\ud800",
)
_NOT_A_NUMBER = WRONG_TYPES[8:9]
KINDS: dict[str, Draw] = {}
"""Each kind of damage by its name."""


def kind(name: str) -> Callable[[Callable[[random.Random, Tree], tuple[Path, str]]], Draw]:
    """Register a function that makes a damage, and returns its file and its words."""

    def register(make: Callable[[random.Random, Tree], tuple[Path, str]]) -> Draw:
        def draw(rng: random.Random, tree: Tree) -> Damage:
            return Damage(name, *make(rng, tree))

        KINDS[name] = draw
        return draw

    return register


def pick(rng: random.Random, items: Iterable[Item]) -> Item:
    return rng.choice(list(items))


def pick_file(tree: Tree, rng: random.Random, *names: str) -> Path:
    return pick(rng, (path for path in tree.before if path.name in names))


def write_lines(tree: Tree, file: Path, lines: list[str]) -> None:
    tree.write(file, "\n".join(lines).encode("utf-8", errors="surrogatepass"))


Edit = Callable[[random.Random, Tree, list[str], int, Entry], str]
"""Changes the lines of a detail log, at the place of one of them, and says in words what it did."""


def line_kind(name: str) -> Callable[[Edit], Draw]:
    """As `kind`, of a change to the lines of a detail log."""

    def register(edit: Edit) -> Draw:
        def make(rng: random.Random, tree: Tree) -> tuple[Path, str]:
            file = pick_file(tree, rng, DETAIL)
            lines = tree.lines(file)
            at = rng.randint(0, len(lines) - 2)
            words = edit(rng, tree, lines, at, Entry.read(lines[at]))
            write_lines(tree, file, lines)
            return file, words

        return kind(name)(make)

    return register


def different(rng: random.Random, value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        factor = rng.choice([-1, 0, 0.1, 0.5, 0.9, 1.1, 1.5, 2, 10])
        changed = value * factor
        changed = type(value)(changed) if factor else type(value)(0)
        return changed if changed != value else value + 1
    if isinstance(value, list):
        where = rng.randint(0, len(value) - 1)
        how = rng.choice(["gone", "twice", "other", "swapped", "short"])
        return _other_list(value, where, how)
    if isinstance(value, dict):
        key = pick(rng, value)
        without = {k: v for k, v in value.items() if k != key}
        return without if rng.random() < 0.5 else value | {key: value[key][::-1]}
    return rng.choice([f"{value}x", str(value)[1:], "other", f" {value}"])


def _other_list(value: list[Any], at: int, how: str) -> list[Any]:
    before, item, after = value[:at], value[at], value[at + 1 :]
    if how == "swapped":
        return [*after, item, *before] if len(value) > 1 else []
    return {
        "gone": [*before, *after],
        "twice": [*before, item, item, *after],
        "other": [*before, item + 1, *after],
        "short": before,
    }[how]


def _change_value(lines: list[str], at: int, entry: Entry, new: object) -> str:
    old, entry.content["value"] = entry.content["value"], new
    lines[at] = entry.text
    return f"{entry.key}: {str(old)[:60]} -> {str(new)[:60]}"


@line_kind("a value in a detail log: a different value of the same type")
def _(rng: random.Random, tree: Tree, lines: list[str], at: int, entry: Entry) -> str:
    return _change_value(lines, at, entry, different(rng, entry.content["value"]))


@line_kind("a value in a detail log: a value of a different type")
def _(rng: random.Random, tree: Tree, lines: list[str], at: int, entry: Entry) -> str:
    value = entry.content["value"]
    numbers = () if isinstance(value, int | float) and not isinstance(value, bool) else (7, 0.5)
    wrong = [
        w for w in (*WRONG_TYPES, *numbers) if type(w) is not type(value) or w in _NOT_A_NUMBER
    ]
    return _change_value(lines, at, entry, rng.choice([*wrong, str(value), [value]]))


@line_kind("the metadata of a value: its timestamp, its flags")
def _(rng: random.Random, tree: Tree, lines: list[str], at: int, entry: Entry) -> str:
    name = rng.choice(["time_ms", "is_error", "is_warning", "pid", "tid", "line_no", "file"])
    holder = entry.content if name == "time_ms" else entry.content["metadata"]
    old = holder[name]
    if rng.random() < 0.5:
        holder[name] = different(rng, old)
    elif rng.random() < 0.5:
        del holder[name]
    else:
        holder[name] = rng.choice(["", [], float("nan"), None])
    lines[at] = entry.text
    return f"{name} of {entry.key}: {old} -> {holder.get(name, 'gone')}"


@line_kind("a line of a detail log is missing")
def _(rng: random.Random, tree: Tree, lines: list[str], at: int, entry: Entry) -> str:
    del lines[at]
    return f"without the line of {entry.key}"


@kind("several lines of a detail log are missing")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    file = pick_file(tree, rng, DETAIL)
    lines = tree.lines(file)
    first = rng.randint(0, len(lines) - 3)
    last = rng.randint(first + 1, len(lines) - 2)
    del lines[first : last + 1]
    write_lines(tree, file, lines)
    return file, f"without lines {first + 1} to {last + 1}"


@line_kind("a line of a detail log is duplicated")
def _(rng: random.Random, tree: Tree, lines: list[str], at: int, entry: Entry) -> str:
    lines.insert(rng.randint(0, len(lines) - 1), lines[at])
    return f"the line of {entry.key} twice"


@line_kind("a line of a detail log is moved")
def _(rng: random.Random, tree: Tree, lines: list[str], at: int, entry: Entry) -> str:
    line = lines.pop(at)
    to = rng.randint(0, len(lines) - 1)
    lines.insert(to, line)
    return f"the line of {entry.key}, {at + 1}, as line {to + 1}"


@line_kind("a line of a detail log is cut")
def _(rng: random.Random, tree: Tree, lines: list[str], at: int, entry: Entry) -> str:
    cut = rng.randint(1, len(lines[at]) - 1)
    lines[at] = lines[at][:cut] if rng.random() < 0.5 else lines[at][cut:]
    return f"the line of {entry.key} cut to {len(lines[at])} characters"


@line_kind("a line of another run in a detail log")
def _(rng: random.Random, tree: Tree, lines: list[str], at: int, entry: Entry) -> str:
    source = pick_file(tree, rng, DETAIL)
    same_key = [line for line in tree.lines(source) if f'"{entry.key}"' in line]
    lines[at] = same_key[0] if same_key else tree.lines(source)[at % 50]
    return f"the line of {entry.key} from {source}"


@kind("a malformed line in a log or a summary")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    file = pick_file(tree, rng, DETAIL, SUMMARY)
    lines = tree.lines(file)
    junk = rng.choice(["x", "\0\0", ":::MLLOG", ":::MLLOG {", ":::MLLOG []", "{}", "\ufffd"])
    at = rng.randint(0, len(lines) - 1)
    lines.insert(at, junk)
    write_lines(tree, file, lines)
    return file, f"{junk!r} before line {at + 1}"


@line_kind("a key of a detail log is renamed")
def _(rng: random.Random, tree: Tree, lines: list[str], at: int, entry: Entry) -> str:
    old = entry.key
    new = rng.choice([f"{old}_", old[1:], old.upper(), "", "result"])
    entry.content["key"] = new
    lines[at] = entry.text
    return f"{old} is called {new!r}"


_NUMBER = re.compile(r"\d+(?:\.\d+)?")


@kind("a figure in a text file: a summary, accuracy.txt")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    file = pick_file(tree, rng, SUMMARY, ACCURACY_TXT)
    text = tree.before[file].decode()
    figures = list(_NUMBER.finditer(text))
    if not figures:
        tree.write(file, b"1.0\n" + tree.before[file])
        return file, "1.0 before the first line"
    at = pick(rng, figures)
    old = float(at[0]) if "." in at[0] else int(at[0])
    new = different(rng, old)
    tree.write(file, f"{text[: at.start()]}{new}{text[at.end() :]}".encode())
    return file, f"{text[max(0, at.start() - 40) : at.start()].strip()!r} {at[0]} -> {new}"


@kind("a line of a text file is missing: a summary, accuracy.txt, an audit's verdict")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    file = pick_file(tree, rng, SUMMARY, ACCURACY_TXT, "verify_accuracy.txt")
    lines = tree.before[file].decode().split("\n")
    at = rng.randint(0, max(0, len(lines) - 2))
    line = lines.pop(at)
    tree.write(file, "\n".join(lines).encode())
    return file, f"without {line!r}"


@kind("an answer in an audit's log")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    file = pick(rng, (f for f in tree.before if f.name == ACCURACY and "TEST06" in f.parts))
    rows = json.loads(tree.before[file])
    at = rng.randint(0, len(rows) - 1)
    how = rng.choice(["gone", "twice", "key gone", "value", "type", "moved", "token", "short"])
    row, words = rows[at], f"answer {at}: {how}"
    if how == "gone":
        del rows[at]
    elif how == "twice":
        rows.insert(at, row)
    elif how == "moved":
        rows.append(rows.pop(at))
    elif how in ("token", "short"):
        text = row["data"]
        row["data"] = f"{int(text[:2], 16) ^ 1:02X}{text[2:]}" if how == "token" else text[:-8]
    else:
        key = pick(rng, row)
        words += f" {key}"
        if how == "key gone":
            del row[key]
        elif how == "type":
            wrong = [w for w in WRONG_TYPES if w != row[key]]
            row[key] = rng.choice(wrong)
        elif isinstance(row[key], str):
            row[key] = rng.choice([row[key][:-1], row[key] + "0B", "xyz", "0B000000"])
        else:
            row[key] = different(rng, row[key])
    tree.write(file, json.dumps(rows).encode("utf-8", errors="surrogatepass"))
    return file, words


@kind("a field of a JSON file: the system, the measurements")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    file = pick(rng, (f for f in tree.before if f.suffix == ".json" and f.name != ACCURACY))
    content = json.loads(tree.before[file])
    key = pick(rng, content)
    old = content[key]
    if rng.random() < 0.5:
        del content[key]
    else:
        content[key] = rng.choice([*WRONG_TYPES, "other"])
    tree.write(file, json.dumps(content).encode("utf-8", errors="surrogatepass"))
    return file, f"{key}: {old!r} -> {content.get(key, 'gone')!r}"


# Bytes of any file


@kind("bytes of a file are replaced")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    file = pick(rng, tree.before)
    raw = bytearray(tree.before[file])
    places = [rng.randint(0, len(raw) - 1) for _ in range(rng.randint(1, 8))]
    for at in places:
        raw[at] = rng.randint(0, 255)
    tree.write(file, bytes(raw))
    return file, f"bytes {places}"


@kind("bytes of a file are missing, duplicated or zero")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    file = pick(rng, tree.before)
    raw = tree.before[file]
    first = rng.randint(0, len(raw) - 1)
    last = rng.randint(first + 1, len(raw))
    how = rng.choice(["gone", "doubled", "zero"])
    middle = {"gone": b"", "doubled": raw[first:last] * 2, "zero": bytes(last - first)}[how]
    tree.write(file, raw[:first] + middle + raw[last:])
    return file, f"bytes {first} to {last} of {len(raw)} {how}"


@kind("a file is cut at its end")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    file = pick(rng, tree.before)
    raw = tree.before[file]
    length = rng.randint(0, len(raw) - 1)
    tree.write(file, raw[:length])
    return file, f"the first {length} of {len(raw)} bytes"


@kind("a file in another encoding")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    file = pick(rng, tree.before)
    text = tree.before[file].decode()
    how = rng.choice(["utf-16", "utf-8-sig", "CRLF", "CR"])
    ends = {"CRLF": "\r\n", "CR": "\r"}
    changed = text.replace("\n", ends[how]).encode() if how in ends else text.encode(how)
    tree.write(file, changed)
    return file, how


# Files


@kind("a file is missing, empty, noise, a folder or a link")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    file = pick(rng, tree.before)
    path = tree.root / file
    how = rng.choice(["gone", "empty", "noise", "a folder", "a link to itself"])
    path.unlink()
    if how == "a folder":
        path.mkdir()
    elif how == "a link to itself":
        path.symlink_to(path.name)
    elif how != "gone":
        path.write_bytes(rng.randbytes(rng.randint(1, 200)) if how == "noise" else b"")
    return file, how


@kind("a file has the content of another file")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    file = pick(rng, tree.before)
    same = rng.random() < 0.5
    different_files = [
        path
        for path, raw in tree.before.items()
        if raw != tree.before[file] and (not same or path.name == file.name)
    ]
    source = pick(rng, different_files or tree.before)
    tree.write(file, tree.before[source])
    return file, f"that of {source}"


@kind("a folder is missing")
def _(rng: random.Random, tree: Tree) -> tuple[Path, str]:
    folders = sorted({f.parent for f in tree.before if len(f.parts) > 5})
    folder = pick(rng, folders)
    shutil.rmtree(tree.root / folder)
    return folder, "gone"
