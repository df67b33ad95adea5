"""A case of the prequential task: one block of the stream."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whest.cases.prediction import Failure
from whest.cost import Charge, Timing


@dataclass(frozen=True)
class HeldOut:
    """Bits a byte of text the learner never saw: as it is now, and as it was before it learnt anything."""

    trained_bpb: float
    twin_bpb: float


@dataclass(frozen=True)
class Guess:
    """One byte of held-out text, and what the learner expected."""

    before: str
    byte: int
    bits: float
    guesses: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Closing:
    """What is measured when the stream is spent."""

    held_out: HeldOut | None
    guesses: tuple[Guess, ...] = ()


@dataclass(frozen=True)
class Origin:
    """What is known of the programs that a run used."""

    program_bytes: int | None = None
    """All of them under gzip; None for a reference, which has none, and where no programs were made."""
    protections: Mapping[str, Any] = field(default_factory=dict)
    """In force in every worker that the learner had; empty where it ran in this process."""


@dataclass(frozen=True)
class Block:
    """A stretch of the stream: nats a byte of each of its rows, taken before they were learnt."""

    index: int
    name: str
    first_row: int
    row_losses: tuple[float, ...]
    rows_per_step: int
    row_length: int
    charges: tuple[Charge, ...]
    """What its updates cost."""
    forward_flops: int
    """What the harness spent on its losses, which nobody is charged for."""
    timing: Timing = field(default_factory=Timing)
    compile_time_s: float = 0.0
    closing: Closing | None = None
    """On the last block alone."""
    origin: Origin = field(default_factory=Origin)
    failure: Failure | None = None
    """Why the run ended here: then this block has no losses."""

    @property
    def n_bytes(self) -> int:
        return len(self.row_losses) * self.row_length

    @property
    def flops(self) -> int:
        return sum(charge.flops for charge in self.charges)
