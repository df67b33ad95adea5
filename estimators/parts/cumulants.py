"""Moments and cumulants of one layer: all of the third order, and the important slices of the fourth.

Pre-activations z have a covariance S and joint cumulants κ; h = relu(z). The expansion in the cumulants, with w from
`wick`, is
    E[h_i^p]            = w(0,p) + κ_iii·w(3,p)/6 + κ_iiii·w(4,p)/24
    Cov(h_i^a, h_j^b)   = S·w(1,a)w(1,b) + ½κ_ijj·w(1,a)w(2,b) + ½κ_iij·w(2,a)w(1,b) + (½S² + ¼κ_iijj)·w(2,a)w(2,b)
with S, κ taken at (i, j) and i ≠ j: the closure that ARC's cumulant propagation calls simple. `Terms` lists more terms
of the same expansion, each with its own weight. The cumulants of h follow from its moments.
Cost: some hundred FLOPs per pair of neurons, and no product of matrices.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from estimators.parts.gaussian import SMALLEST_VARIANCE
from estimators.parts.sphere import on_sphere, radial_moment
from estimators.parts.wick import Vector, Wick

Square = Float[Array, "width width"]
Numbers = Float[Array, "order width"]
"""w(k, p) of one power p, for k from 1 to 5."""
Moments = tuple[Vector, Vector, Vector, Vector]
"""E[h], E[h²], E[h³], E[h⁴]."""


class Fourth(NamedTuple):
    """Fourth cumulants of pre-activations. The matrices hold them off the diagonal."""

    k4: Vector
    """κ_iiii."""
    k22: Square
    """κ_iijj."""
    k31: Square | None = None
    """κ_iiij, if a term needs it."""
    core: Square | None = None
    """W·B·Wᵀ if the core is a matrix B; then κ_ijkl is the mean over pairings of core ⊗ W·Wᵀ."""


Weight = float | Float[Array, ""] | None
"""None leaves a term out of the program."""


class Terms(NamedTuple):
    """Weights of terms beyond the simple closure; 1 is the expansion's own weight. (i ↔ j) is the symmetric term."""

    k31: Weight = None
    """⅙·κ_iiij·w(3,a)w(1,b) + (i ↔ j)."""
    skew: Weight = None
    """⅙·S·κ_iii·w(4,a)w(1,b) + (i ↔ j)."""
    bend: Weight = None
    """½·S·κ_iij·w(3,a)w(2,b) + (i ↔ j)."""
    cubic: Weight = None
    """⅙·S³·w(3,a)w(3,b)."""
    kurtosis: Weight = None
    """1/24·S·κ_iiii·w(5,a)w(1,b) + (i ↔ j)."""
    twist: Weight = None
    """1/12·κ_iij·κ_jjj·w(2,a)w(4,b) + (i ↔ j)."""
    square_skew: Weight = None
    """1/12·S²·κ_iii·w(5,a)w(2,b) + (i ↔ j)."""
    mixed: Weight = None
    """S·(¼·κ_iijj·w(3,a)w(3,b) + ⅙·κ_iiij·w(4,a)w(2,b) + (i ↔ j))."""
    gates: Weight = None
    """In the mean slope and bend of a ReLU, `Relu`: κ_iii·w(k+3,1)/6 + κ_iiii·w(k+4,1)/24."""
    legs: Weight = None
    """In the new source of κ₃, `Relu.legs`: its terms with κ_iij, κ_ijj and S²."""


class Inputs(NamedTuple):
    """Joint cumulants of a layer's pre-activations. The matrices hold them off the diagonal."""

    covariance: Square
    k3: Vector
    """κ_iii."""
    k21: Square
    """κ_iij."""
    fourth: Fourth


class Joint(NamedTuple):
    """Cov(h_i, h_j), Cov(h_i², h_j) and Cov(h_i², h_j²), zero on the diagonal; Cov(h_i³, h_j) if it is needed."""

    q11: Square
    q21: Square
    q22: Square
    q31: Square | None = None


class Outputs(NamedTuple):
    """Cumulants of a layer's activations. Only the covariance includes its diagonal."""

    mean: Vector
    covariance: Square
    k3: Vector
    k21: Square
    k4: Vector
    k22: Square
    k31: Square | None = None


class Relu(NamedTuple):
    """One layer's ReLU: its inputs and outputs, and what it does to the third cumulants (see `sources`)."""

    wick: Wick
    inputs: Inputs
    outputs: Outputs
    slope: Vector
    """E[relu′] of each neuron, which gates the old sources."""
    bend: Vector
    """E[relu″] of each neuron, the weight of the new source."""
    legs: Square
    """A of the new source: how neuron i depends on what bends at neuron r."""


def outer(x: Vector, y: Vector) -> Square:
    return x[:, None] * y


def off_diagonal(x: Square) -> Square:
    return jnp.where(jnp.eye(x.shape[0], dtype=bool), 0, x)


def moment(wick: Wick, p: int, k3: Vector, k4: Vector) -> Vector:
    return wick(0, p) + k3 * wick(3, p) / 6 + k4 * wick(4, p) / 24


def joint_moments(wick: Wick, inputs: Inputs, terms: Terms, with_31: bool = False) -> Joint:
    """A loop over the powers, which differ only in their Wick numbers: this is compiled once."""
    powers = ((1, 1), (2, 1), (2, 2), (3, 1))[: 4 if with_31 else 3]
    left, right = (jnp.stack([_numbers(wick, pair[side]) for pair in powers]) for side in (0, 1))
    return Joint(*jax.lax.map(lambda pair: _covariance(pair[0], pair[1], inputs, terms), (left, right)))


