"""The plan of `truth=fast`: how samples are split into replicates of bases, and replicates into blocks of work."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int8

from whest.truth.designs import design_size, kerdock_signs
from whest.truth.rotations import bases_together
from whest.truth.truth import BLOCK_FLOPS, BLOCK_SAMPLES

REPLICATES = 8
"""The fewest replicates for a standard error, if `n_samples` pays for this many."""


@dataclass(frozen=True)
class Plan:
    """How samples are split into replicates and bases."""

    size: int
    """Dimension of the point set: the width, or the next larger dimension that has a design."""
    n_signed: int
    """Number of Hadamard bases in addition to the identity."""
    n_replicates: int

    @property
    def n_bases(self) -> int:
        return 1 + self.n_signed

    @property
    def points(self) -> int:
        return 2 * self.size * self.n_bases

    @property
    def signs(self) -> Int8[np.ndarray, "basis size"]:
        return kerdock_signs(self.size)[: self.n_signed] if self.n_signed else np.zeros((0, self.size), np.int8)


def plan(width: int, n_samples: int) -> Plan:
    """As many bases of the design as eight replicates can pay for, or only the identity basis of the width."""
    size, n_signed = design_size(width), 0
    if size is not None:
        together = bases_together(size)
        affordable = n_samples // (REPLICATES * 2 * size) - 1
        n_signed = min(size // 2, affordable // together * together)
    if size is None or n_signed <= 0:
        size, n_signed = width, 0
    return Plan(size, n_signed, max(2, math.ceil(n_samples / (2 * size * (1 + n_signed)))))


@dataclass(frozen=True)
class Block:
    """The work between two updates of the progress bar."""

    n_replicates: int
    """Replicates that run together: the same number on each device."""
    n_together: int
    """Replicates that are counted before the error bar is checked. It does not depend on the devices."""
    n_signed: int


def plan_block(layout: Plan, width: int, depth: int, n_devices: int) -> Block:
    """Several whole replicates per block if they are small, at most an eighth of all; else some bases of one."""
    affordable = min(BLOCK_SAMPLES, BLOCK_FLOPS // (2 * width**2 * depth))
    replicates = min(affordable // layout.points, -(-layout.n_replicates // REPLICATES))
    together = bases_together(layout.size)
    n_signed = max(1, affordable // (2 * layout.size * together)) * together
    taken = max(1, replicates)
    return Block(-(-taken // n_devices) * n_devices, taken, min(layout.n_signed, n_signed))
