"""The weights of matrix_core's first layers in kerdock: the error for several numbers of layers and fadings.

    python benchmarks/fit_anchors.py              # 24 networks of 256x32

It takes ten minutes on two quiet cores, half of it for truth. There is one design per network. The shares of
`estimators.parts.chain.anchored` are min(1, (15 − layer)/fading), up to a last layer. The changes are paired, against
the exact first layer alone, on the networks for which the choice was made. The shipped suite confirms it.
"""

from functools import partial

import jax
import numpy as np
from training import networks, plus_minus

from estimators.kerdock import BELIEVED, Kerdock
from estimators.matrix_core import CORE_SHRINK, RADIAL, THINNED, MatrixCoreProp
from estimators.parts.chain import anchored
from whest.truth.fast import FastTruth

WIDTH, DEPTH, SEED, N_NETWORKS = 256, 32, 6170, 24
LAST = (2, 4, 6, 8, 10, 11, 12, 14)
FADINGS = (6, 8, 10, 12)


def main() -> None:
    nets = networks(WIDTH, DEPTH, SEED, N_NETWORKS, FastTruth(2, standard_error=3e-4))
    sample = jax.jit(partial(Kerdock(0.1, 1.0, 0.3, "none", 0, 0).designs, designs=1))
    analytic = jax.jit(MatrixCoreProp(RADIAL, CORE_SHRINK, "lean", False, 0, THINNED, False).means)
    correct = jax.jit(anchored, static_argnames="shares")
    shares = {
        (last, fading): tuple(min(1.0, (BELIEVED - layer) / fading) for layer in range(1, last + 1))
        for last in LAST
        for fading in FADINGS
    } | {(1, 1): (1.0,)}
    errors: dict[tuple[int, int], list[float]] = {choice: [] for choice in shares}
    for index, net in enumerate(nets):
        means, known = sample(net.weights, jax.random.key(index)), analytic(net.weights[: max(LAST) + 1])
        for choice, share in shares.items():
            answer = correct(means, net.weights, known[: choice[0]], shares=share)
            errors[choice].append(net.error(np.asarray(answer[-1])))
    first = np.array(errors[1, 1])
    print("| last layer | fading | raw MSE | paired change |\n|---|---|---|---|")
    for (last, fading), found in errors.items():
        change = (np.array(found) - first) / first.mean()
        print(f"| {last} | {fading} | {plus_minus(np.array(found))} | {plus_minus(change)} |", flush=True)


if __name__ == "__main__":
    main()
