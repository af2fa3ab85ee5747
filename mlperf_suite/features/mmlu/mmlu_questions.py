"""MMLU's subjects with their domains, published scores, and the questions from several sources.

One loader, `load_mmlu`, reads the questions embedded in the package, cais/mmlu from the Hugging
Face hub, and a local folder in one of the published layouts: CSV files named SUBJECT_dev.csv and
SUBJECT_test.csv, or parquet files named after their split, in a folder for each subject or with a
`subject` column.
"""

from __future__ import annotations

import csv
import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from mlperf_suite.datasets.samples import hub_table, parquet_rows
from mlperf_suite.errors import DatasetError, UsageError

HUB_REPOSITORY = "cais/mmlu"
LETTERS = ("A", "B", "C", "D")
CHANCE = 25.0
"""The score of random guessing, in percent."""
STANDARD_SHOTS = 5
SUBSETS = ("spread", "first")

DOMAINS: Mapping[str, tuple[str, ...]] = {
    "STEM": (
        *("abstract_algebra", "anatomy", "astronomy", "college_biology", "college_chemistry"),
        *("college_computer_science", "college_mathematics", "college_physics"),
        *("computer_security", "conceptual_physics", "electrical_engineering"),
        *("elementary_mathematics", "high_school_biology", "high_school_chemistry"),
        *("high_school_computer_science", "high_school_mathematics", "high_school_physics"),
        *("high_school_statistics", "machine_learning"),
    ),
    "Humanities": (
        *("formal_logic", "high_school_european_history", "high_school_us_history"),
        *("high_school_world_history", "international_law", "jurisprudence", "logical_fallacies"),
        *("moral_disputes", "moral_scenarios", "philosophy", "prehistory", "professional_law"),
        *("world_religions",),
    ),
    "Social Sciences": (
        *("econometrics", "high_school_geography", "high_school_government_and_politics"),
        *("high_school_macroeconomics", "high_school_microeconomics", "high_school_psychology"),
        *("human_sexuality", "professional_psychology", "public_relations", "security_studies"),
        *("sociology", "us_foreign_policy"),
    ),
    "Other": (
        *("business_ethics", "clinical_knowledge", "college_medicine", "global_facts"),
        *("human_aging", "management", "marketing", "medical_genetics", "miscellaneous"),
        *("nutrition", "professional_accounting", "professional_medicine", "virology"),
    ),
}
"""lm-eval's grouping (tasks/mmlu/default), under the names used in the results."""

DOMAIN_OF: Mapping[str, str] = {
    subject: domain for domain, subjects in DOMAINS.items() for subject in subjects
}
SUBJECTS: tuple[str, ...] = tuple(sorted(DOMAIN_OF))

PUBLISHED_SCORES: Mapping[str, tuple[float, str]] = {
    "meta-llama/Llama-3.1-8B-Instruct": (69.4, "Meta's model card, 5 shots, macro average"),
    "meta-llama/Llama-3.1-8B": (66.7, "Meta's model card, 5 shots, macro average"),
}
"""By model, the score in percent and its source, for models that score far above chance."""

EMBEDDED_MMLU = Path(__file__).parent / "mmlu.jsonl"
Split = Literal["dev", "test"]
_SPLITS: tuple[Split, ...] = ("dev", "test")


@dataclass(frozen=True, slots=True)
class Question:
    """One question with four choices; `answer` is the index of the right one."""

    question: str
    choices: tuple[str, ...]
    answer: int


