"""A case of the prequential task: one block of the stream."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from whest.cases.prediction import Failure
from whest.cost import Charge, Timing


@dataclass(frozen=True)
class HeldOut:
    """Bits per byte of text that the learner never saw: after training, and with its initial weights (the twin)."""

    trained_bpb: float
    twin_bpb: float


@dataclass(frozen=True)
class Guess:
    """One byte of held-out text, and the learner's most likely bytes."""

    before: str
    byte: int
    bits: float
    guesses: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class Closing:
    """The measures at the end of the stream."""

    held_out: HeldOut | None
    guesses: tuple[Guess, ...] = ()


@dataclass(frozen=True)
class Origin:
    """What is known of the programs that a run used."""

    program_bytes: int | None = None
    """All of them under gzip; None for a reference, which has none, and where no programs were made."""
    protections: Mapping[str, str] = field(default_factory=dict)
    """In force in every worker that the learner had; empty where it ran in this process."""
    constant_bytes: int | None = None
    """Of the constants in the programs."""


@dataclass(frozen=True)
class Block:
    """A part of the stream, with the nats per byte of each of its rows, measured before the row was learnt."""

    index: int
    name: str
    first_row: int
    row_losses: tuple[float, ...]
    rows_per_step: int
    row_length: int
    charges: tuple[Charge, ...]
    """The cost of its updates."""
    forward_flops: int
    """The harness's FLOPs for its losses. They are not charged to the learner."""
    flops_xla: float | None = None
    """XLA's count for its updates."""
    timing: Timing = field(default_factory=Timing)
    compile_time_s: float = 0.0
    closing: Closing | None = None
    """Set only on the last block."""
    origin: Origin = field(default_factory=Origin)
    failure: Failure | None = None
    """Why the run ended here: then this block has no losses."""

    @property
    def n_bytes(self) -> int:
        return len(self.row_losses) * self.row_length

    @property
    def flops(self) -> int:
        return sum(charge.flops for charge in self.charges)
