"""A comparison that goes on until it is decided: what is kept of it, and its verdict."""

import math
from dataclasses import dataclass

from whest.document import Json
from whest.scoring.sequential import FIRST, MIXTURE, Sequence

METHOD = "confidence sequence: normal-mixture sequential t test, widened for skewness"
IDENTICAL = 2 * FIRST
"""After so many equal scores the two are called the same."""


@dataclass(frozen=True)
class Spent:
    """What one side cost: the FLOPs and the seconds of its predictions."""

    flops: int
    seconds: float


@dataclass(frozen=True)
class Decision:
    """The two names, their scores, and what it took."""

    a: str
    b: str
    sequence: Sequence
    max_mlps: int
    spent: tuple[Spent, Spent]
    n_drawn: int
    """Truths that were drawn now; the others were in the cache."""
    truth_samples: int
    truth_seconds: float
    is_interrupted: bool = False

    @property
    def is_decided(self) -> bool:
        return self.sequence.is_decided

    @property
    def verdict(self) -> str:
        sequence, n = self.sequence, self.sequence.n
        if is_same(sequence):
            return f"{self.a} and {self.b} score the same on all {n} MLPs"
        if not sequence.is_decided:
            stopped = "interrupted" if self.is_interrupted else f"compare.max_mlps is {self.max_mlps}"
            return f"not decided after {n} MLPs ({stopped}): {self._lies(sequence)}"
        better, worse = (self.a, self.b) if sequence.a_is_better else (self.b, self.a)
        wins = sequence.wins if sequence.a_is_better else n - sequence.wins - sequence.ties
        return f"{better} is {how_much(sequence)} better than {worse}, decided after {n} MLPs ({wins} of {n}): " + (
            self._lies(sequence)
        )

    def _lies(self, sequence: Sequence) -> str:
        interval, level = sequence.interval, f"{100 * sequence.confidence:.3g} % at every look"
        if interval is None:
            return f"no interval before {FIRST} MLPs"
        what, low, high = "difference", interval.low, interval.high
        if sequence.scale == "log":
            what, low, high = "typical ratio", math.exp(low), math.exp(high)
        return f"the {what} of {self.a} to {self.b} lies in [{low:.3g}, {high:.3g}], {level}"

    @property
    def cost(self) -> str:
        sides = zip((self.a, self.b), self.spent, strict=True)
        each = [f"{spent.flops:.3g} FLOPs and {spent.seconds:.3g} s of {name}" for name, spent in sides]
        truth = f"{self.n_drawn} truths drawn now with {self.truth_samples:.3g} samples in {self.truth_seconds:.3g} s"
        return f"{self.sequence.n} MLPs: {', '.join(each)}; {truth}"

    def to_json(self) -> Json:
        sequence, interval = self.sequence, self.sequence.interval
        return {
            "method": METHOD,
            "mixture": MIXTURE,
            "scale": sequence.scale,
            "confidence": sequence.confidence,
            "is_decided": sequence.is_decided,
            "is_interrupted": self.is_interrupted,
            "n_mlps": sequence.n,
            "max_mlps": self.max_mlps,
            "mean": sequence.mean,
            "interval": None if interval is None else [interval.low, interval.high],
            "cost": {
                "flops": [one.flops for one in self.spent],
                "wall_time_s": [one.seconds for one in self.spent],
                "n_truths_drawn": self.n_drawn,
                "truth_samples": self.truth_samples,
                "truth_time_s": self.truth_seconds,
            },
        }


def how_much(sequence: Sequence) -> str:
    """The ratio, above 1; without one the difference."""
    ratio = sequence.ratio
    if ratio is None:
        return f"{abs(sequence.mean):.3g}"
    return f"{max(ratio, 1 / ratio):.3g}×"


def is_same(sequence: Sequence) -> bool:
    return sequence.n > 0 and sequence.a == sequence.b


def is_over(sequence: Sequence, max_mlps: int) -> bool:
    """Whether there is nothing more to wait for."""
    same = sequence.n >= IDENTICAL and is_same(sequence)
    return sequence.is_decided or same or sequence.n >= max_mlps


def look(sequence: Sequence, a: str, b: str) -> str:
    """One line of progress."""
    if is_same(sequence):
        return f"{sequence.n} MLPs: the same score on all of them"
    better, worse = (a, b) if sequence.a_is_better else (b, a)
    interval = sequence.interval
    if interval is None:
        return f"{sequence.n} MLPs: {better} is {how_much(sequence)} better than {worse} so far, no interval yet"
    ends = f"[{interval.low:.3g}, {interval.high:.3g}]"
    kind = "log-ratio" if sequence.scale == "log" else "difference"
    state = "decided" if sequence.is_decided else "open"
    return f"{sequence.n} MLPs: {better} is {how_much(sequence)} better than {worse} so far, {kind} in {ends}: {state}"


def is_told(n: int) -> bool:
    """The looks that get a line: a few per doubling, however long it takes."""
    steps = [round(FIRST * 2 ** (k / 2)) for k in range(64)]
    return n in steps
