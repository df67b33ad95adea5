"""`truth=fast`: randomly turned spherical designs with a control variate: several times less variance per sample.

A replicate is a whole Kerdock design if `n_samples` pays for eight of them. Otherwise it is as many bases of the design
as eight replicates can pay for: each basis removes a share of the variance that a whole design removes. Replicates are
independent, so their spread gives the standard error. `whest.truth.rotations` has the arithmetic.

The control variate: E h₁ = ‖w‖/√(2π) is known exactly. The error of h₁'s sampled mean is carried to deeper layers by
J = ∏ W_l·diag(Φ_l). Φ_l (how often a neuron is on) comes from an independent pilot, so the result is unbiased for
every Φ.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt

from whest.mlp import MLP
from whest.truth.designs import mean_radius
from whest.truth.moments import MomentSamples
from whest.truth.plan import REPLICATES, Block, Plan, plan, plan_block
from whest.truth.rotations import Remaining, Surrogate, basis_sums, fold_rotations, replicate_mesh
from whest.truth.truth import MOST_SAMPLES, SampleCount, StandardError, State, Truth, is_small_enough

EXPECTED_GAIN = 3
"""Rough ratio of the variances of plain and of design samples: a first guess of the samples for a standard error."""

PILOT_SAMPLES = 2048
PILOT = np.uint32(2**32 - 1)
"""The pilot's key index; replicates count from zero."""

STATE = (
    "n_replicates",
    "total",
    "total_squares",
    "total_second_moment",
    "n_bases_begun",
    "begun",
    "begun_squares",
)


@dataclass(frozen=True)
class Replicates:
    """Running float64 sums: of mean activations over finished replicates, and over the bases of unfinished ones."""

    layout: Plan
    n_replicates: int
    total: Float[np.ndarray, "depth width"]
    total_squares: Float[np.ndarray, "depth width"]
    total_second_moment: Float[np.ndarray, " width"]
    """Of the final layer, for a Gaussian input."""
    n_bases_begun: int
    begun: Float[np.ndarray, "replicate depth width"]
    begun_squares: Float[np.ndarray, "replicate width"]
    first_layer: Float[np.ndarray, " width"]

    @property
    def n_samples(self) -> int:
        begun = len(self.begun) * 2 * self.layout.size * self.n_bases_begun
        return self.n_replicates * self.layout.points + begun

    @property
    def is_measured(self) -> bool:
        """Whether there are enough replicates for an error bar."""
        return self.n_replicates >= min(REPLICATES, self.layout.n_replicates)

    def plus_bases(
        self,
        n_bases: int,
        sums: Float[np.ndarray, "replicate depth width"],
        squares: Float[np.ndarray, "replicate width"],
    ) -> "Replicates":
        """Add bases to the unfinished replicates, or start new ones with them."""
        begun = self.n_bases_begun > 0
        return replace(
            self,
            n_bases_begun=self.n_bases_begun + n_bases,
            begun=self.begun + sums if begun else sums,
            begun_squares=self.begun_squares + squares if begun else squares,
        )

    def plus_replicates(self, weights: np.ndarray, gains: np.ndarray, wanted: int) -> "Replicates":
        """Finish the first `wanted` of the unfinished replicates; the others stay unfinished."""
        means = self.begun[:wanted] / self.layout.points
        means = with_chain(means, self.first_layer, weights, gains)
        to_gaussian = self.layout.size / mean_radius(self.layout.size) ** 2 / self.layout.points
        return replace(
            self,
            n_replicates=self.n_replicates + len(means),
            total=self.total + means.sum(axis=0),
            total_squares=self.total_squares + np.square(means).sum(axis=0),
            total_second_moment=self.total_second_moment + self.begun_squares[:wanted].sum(axis=0) * to_gaussian,
            n_bases_begun=self.n_bases_begun if wanted < len(self.begun) else 0,
            begun=self.begun[wanted:],
            begun_squares=self.begun_squares[wanted:],
        )

    def without_begun(self) -> "Replicates":
        return replace(self, n_bases_begun=0, begun=self.begun[:0], begun_squares=self.begun_squares[:0])

    def truth(self) -> Truth:
        n = self.n_replicates
        means = self.total / n
        spread = np.maximum(self.total_squares / n - means**2, 0)
        errors = np.sqrt(spread / max(n - 1, 1))
        means[0], errors[0] = self.first_layer, 0.0
        variance = max(0.0, float(np.mean(self.total_second_moment / n - means[-1] ** 2)))  # few samples: below 0
        return Truth(means.astype(np.float32), errors.astype(np.float32), variance, n * self.layout.points, n)

    def state(self) -> dict[str, np.ndarray]:
        """The state from which a stream can continue; the rest follows from the MLP."""
        return {name: np.asarray(getattr(self, name)) for name in STATE}


