"""A case of the prequential task: one block of the stream."""

from dataclasses import dataclass, field

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
    timing: Timing = field(default_factory=Timing)
    compile_time_s: float = 0.0
    closing: Closing | None = None
    """Set only on the last block."""

    @property
    def n_bytes(self) -> int:
        return len(self.row_losses) * self.row_length

    @property
    def flops(self) -> int:
        return sum(charge.flops for charge in self.charges)
