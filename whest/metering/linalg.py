"""What products, factorisations and transforms cost. XLA can't see into LAPACK, so these are the textbook's formulas.

Complex ones do a complex multiply-add (8 real operations) where real ones do a real one (2): four times.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whest.metering.elementwise import size

Aval = Any

Params = Mapping[str, Any]


def dot_general(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """2 × batch × m × n × k; no discount for symmetry."""
    (contracted, _), _ = params["dimension_numbers"]
    return 2 * size(outputs[0]) * math.prod(inputs[0].shape[axis] for axis in contracted)


def convolution(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """2 per multiply-add; a product with padding or with a dilation's hole isn't one."""
    image, kernel = inputs
    lhs, rhs, out = params["dimension_numbers"]
    spatial = [
        _meetings(image.shape[lhs[i]], kernel.shape[rhs[i]], outputs[0].shape[out[i]], i - 2, params)
        for i in range(2, len(lhs))
    ]
    features = kernel.shape[rhs[0]] * kernel.shape[rhs[1]]
    batch = image.shape[lhs[0]] // params["batch_group_count"]
    return 2 * batch * features * math.prod(spatial)


def _meetings(image: int, kernel: int, result: int, axis: int, params: Params) -> int:
    """How often an element of the kernel meets one of the image along an axis."""
    stride, (low, _) = params["window_strides"][axis], params["padding"][axis]
    holes, spread = params["lhs_dilation"][axis], params["rhs_dilation"][axis]
    starts = np.arange(result)[:, None] * stride - low
    places = starts + np.arange(kernel)[None, :] * spread
    inside = (places >= 0) & (places < (image - 1) * holes + 1) & (places % holes == 0)
    return int(inside.sum()) if image else 0


def fft(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """5·n·log2 n real operations per complex transform, half for a real one."""
    length = math.prod(params["fft_lengths"])
    batch = max(size(inputs[0]), size(outputs[0])) / max(length, 1)
    is_real = any(np.dtype(aval.dtype).kind == "f" for aval in [*inputs, *outputs])
    return (2.5 if is_real else 5) * batch * length * math.log2(max(length, 2))


def _matrix(aval: Aval) -> tuple[int, int, int]:
    """Batch, rows, columns."""
    *batch, rows, columns = aval.shape
    return math.prod(batch), rows, columns


def cholesky(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """n³/3, and at least the n square roots: a matrix of one number is a square root."""
    batch, n, _ = _matrix(inputs[0])
    return batch * max(n**3 / 3, n)


def cholesky_update(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """n rotations of a row and the vector, 6 per pair of numbers, and each rotation's angle."""
    batch, n, _ = _matrix(inputs[0])
    return batch * (9 * n * n + 10 * n)


def lu(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """2n³/3, for m × n what elimination takes."""
    batch, m, n = _matrix(inputs[0])
    k = min(m, n)
    return batch * 2 * (m * n * k - (m + n) * k**2 / 2 + k**3 / 3)


def householder(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """Reflections of an m x n panel (geqrf), and as much again to form Q from them (orgqr)."""
    batch, m, n = _matrix(inputs[0])
    return batch * _householder_flops(m, n)


def ormqr(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """k reflections of every element of the matrix, a multiply-add twice."""
    return 4 * size(outputs[0]) * inputs[1].shape[-1]


def qr(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """Factor, then form Q: 4(m²n − mn² + n³/3) for the full Q, twice the factorisation for the thin one."""
    batch, m, n = _matrix(inputs[0])
    factor = _householder_flops(m, n)
    form = 4 * (m * m * n - m * n * n + n**3 / 3) if params.get("full_matrices") and m > n else factor
    return batch * (factor + form)


def _householder_flops(m: int, n: int) -> float:
    k = min(m, n)
    return 2 * k * k * (max(m, n) - k / 3) if m >= n else 2 * (m * m * n - m**3 / 3)


def triangular_solve(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """n² per right-hand side."""
    return size(inputs[1]) * inputs[0].shape[-1]


def eigh(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """9n³."""
    batch, n, _ = _matrix(inputs[0])
    return batch * 9 * n**3


def eig(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """25n³."""
    batch, n, _ = _matrix(inputs[0])
    return batch * 25 * n**3


def svd(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """Golub and Reinsch: 4m²n + 8mn² + 9n³ with both factors (m ≥ n), 4mn² − 4n³/3 for the values alone."""
    batch, rows, columns = _matrix(inputs[0])
    m, n = max(rows, columns), min(rows, columns)
    if not params.get("compute_uv", True):
        return batch * (4 * m * n * n - 4 * n**3 / 3)
    return batch * (4 * m * m * n + 8 * m * n * n + 9 * n**3)


def tridiagonal(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """4n³/3."""
    batch, n, _ = _matrix(inputs[0])
    return batch * 4 * n**3 / 3


def hessenberg(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """10n³/3."""
    batch, n, _ = _matrix(inputs[0])
    return batch * 10 * n**3 / 3


def tridiagonal_solve(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """8 per number of the answer."""
    return 8 * size(outputs[0])


def symmetric_product(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """α·A·Aᵀ + β·C."""
    return size(outputs[0]) * (2 * inputs[0].shape[-1] + 3)