@dataclass(frozen=True)
class FastTruth:
    """Randomly rotated designs. `n_samples` is rounded up to whole replicates, at least two."""

    name: ClassVar[str] = "fast"
    version: ClassVar[int] = 3

    n_samples: SampleCount
    standard_error: StandardError | None = None
    resample: bool = False
    moments: bool = False
    moment_samples: MomentSamples = 2**18

    def stream(self, mlp: MLP, state: State | None = None) -> Iterator[Replicates]:
        weights, key = jnp.asarray(mlp.weights), jnp.asarray(mlp.key_samples)
        gains, pilot_variance = (np.asarray(part) for part in _pilot(weights, key, PILOT))
        layout = self._layout(mlp.width, float(pilot_variance))
        mesh = replicate_mesh()
        block = plan_block(layout, mlp.width, mlp.depth, mesh.size)
        surrogate, remaining = self._surrogate(weights, key, layout)
        if self.standard_error is not None:  # the plan was a guess: sample until the error bar is small enough
            layout = replace(layout, n_replicates=MOST_SAMPLES // layout.points)
        running = _begin(layout, mlp)
        if state is not None:
            running = _revive(layout, mlp, state, block.n_replicates)
            yield running
        while not self._is_done(running, block):
            indices = np.arange(block.n_replicates, dtype=np.uint32) + np.uint32(running.n_replicates)
            with jax.enable_x64(True):
                folded = fold_rotations(weights, key, indices, size=layout.size, mesh=mesh)
            while running.n_bases_begun < layout.n_bases:
                start = running.n_bases_begun
                end = min(layout.n_bases, max(start, 1) + block.n_signed)
                signs = jnp.asarray(layout.signs[max(start - 1, 0) : end - 1])
                left = surrogate.n_corrected - max(start - 1, 0) if surrogate else 0
                split: Any = {"surrogate": surrogate, "n_corrected": min(max(left, 0), len(signs))}
                how: Any = {"with_identity": start == 0, "mesh": mesh, "remaining": remaining, **split}
                with jax.enable_x64(True):
                    sums, squares = basis_sums(folded, weights, signs, **how)
                running = running.plus_bases(end - start, np.asarray(sums), np.asarray(squares))
                if end < layout.n_bases:
                    yield running
            while running.n_bases_begun and not self._is_done(running, block):
                step = block.n_together - running.n_replicates % block.n_together
                wanted = min(step, layout.n_replicates - running.n_replicates)
                running = running.plus_replicates(mlp.weights, gains, wanted)
            running = running.without_begun()
            yield running

    def _surrogate(self, weights: Array, key: Array, layout: Plan) -> tuple[Surrogate | None, Remaining | None]:
        """A cheaper network for most bases, and which neurons remain in it. Here: none, all bases go through f."""
        return None, None

    def _is_done(self, running: Replicates, block: Block) -> bool:
        """The error bar is checked after a fixed number of replicates, so the number of devices changes nothing."""
        if running.n_replicates >= running.layout.n_replicates:
            return True
        return running.n_replicates % block.n_together == 0 and is_small_enough(running, self.standard_error)

    def _layout(self, width: int, pilot_variance: float) -> Plan:
        if self.standard_error is None:
            return plan(width, self.n_samples)
        likely = pilot_variance / EXPECTED_GAIN / self.standard_error**2
        return plan(width, min(MOST_SAMPLES, max(2, math.ceil(likely))))


def _begin(layout: Plan, mlp: MLP) -> Replicates:
    zeros = np.zeros((mlp.depth, mlp.width))
    first_layer = np.linalg.norm(mlp.weights[0].astype(np.float64), axis=0) / math.sqrt(2 * math.pi)
    return Replicates(layout, 0, zeros, zeros, zeros[0], 0, zeros[None, :0], zeros[:0], first_layer)


def _revive(layout: Plan, mlp: MLP, state: State, together: int) -> Replicates:
    """Continue from a state. Unfinished replicates start again if another number of them ran at a time."""
    stored: dict[str, Any] = {name: state[name] for name in STATE}
    counts = {name: int(stored[name]) for name in ("n_replicates", "n_bases_begun")}
    revived = replace(_begin(layout, mlp), **stored | counts)
    return revived if len(revived.begun) == together else revived.without_begun()


def state_after(truth: Truth) -> dict[str, np.ndarray]:
    """The state of a draw whose replicates so far gave this truth. The next replicate is the next in number.

    So more samples can be added to a finished truth, with the rounding of its float32 means and errors.
    """
    n, means = truth.n_replicates, truth.means.astype(np.float64)
    assert n is not None, "truth without replicates has no running sums of them"
    spread = np.square(truth.standard_errors, dtype=np.float64) * (n - 1)
    return {
        "n_replicates": np.asarray(n),
        "total": n * means,
        "total_squares": n * (spread + means**2),
        "total_second_moment": n * (truth.avg_variance + means[-1] ** 2),
        "n_bases_begun": np.asarray(0),
        "begun": np.zeros((0, *means.shape)),
        "begun_squares": np.zeros((0, means.shape[1])),
    }


def with_chain(
    means: Float[np.ndarray, "replicate depth width"],
    first_layer: Float[np.ndarray, " width"],
    weights: Float[np.ndarray, "depth width width"],
    gains: Float[np.ndarray, "depth width"],
) -> Float[np.ndarray, "replicate depth width"]:
    """Carry the error of the first layer's sampled mean through the network, and correct each layer by it."""
    missing = first_layer - means[:, 0]
    corrected = [means[:, 0] + missing]
    for layer in range(1, len(weights)):
        missing = (missing @ weights[layer]) * gains[layer]
        corrected.append(means[:, layer] + missing)
    return np.stack(corrected, axis=1)


@jax.jit
def _pilot(
    weights: Float[Array, "depth width width"], key: UInt[Array, "2"], index: Array
) -> tuple[Float[Array, "depth width"], Float[Array, ""]]:
    """How often each neuron is on, and the final layer's mean variance, from samples with no other use."""
    h = jax.random.normal(
        jax.random.fold_in(jax.random.wrap_key_data(key), index), (PILOT_SAMPLES, weights.shape[1]), jnp.float32
    )
    gains = []
    for w in weights:
        h = jax.nn.relu(jnp.matmul(h, w, precision="highest"))
        gains.append((h > 0).mean(0))
    return jnp.stack(gains), h.var(axis=0).mean()
