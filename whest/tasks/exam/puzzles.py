"""Families of small puzzles from a seed: the demo exam, its training text and its public validation set.

The exam has some families that the training text does not have: their rule must be found from the prompt. Each puzzle
is a line `name shown > answer`. Many answers depend on random letters and digits of the same line.
"""

import string
from collections.abc import Callable, Sequence
from random import Random

from whest.cases.exam import Question
from whest.tasks.exam.questions import mask_earlier

Puzzle = tuple[str, str]
"""The shown text and its answer."""
MASKED_SHARE = 0.1
"""The share of masked lines in the training text. An exam masks earlier answers, so a learner should know masks."""


def _word(random: Random, shortest: int, longest: int) -> str:
    return "".join(random.choices(string.ascii_lowercase, k=random.randint(shortest, longest)))


def copying(random: Random) -> Puzzle:
    word = _word(random, 3, 5)
    return f"copy {word}", word


def recalling(random: Random) -> Puzzle:
    """Find the value of a key. Keys and values are random in each line."""
    keys = random.sample(string.ascii_lowercase, random.randint(2, 4))
    values = {key: str(random.randrange(10)) for key in keys}
    pairs = " ".join(f"{key}={value}" for key, value in values.items())
    asked = random.choice(keys)
    return f"find {pairs} ; {asked}", values[asked]


def continuing(random: Random) -> Puzzle:
    """Continue a short pattern, which is repeated and then cut off."""
    pattern = _word(random, 2, 3)
    n_shown = random.randint(1, len(pattern) - 1)
    return f"goes on {' '.join([pattern] * 3)} {pattern[:n_shown]}", pattern[n_shown:]


def counting(random: Random) -> Puzzle:
    first, step = random.randrange(30), random.randint(1, 3)
    numbers = [str(first + i * step) for i in range(5)]
    return f"count {' '.join(numbers[:4])}", numbers[4]


def adding(random: Random) -> Puzzle:
    left, right = random.randrange(10), random.randrange(10)
    return f"add {left} {right}", str(left + right)


def doubling(random: Random) -> Puzzle:
    word = _word(random, 2, 3)
    return f"twice {word}", word + word


def ending(random: Random) -> Puzzle:
    word = _word(random, 3, 5)
    return f"last {word}", word[-1]


def reversing(random: Random) -> Puzzle:
    word = _word(random, 2, 4)
    return f"turn {word}", word[::-1]


def sorting(random: Random) -> Puzzle:
    word = "".join(random.sample(string.ascii_lowercase, 3))
    return f"order {word}", "".join(sorted(word))


FAMILIES: dict[str, Callable[[Random], Puzzle]] = {
    "copy": copying,
    "recall": recalling,
    "continue": continuing,
    "count": counting,
    "add": adding,
    "double": doubling,
    "last": ending,
    "reverse": reversing,
    "sort": sorting,
}

TRAINED = ("copy", "recall", "continue", "count", "add", "double", "last")
EXAMINED = ("copy", "recall", "continue", "count", "add", "reverse", "sort")
VALIDATED = ("copy", "recall", "continue", "add")
"""The validation set has fewer families than the exam."""


def demo_questions(seed: int, purpose: str, families: Sequence[str], n_questions: int) -> list[Question]:
    """Questions from the families in turn, each after one earlier line with a masked answer."""
    random = Random(f"{purpose} {seed}")
    asked = []
    for index in range(n_questions):
        family = families[index % len(families)]
        before, (shown, answer) = FAMILIES[random.choice(families)](random), FAMILIES[family](random)
        lines = f"{before[0]} > {before[1]}\n{shown} > {answer}\n".encode()
        first = len(f"{before[0]} > ")
        second = first + len(f"{before[1]}\n{shown} > ")
        spans = [(first, first + len(before[1])), (second, second + len(answer))]
        asked.append(mask_earlier(lines, spans, 1, family))
    return asked


def demo_text(seed: int, n_bytes: int) -> bytes:
    """Training text of `n_bytes` bytes: one puzzle per line, some with masked answers."""
    random = Random(f"text {seed}")
    lines: list[str] = []
    length = 0
    while length < n_bytes:
        shown, answer = FAMILIES[random.choice(TRAINED)](random)
        is_masked = random.random() < MASKED_SHARE
        lines.append(f"{shown} > {'_' * len(answer) if is_masked else answer}\n")
        length += len(lines[-1])
    return "".join(lines).encode()[:n_bytes]
