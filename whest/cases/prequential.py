"""A case of the prequential task: one block of the stream."""

from dataclasses import dataclass, field

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
    flops_xla: float | None = None
    """XLA's count for its updates."""
    timing: Timing = field(default_factory=Timing)
    compile_time_s: float = 0.0
    closing: Closing | None = None
    """On the last block alone."""

    @property
    def n_bytes(self) -> int:
        return len(self.row_losses) * self.row_length

    @property
    def flops(self) -> int:
        return sum(charge.flops for charge in self.charges)
