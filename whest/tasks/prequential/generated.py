"""Generated text: a small language with rules that a learner can find, the same bytes on every machine.

Prose joins invented words to sentences of a fixed grammar; each document has its own few nouns. Records list fields,
and the last field follows from the others. Sums are right. Only `random.Random.random` is used, because Python
guarantees its sequence.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TypeVar

CONSONANTS, VOWELS = "b c d f g h k l m n p r s t v z".split(), "a e i o u ai ou".split()
COLOURS = "red green blue white black amber".split()
N_NOUNS, N_VERBS, N_ADJECTIVES = 300, 120, 100
TOPIC_WORDS = 10
DOCUMENT_CHARACTERS = 2000
T = TypeVar("T")


@dataclass(frozen=True)
class Vocabulary:
    """The words of a seed, which all its documents share."""

    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]


def invent_document(seed: int, index: int) -> bytes:
    """Document number `index` of a seed."""
    draw, words = Random(f"{seed}/{index}"), _vocabulary(seed)
    write = pick(draw, (_prose, _prose, _records, _sums))(draw, words)
    lines = [write()]
    while sum(map(len, lines)) < DOCUMENT_CHARACTERS:
        lines.append(write())
    return "".join([*lines, "\n"]).encode()


def pick(draw: Random, items: Sequence[T]) -> T:
    return items[int(draw.random() * len(items))]


def number(draw: Random, below: int) -> int:
    return int(draw.random() * below)


@cache
def _vocabulary(seed: int) -> Vocabulary:
    draw = Random(f"{seed}/vocabulary")

    def word() -> str:
        syllables = 1 + number(draw, 3)
        return "".join(pick(draw, CONSONANTS) + pick(draw, VOWELS) for _ in range(syllables)) + pick(draw, CONSONANTS)

    return Vocabulary(
        tuple(word() for _ in range(N_NOUNS)),
        tuple(word() + "s" for _ in range(N_VERBS)),
        tuple(word() for _ in range(N_ADJECTIVES)),
    )


def _prose(draw: Random, words: Vocabulary) -> Callable[[], str]:
    """A document uses only the nouns of its topic, so earlier text helps to predict later text."""
    topic = [pick(draw, words.nouns) for _ in range(TOPIC_WORDS)]

    def phrase() -> str:
        adjective = f"{pick(draw, words.adjectives)} " if draw.random() < 0.4 else ""
        return f"{pick(draw, ('the', 'the', 'a', 'no', 'every'))} {adjective}{pick(draw, topic)}"

    def sentence() -> str:
        text = f"{phrase()} {pick(draw, words.verbs)} {phrase()}"
        if draw.random() < 0.3:
            text += f" {pick(draw, ('because', 'while', 'and then'))} {phrase()} {pick(draw, words.verbs)}"
        return text[0].upper() + text[1:] + pick(draw, (". ", ". ", ".\n"))

    return sentence


def _records(draw: Random, words: Vocabulary) -> Callable[[], str]:
    """The total is the count times the price."""
    owners = [pick(draw, words.nouns) for _ in range(TOPIC_WORDS)]

    def record() -> str:
        count, price = 1 + number(draw, 9), 1 + number(draw, 20)
        return (
            f"owner: {pick(draw, owners)}; colour: {pick(draw, COLOURS)}; count: {count}; price: {price}; "
            f"total: {count * price}\n"
        )

    return record


def _sums(draw: Random, words: Vocabulary) -> Callable[[], str]:
    def line() -> str:
        left, right = number(draw, 100), number(draw, 100)
        sign, result = pick(draw, (("+", left + right), ("-", left - right)))
        return f"{left} {sign} {right} = {result}\n"

    return line
