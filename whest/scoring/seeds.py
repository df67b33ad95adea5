"""Bias and noise: an estimator's error over its seeds, in the part that stays and the part that averages out."""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

Scores = Float[np.ndarray, " case"]


@dataclass(frozen=True)
class ErrorSplit:
    """An estimator's MSE in two parts: the bias stays when seeds are averaged, the noise averages out."""

    n_seeds: int
    n_mlps: int
    mse: float
    bias: float
    """Bias squared, without the truth's own noise. It is an unbiased estimate, so it can be below zero."""
    bias_se: float | None
    noise: float
    noise_se: float | None

    @property
    def noise_share(self) -> float | None:
        whole = self.bias + self.noise
        return min(1.0, self.noise / whole) if whole > 0 else None


def split_error(
    mses: Float[np.ndarray, "seed mlp"],
    predictions: Float[np.ndarray, "seed mlp width"],
    floors: Float[np.ndarray, " case"],
) -> ErrorSplit:
    """Bias and noise from replicates that differ only in their seed.

    With K predictions p_k of an MLP, `noise = mean_j Var_k(p_kj)` with K − 1 in the denominator is unbiased, and so is
    `bias² = mean_k MSE_k − noise − floor`. The floor is subtracted because the truth's error is common to all seeds
    and would look like bias.
    """
    n_seeds, n_mlps = mses.shape
    if n_seeds < 2:
        raise ValueError(f"n_seeds={n_seeds}: noise and bias can be separated only with 2 seeds or more")
    noise = predictions.astype(np.float64).var(axis=0, ddof=1).mean(axis=1)
    bias = mses.mean(axis=0) - noise - floors
    return ErrorSplit(
        n_seeds, n_mlps, float(mses.mean()), float(bias.mean()), _error(bias), float(noise.mean()), _error(noise)
    )


def _error(values: Scores) -> float | None:
    return float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else None
