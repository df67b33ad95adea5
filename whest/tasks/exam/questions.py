"""Questions: a prefix, the answer that follows it, and a family. An exam is a JSONL file of questions with a sha256."""

import hashlib
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from whest.cases.exam import Question, QuestionSet
from whest.errors import ConfigError

PREFIX_BYTES = 1024
"""The longest prefix."""
ANSWER_BYTES = 256
LEAST_SHOWN = 8
"""Bytes of an answer that is looked for in other prefixes."""
MASK = b"_"
FIELDS = ("prefix", "answer", "family")


def write_questions(questions: Iterable[Question]) -> bytes:
    """The content of the file: one JSON object per line, in UTF-8."""
    rows = ({"prefix": q.prefix.decode(), "answer": q.answer.decode(), "family": q.family} for q in questions)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def read_questions(content: bytes, source: str) -> QuestionSet:
    """The questions in a file's content. `source` names the file in error messages."""
    lines = [line for line in content.split(b"\n") if line.strip()]
    if not lines:
        raise ConfigError(f"{source} has no questions: give a JSONL file with {', '.join(FIELDS)}")
    questions = tuple(_read_line(line, f"{source}, line {number}") for number, line in enumerate(lines, start=1))
    return QuestionSet(questions, hashlib.sha256(content).hexdigest())


def load_questions(path: Path, key: str) -> QuestionSet:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{key}={path} can't be read ({error.strerror}): give a JSONL file of questions") from None
    return read_questions(content, f"{key}={path}")


def mask_earlier(text: bytes, answers: Sequence[tuple[int, int]], asked: int, family: str) -> Question:
    """Make a question of one answer in a text: its prefix is the text before it, with all earlier answers masked.

    Earlier is what stands earlier in the text, in whichever order the answers are listed. So the questions of an exam
    are independent: no prefix contains the answer to another question.
    """
    shown, (start, end) = bytearray(text), answers[asked]
    for first, last in sorted(answers):
        if first < start:
            shown[first:last] = MASK * (last - first)
    prefix = bytes(shown[max(0, start - PREFIX_BYTES) : start]).decode(errors="ignore")  # half a character is dropped
    return Question(prefix.encode(), text[start:end], family)


def refuse_shown_answers(questions: Sequence[Question], source: str) -> None:
    """Refuse an exam in which the answer to one question stands in the prefix of another, where both can be read.

    Answers of fewer bytes than `LEAST_SHOWN` stand anywhere by chance.
    """
    heads: dict[bytes, list[int]] = {}
    for number, question in enumerate(questions):
        if len(question.answer) >= LEAST_SHOWN:
            heads.setdefault(question.answer[:LEAST_SHOWN], []).append(number)
    for shown, question in enumerate(questions):
        for place in range(len(question.prefix) - LEAST_SHOWN + 1):
            for asked in heads.get(question.prefix[place : place + LEAST_SHOWN], ()):
                if asked != shown and question.prefix.startswith(questions[asked].answer, place):
                    raise ConfigError(
                        f"{source}: the answer to question {asked + 1} stands in the prefix of question {shown + 1}: "
                        "mask it there, or leave one of them out"
                    )


def _read_line(line: bytes, where: str) -> Question:
    try:
        row: Any = json.loads(line)
        values = [row[name] for name in FIELDS]
    except (ValueError, KeyError, TypeError, IndexError):
        raise ConfigError(f"{where} is no question: each line must be a JSON object with {', '.join(FIELDS)}") from None
    if not all(isinstance(value, str) for value in values) or not values[2]:
        raise ConfigError(f"{where}: {', '.join(FIELDS)} must be strings, and family not empty")
    prefix, answer = (_encoded(value, where) for value in values[:2])
    if len(prefix) > PREFIX_BYTES:
        raise ConfigError(f"{where}: the prefix has {len(prefix)} bytes, the limit is {PREFIX_BYTES}: cut it")
    if not 1 <= len(answer) <= ANSWER_BYTES:
        raise ConfigError(f"{where}: the answer has {len(answer)} bytes, it must have 1 to {ANSWER_BYTES}")
    return Question(prefix, answer, values[2])


def _encoded(value: str, where: str) -> bytes:
    try:
        return value.encode()
    except UnicodeEncodeError:
        raise ConfigError(f"{where} has half a character, which is not valid UTF-8: correct the text") from None
