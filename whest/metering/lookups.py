"""What choosing by data costs: at least the bits of the choice, however it is made. Sorting is choosing too."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from jax import lax

from whest.metering.elementwise import choices, complex_factor, size

Aval = Any

Params = Mapping[str, Any]


def gather(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """log2 of the places per piece: a table can replace arithmetic. `fill` tests each index and each element."""
    places = prod(inputs[0].shape[axis] for axis in params["dimension_numbers"].start_index_map)
    pieces, parts = _pieces(inputs[1]), inputs[1].shape[-1]
    filled = params["mode"] == lax.GatherScatterMode.FILL_OR_DROP
    tests = pieces * 4 * parts + size(outputs[0]) * complex_factor(outputs, 2) if filled else 0
    return pieces * choices(places) + tests + _clipping(params, pieces * parts)


def scatter(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params, body: float) -> float:
    """log2 of the places per piece, then the update function per updated element, at least 1."""
    operand, indices, updates = inputs
    places = prod(operand.shape[axis] for axis in params["dimension_numbers"].scatter_dims_to_operand_dims)
    pieces = _pieces(indices)
    found = pieces * choices(places) + _clipping(params, pieces * indices.shape[-1])
    return found + size(updates) * max(complex_factor(outputs, 2), body)


def _pieces(indices: Aval) -> int:
    return prod(indices.shape[:-1])


def _clipping(params: Params, n_numbers: int) -> int:
    return n_numbers if params["mode"] == lax.GatherScatterMode.CLIP else 0


def dynamic_slice(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """⌈log2 places⌉ for the piece that is fetched."""
    return _one_piece(inputs[0], outputs[0])


def dynamic_update_slice(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """⌈log2 places⌉ for the piece that is put in its place."""
    return _one_piece(inputs[0], inputs[1])


def _one_piece(whole: Aval, piece: Aval) -> float:
    return choices(prod(n - m + 1 for n, m in zip(whole.shape, piece.shape, strict=True)))


def sort(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """n·log2 n comparisons per key, n being all elements: XLA's figure, which does not tell lanes apart."""
    n = size(inputs[0])
    return n * choices(n) * params["num_keys"] * complex_factor(inputs, 2)


def top_k(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """n·log2 n comparisons per lane."""
    axis = params.get("axis", params.get("reduction_dimension", -1))
    lane = inputs[0].shape[axis] if inputs[0].shape else 1
    return size(inputs[0]) * choices(lane)


def lu_pivots_to_permutation(inputs: Sequence[Aval], outputs: Sequence[Aval], params: Params) -> float:
    """Each pivot reads two places and writes two."""
    return size(inputs[0]) * 4 * choices(outputs[0].shape[-1] if outputs[0].shape else 1)