def _numbers(wick: Wick, power: int) -> Numbers:
    return jnp.stack([wick(k, power) for k in range(1, 6)])


def _covariance(left: Numbers, right: Numbers, inputs: Inputs, terms: Terms) -> Square:
    """Cov(h_i^a, h_j^b). Every term has a zero diagonal, so the sum has one too."""
    s, k3, k21, fourth = inputs

    def weigh(k: int, j: int) -> Square:
        return outer(left[k - 1], right[j - 1])

    q = s * weigh(1, 1) + 0.5 * (k21.T * weigh(1, 2) + k21 * weigh(2, 1))
    q = q + (0.5 * s * s + 0.25 * fourth.k22) * weigh(2, 2)
    if terms.k31 is not None and fourth.k31 is not None:
        q = q + terms.k31 / 6 * (fourth.k31 * weigh(3, 1) + fourth.k31.T * weigh(1, 3))
    if terms.skew is not None:
        q = q + terms.skew / 6 * s * (k3[:, None] * weigh(4, 1) + weigh(1, 4) * k3)
    if terms.bend is not None:
        q = q + terms.bend / 2 * s * (k21 * weigh(3, 2) + k21.T * weigh(2, 3))
    if terms.cubic is not None:
        q = q + terms.cubic / 6 * s**3 * weigh(3, 3)
    if terms.kurtosis is not None:
        q = q + terms.kurtosis / 24 * s * (fourth.k4[:, None] * weigh(5, 1) + weigh(1, 5) * fourth.k4)
    if terms.twist is not None:
        q = q + terms.twist / 12 * (k21 * k3 * weigh(2, 4) + k21.T * k3[:, None] * weigh(4, 2))
    if terms.square_skew is not None:
        q = q + terms.square_skew / 12 * s * s * (k3[:, None] * weigh(5, 2) + weigh(2, 5) * k3)
    if terms.mixed is not None and fourth.k31 is not None:
        crossed = fourth.k31 * weigh(4, 2) + fourth.k31.T * weigh(2, 4)
        q = q + terms.mixed * s * (fourth.k22 / 4 * weigh(3, 3) + crossed / 6)
    return q


def make_relu(wick: Wick, inputs: Inputs, outputs: Outputs, terms: Terms) -> Relu:
    """The ReLU with its slopes and legs. With k = κ_iij, and β_r = w(3,1)_r/(2·w(2,1)_r) = −α_r/(2σ_r),
        A_ir = Φ_i S_ir + ½w_i k_ir + β_r·(Φ_i k_ri + w_i S_ir²),   i ≠ r,
    so that w_r·A_ir A_jr has the next terms of κ(h_i, h_j, h_r), those with κ₃·S and S³, and no further matrix.
    """
    slope, bend, s, k21 = wick.gain, wick(2, 1), inputs.covariance, inputs.k21
    if terms.gates is not None:
        k3, k4 = terms.gates / 6 * inputs.k3, terms.gates / 24 * inputs.fourth.k4
        slope, bend = slope + k3 * wick(4, 1) + k4 * wick(5, 1), bend + k3 * wick(5, 1) + k4 * wick(6, 1)
    legs = slope[:, None] * s
    if terms.legs is not None:
        lean = -0.5 * wick.alpha / wick.sigma
        more = (0.5 * bend)[:, None] * k21 + lean * (slope[:, None] * k21.T + bend[:, None] * (s * s))
        legs = legs + terms.legs * more
    return Relu(wick, inputs, outputs, slope, bend, legs)


def moments_on_sphere(moments: Moments, joint: Joint, power: float) -> tuple[Moments, Joint]:
    """A first layer's moments for an input on the sphere: the Gaussian moments of degree p divided by a_p^power."""
    m1, m2, m3, _ = moments
    turned = Joint(
        off_diagonal(on_sphere(joint.q11, m1, m1, (1, 1), power)),
        off_diagonal(on_sphere(joint.q21, m2, m1, (2, 1), power)),
        off_diagonal(on_sphere(joint.q22, m2, m2, (2, 2), power)),
        None if joint.q31 is None else off_diagonal(on_sphere(joint.q31, m3, m1, (3, 1), power)),
    )
    first, second, third, fourth = (m / radial_moment(m1.shape[0], p, power) for p, m in enumerate(moments, start=1))
    return (first, second, third, fourth), turned


def cumulants(moments: Moments, joint: Joint) -> Outputs:
    m1, m2, m3, m4 = moments
    q11, q21, q22, q31 = joint
    variance = jnp.maximum(m2 - m1 * m1, SMALLEST_VARIANCE)
    k3 = m3 - 3 * m2 * m1 + 2 * m1**3
    k4 = m4 - 4 * m3 * m1 - 3 * m2**2 + 12 * m2 * m1**2 - 6 * m1**4
    k21 = q21 - 2 * m1[:, None] * q11
    k22 = q22 - 2 * (m1[:, None] * k21.T + k21 * m1) - 2 * q11 * q11 - 4 * outer(m1, m1) * q11
    k31 = None if q31 is None else q31 - 3 * m1[:, None] * q21 - 3 * (m2 - 2 * m1 * m1)[:, None] * q11
    return Outputs(m1, q11 + jnp.diag(variance), k3, k21, k4, k22, k31)