@dataclass(frozen=True, slots=True)
class Mmlu:
    """The questions by subject: `dev` holds the worked examples, `test` the questions that are
    scored."""

    name: str
    dev: Mapping[str, tuple[Question, ...]]
    test: Mapping[str, tuple[Question, ...]]

    @property
    def sha256(self) -> str:
        """A fingerprint of the content that shows whether two runs used the same data."""
        content = [
            [[subject, [[q.question, q.choices, q.answer] for q in questions]]]
            for split in (self.dev, self.test)
            for subject, questions in sorted(split.items())
        ]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()

    def shots(self, number: int | None) -> int:
        """The number of worked examples to show: MMLU's five by default, one for the embedded data.

        Raises UsageError if a subject has fewer than requested.
        """
        count = (1 if self.name == "embedded" else STANDARD_SHOTS) if number is None else number
        fewest = min(self.test, key=lambda subject: len(self.dev.get(subject, ())))
        available = len(self.dev.get(fewest, ()))
        if count > available:
            raise UsageError(
                f"--mmlu-shots {count}: {fewest} has {available} worked examples in {self.name}; "
                f"must be 0 to {available}"
            )
        return count

    def selection(self, limit: int | None, subset: str = "spread") -> dict[str, range]:
        """The numbers of the questions to score, by subject; None means all.

        `limit` is a total. `subset`: `spread` takes no more than one question more of a subject
        than of another that still has some left; `first` takes all of a subject, in the order of
        their names, before the next. The first questions of each subject are taken.
        """
        sizes = {subject: len(self.test[subject]) for subject in sorted(self.test)}
        if limit is None or limit >= sum(sizes.values()):
            return {subject: range(size) for subject, size in sizes.items()}
        counts = dict.fromkeys(sizes, 0)
        rest = limit
        while rest:
            open_subjects = [s for s in sizes if counts[s] < sizes[s]]
            share = rest if subset == "first" else max(1, rest // len(open_subjects))
            for subject in open_subjects[:rest]:
                more = min(share, rest, sizes[subject] - counts[subject])
                counts[subject] += more
                rest -= more
        return {subject: range(count) for subject, count in counts.items() if count}


def load_mmlu(source: str, token: str | None = None) -> Mmlu:
    """Load the questions: `embedded`, `cais/mmlu` (from the hub), or a folder.

    Raises DatasetError that names the file, the line and the fault.
    """
    if source == "embedded":
        return _collected("embedded", _embedded_rows())
    if source == HUB_REPOSITORY:
        return _collected(HUB_REPOSITORY, _hub_rows(token))
    folder = Path(source).expanduser()
    if not folder.is_dir():
        raise DatasetError(
            f"--mmlu-data {source}: no such folder, and not one of the names "
            f"embedded, {HUB_REPOSITORY}"
        )
    return _collected(folder.resolve().name, _folder_rows(folder))


_Row = tuple[Split, str, Question]


def _collected(name: str, rows: Iterable[_Row]) -> Mmlu:
    questions: dict[Split, dict[str, list[Question]]] = {"dev": {}, "test": {}}
    for split, subject, question in rows:
        questions[split].setdefault(subject, []).append(question)
    if not questions["test"]:
        raise DatasetError(f"--mmlu-data {name}: no test questions in it")
    dev, test = ({s: tuple(qs) for s, qs in questions[split].items()} for split in _SPLITS)
    return Mmlu(name, dev, test)


def _subject(subject: object, place: str) -> str:
    """The subject, if it is an MMLU subject. Raises DatasetError that names the closest match."""
    if subject in SUBJECTS:
        return str(subject)
    near = difflib.get_close_matches(str(subject), SUBJECTS, 1, 0.0)[0]
    raise DatasetError(
        f"--mmlu-data {place}: MMLU has no subject '{subject}'; the nearest is '{near}'"
    )


def _embedded_rows() -> Iterator[_Row]:
    with EMBEDDED_MMLU.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            row = json.loads(line)
            place = f"{EMBEDDED_MMLU}: line {number}"
            yield row["split"], _subject(row["subject"], place), _question_of_mapping(row, place)


def _folder_rows(folder: Path) -> Iterator[_Row]:
    tables = sorted(folder.rglob("*.csv")), sorted(folder.rglob("*.parquet"))
    for path in tables[0]:
        subject, _, split = path.stem.rpartition("_")
        if split not in _SPLITS:
            if split == "val":
                continue
            raise DatasetError(
                f"--mmlu-data {path}: unexpected name, expected SUBJECT_dev.csv or SUBJECT_test.csv"
            )
        subject = _subject(subject, str(path))
        for question in _csv_questions(path):
            yield split, subject, question
    if not tables[0]:
        yield from _parquet_folder_rows(tables[1])
    if not any(tables):
        raise DatasetError(f"--mmlu-data {folder}: the folder holds no .csv and no .parquet file")


def _csv_questions(path: Path) -> Iterator[Question]:
    """The rows of a published CSV file, with or without a header; a row may span several lines."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = csv.reader(file, strict=True)
            while True:
                place = f"{path}: line {rows.line_num + 1}"
                row = next(rows, None)
                if row is None:
                    return
                if row and not (rows.line_num == 1 and row[0] == "question"):
                    yield _question_of_csv(row, place)
    except csv.Error as error:
        raise DatasetError(f"--mmlu-data {place}: not a CSV row: {error}") from error
    except UnicodeDecodeError as error:
        raise DatasetError(f"--mmlu-data {path}: not UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise DatasetError(f"--mmlu-data {path}: cannot be read: {error.strerror}") from error


def _question_of_csv(row: Sequence[str], place: str) -> Question:
    if len(row) != 2 + len(LETTERS):
        raise DatasetError(
            f"--mmlu-data {place}: expected 6 fields (question, four choices, answer), "
            f"found {len(row)}"
        )
    question, *choices, answer = row
    return _question(question, choices, answer.strip(), place)


def _question_of_mapping(row: Mapping[str, object], place: str) -> Question:
    for name in ("question", "choices", "answer"):
        if row.get(name) is None:
            raise DatasetError(f"--mmlu-data {place}: field '{name}' is missing")
    choices = row["choices"]
    if not isinstance(choices, Sequence) or isinstance(choices, str):
        raise DatasetError(f"--mmlu-data {place}: field 'choices' is not a list")
    return _question(row["question"], choices, row["answer"], place)


def _question(question: object, choices: Sequence[object], answer: object, place: str) -> Question:
    if not isinstance(question, str) or not question.strip():
        raise DatasetError(f"--mmlu-data {place}: the question is empty or not a text")
    if len(choices) != len(LETTERS) or not all(isinstance(c, str) for c in choices):
        raise DatasetError(f"--mmlu-data {place}: expected four choices, each a text")
    indices = {name: i for i, letter in enumerate(LETTERS) for name in (str(i), letter)}
    if str(answer) not in indices:
        raise DatasetError(
            f"--mmlu-data {place}: the answer is '{str(answer)[:40]}'; must be 0 to 3, or A to D"
        )
    return Question(question, tuple(map(str, choices)), indices[str(answer)])


def _parquet_folder_rows(paths: Sequence[Path]) -> Iterator[_Row]:
    of_split = [(s, p) for p in paths for s in _SPLITS if p.name.startswith(s)]
    # A copy of the hub repository has every question twice: by subject, and in `all`.
    by_subject = [(s, p) for s, p in of_split if p.parent.name != "all"]
    if of_split and not any(split == "test" for split, _ in by_subject):
        by_subject = of_split
    for split, path in by_subject:
        for number, row in parquet_rows("--mmlu-data", path):
            place = f"{path}: {number}"
            subject = row.get("subject") or path.parent.name
            yield split, _subject(subject, place), _question_of_mapping(row, place)


def _hub_rows(token: str | None) -> Iterator[_Row]:
    for split in _SPLITS:
        table = hub_table("--mmlu-data", HUB_REPOSITORY, "all", split, token, "FOLDER")
        for number, row in enumerate(table, 1):
            place = f"{HUB_REPOSITORY}: {split} row {number}"
            yield split, _subject(row.get("subject"), place), _question_of_mapping(row, place)
