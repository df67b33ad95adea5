"""What this machine does at best: the rate of a large product of matrices, and of reading and writing memory."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp

SIZE, LENGTH, N_ROUNDS, N_TRIES = 1024, 2**24, 4, 3
"""A product of 1024 × 1024 matrices; 64 MiB read and written four times, since new memory is slow at first."""


@dataclass(frozen=True)
class Machine:
    """The best of a few tries, in one process with the profile, before and after it."""

    flops_per_s: float
    bytes_per_s: float

    def bound(self, flops: float, n_bytes: float, seconds: float) -> str:
        """What limits a part: `compute`, `memory`, or `neither` if it takes over four times the longer of the two."""
        computing, moving = flops / self.flops_per_s, n_bytes / self.bytes_per_s
        if seconds > FAR * max(computing, moving):
            return "neither"
        return "compute" if computing >= moving else "memory"

    def better(self, other: "Machine") -> "Machine":
        """The better of two measurements: on a busy machine the other one was disturbed."""
        return Machine(max(self.flops_per_s, other.flops_per_s), max(self.bytes_per_s, other.bytes_per_s))


FAR = 4.0


def measure_machine(size: int = SIZE, length: int = LENGTH) -> Machine:
    square, line = jnp.ones((size, size)), jnp.ones(length)
    product = _fastest(jax.jit(lambda x: x @ x), square)
    passes = _fastest(jax.jit(lambda x: jax.lax.fori_loop(0, N_ROUNDS, lambda _, y: y + 1, x)), line)
    return Machine(2 * size**3 / product, N_ROUNDS * 2 * line.nbytes / passes)


def _fastest(function: Callable[[jax.Array], jax.Array], array: jax.Array) -> float:
    """Seconds of the fastest try; the first, which compiles, isn't one."""
    jax.block_until_ready(function(array))
    seconds = []
    for _ in range(N_TRIES):
        started = time.perf_counter()
        jax.block_until_ready(function(array))
        seconds.append(time.perf_counter() - started)
    return max(min(seconds), 1e-9)
