"""The speed of Strassen's product with 0 to 6 levels: seconds, and the rate counted by the dense product's FLOPs.

    python benchmarks/products.py                   # 1024 x 1024 x 1024
    python benchmarks/products.py 256 256 8192      # other sides

Levels are forced here, cheap or not. The figures depend on the machine; the shares of FLOPs don't.
"""

import sys
import time

import jax
import jax.numpy as jnp

from estimators.parts import strassen
from whest.metering.walk import meter


def seconds(levels: int, m: int, k: int, n: int, looped: int) -> float:
    """The fastest of three runs."""
    strassen.LOOPED = looped
    multiply = jax.jit(lambda a, b: strassen._multiply(a, b, levels))
    a, b = jnp.ones((m, k)), jnp.ones((k, n))
    multiply(a, b).block_until_ready()
    times = []
    for _ in range(3):
        started = time.perf_counter()
        multiply(a, b).block_until_ready()
        times.append(time.perf_counter() - started)
    return min(times)


def share(levels: int, m: int, k: int, n: int) -> float:
    shapes = jax.ShapeDtypeStruct((m, k), jnp.float32), jax.ShapeDtypeStruct((k, n), jnp.float32)
    return meter(lambda a, b: strassen._multiply(a, b, levels))(*shapes).flops / (2 * m * k * n)


def main() -> None:
    m, k, n = sides = tuple(int(word) for word in sys.argv[1:4]) if len(sys.argv) > 3 else (1024, 1024, 1024)
    print(f"| levels at {'x'.join(map(str, sides))} | share of the dense FLOPs | s, all at once | s, in loops |")
    print("|---|---|---|---|")
    looped = strassen.LOOPED
    for levels in range(7):
        if any(side % 2**levels for side in sides):
            break
        at_once, in_loops = (seconds(levels, m, k, n, least) for least in (2**62, looped))
        print(f"| {levels} | {share(levels, m, k, n):.3f} | {at_once:.3g} | {in_loops:.3g} |", flush=True)


if __name__ == "__main__":
    main()
