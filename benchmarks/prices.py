"""The cost of the same operation by flopscope and by whest's meter: the table in docs/porting.md.

    make peer && python benchmarks/prices.py

Both meters run on the same shapes; no figure is copied. flopscope runs in the peer's own environment.
"""

import json
import os
import subprocess
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from peer import PEER, peer_bin

from whest.metering.meter import meter

N = 256
OPERATIONS: dict[str, tuple[str, str]] = {
    "`x + y`": ("x + y", "x + y"),
    "`x + y`, float64": ("X + Y", "X + Y"),
    "`x / y`": ("x / y", "x / y"),
    "`x**3`": ("x**3", "x**3"),
    "`exp(x)`": ("fnp.exp(x)", "jnp.exp(x)"),
    "`sqrt(x)`": ("fnp.sqrt(x)", "jnp.sqrt(x)"),
    "`maximum(x, 0)`": ("fnp.maximum(x, 0)", "jnp.maximum(x, 0)"),
    "`where(x > 0, x, y)`": ("fnp.where(x > 0, x, y)", "jnp.where(x > 0, x, y)"),
    "normal pdf": ("flops.stats.norm.pdf(x)", "jax.scipy.stats.norm.pdf(x)"),
    "normal cdf": ("flops.stats.norm.cdf(x)", "jax.scipy.stats.norm.cdf(x)"),
    "normal cdf, by `lax.erf`": ("flops.stats.norm.cdf(x)", "0.5 * (1 + jax.lax.erf(x * 0.7071067811865476))"),
    "`x @ y`": ("x @ y", "x @ y"),
    "`x @ y`, float64": ("X @ Y", "X @ Y"),
    "`x.T @ x`": ("x.T @ x", "x.T @ x"),
    "`x @ v`": ("x @ v", "x @ v"),
    "`einsum('ij,jk->ik', x, y)`": ("fnp.einsum('ij,jk->ik', x, y)", "jnp.einsum('ij,jk->ik', x, y)"),
    "`einsum('ij,ij->', x, y)`": ("fnp.einsum('ij,ij->', x, y)", "jnp.einsum('ij,ij->', x, y)"),
    "`outer(v, v)`": ("fnp.outer(v, v)", "jnp.outer(v, v)"),
    "`x.sum(axis=0)`": ("fnp.sum(x, axis=0)", "jnp.sum(x, axis=0)"),
    "`x.mean(axis=0)`": ("fnp.mean(x, axis=0)", "jnp.mean(x, axis=0)"),
    "`x.var(axis=0)`": ("fnp.var(x, axis=0)", "jnp.var(x, axis=0)"),
    "`cumsum(x, axis=0)`": ("fnp.cumsum(x, axis=0)", "jnp.cumsum(x, axis=0)"),
    "`sort(x, axis=0)`": ("fnp.sort(x, axis=0)", "jnp.sort(x, axis=0)"),
    "`cholesky(s)`": ("fnp.linalg.cholesky(s)", "jnp.linalg.cholesky(s)"),
    "`solve(s, v)`": ("fnp.linalg.solve(s, v)", "jnp.linalg.solve(s, v)"),
    "`eigh(s)`": ("fnp.linalg.eigh(s)", "jnp.linalg.eigh(s)"),
    "`svd(x)`": ("fnp.linalg.svd(x)", "jnp.linalg.svd(x)"),
    "`qr(x)`": ("fnp.linalg.qr(x)", "jnp.linalg.qr(x)"),
    "standard normals": (
        "fnp.random.default_rng(0).standard_normal((N, N))",
        "jax.random.normal(jax.random.key(0), (N, N))",
    ),
    "uniforms": ("fnp.random.default_rng(0).random((N, N))", "jax.random.uniform(jax.random.key(0), (N, N))"),
    "`x.T`": ("x.T", "x.T"),
    "`x[:10]`": ("x[:10]", "x[:10]"),
    "`x[index]`": ("x[index]", "x[index]"),
    "`concatenate([x, y])`": ("fnp.concatenate([x, y])", "jnp.concatenate([x, y])"),
    "`stack([x, y])`": ("fnp.stack([x, y])", "jnp.stack([x, y])"),
    "`zeros((n, n))`": ("fnp.zeros((N, N))", "jnp.zeros((N, N))"),
    "`eye(n)`": ("fnp.eye(N)", "jnp.eye(N)"),
    "`x.astype(float64)`": ("x.astype(fnp.float64)", "x.astype(jnp.float64)"),
    "`diag(x)`": ("fnp.diag(x)", "jnp.diagonal(x)"),
    "`diag(x)`, by an index": ("fnp.diag(x)", "x[np.arange(N), np.arange(N)]"),
    "set the diagonal": ("fnp.fill_diagonal(x.copy(), v)", "jnp.where(np.eye(N, dtype=bool), v, x)"),
}
"""Name of the operation -> its code in flopscope and in JAX."""
THEIRS = """
import json, sys, warnings
warnings.simplefilter("ignore")
import numpy as np, flopscope as flops, flopscope.numpy as fnp
N, operations = json.loads(sys.stdin.read())
rng = np.random.default_rng(0)
a, b = rng.random((N, N)) + 0.5, rng.random((N, N)) + 0.5
made = {"x": a.astype("f4"), "y": b.astype("f4"), "X": a, "Y": b, "v": a[0].astype("f4")}
made["s"] = (a @ a.T / N + np.eye(N)).astype("f4")
known = {name: fnp.array(value) for name, value in made.items()}
known |= {"fnp": fnp, "flops": flops, "N": N, "index": np.arange(10)}
found = {}
for name, source in operations.items():
    code = compile(source, name, "eval")
    with flops.BudgetContext(flop_budget=10**15, quiet=True) as budget:
        eval(code, known)
    found[name] = budget.flops_used
print(json.dumps([flops.__version__, found]))
"""


def their_prices() -> tuple[str, dict[str, int]]:
    question = json.dumps([N, {name: theirs for name, (theirs, _) in OPERATIONS.items()}])
    command = [str(peer_bin() / "python"), "-c", THEIRS]
    quiet = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(command, input=question, capture_output=True, text=True, check=True, env=quiet)
    version, found = json.loads(ended.stdout)
    return version, found


def our_prices() -> dict[str, int]:
    square, vector = jax.ShapeDtypeStruct((N, N), jnp.float32), jax.ShapeDtypeStruct((N,), jnp.float32)
    double = jax.ShapeDtypeStruct((N, N), jnp.float64)
    given = {"x": square, "y": square, "s": square, "v": vector, "X": double, "Y": double}
    given["index"] = jax.ShapeDtypeStruct((10,), jnp.int32)

    def price(source: str) -> int:
        code = compile(source, source, "eval")

        def function(**arrays: jax.Array) -> object:
            return eval(code, {"jax": jax, "jnp": jnp, "np": np, "N": N, **arrays})

        with jax.enable_x64("X" in source or "float64" in source):
            return meter(function)(**given).flops

    return {name: price(ours) for name, (_, ours) in OPERATIONS.items()}


def main() -> None:
    version, theirs = their_prices()
    ours = our_prices()
    print(f"| operation, n = {N} | flopscope {version} | whest | whest / flopscope |\n|---|---|---|---|")
    for name in OPERATIONS:
        ratio = f"{ours[name] / theirs[name]:.3g}" if theirs[name] else "–"
        print(f"| {name} | {theirs[name]:,} | {ours[name]:,} | {ratio} |")


if __name__ == "__main__":
    assert Path("benchmarks").is_dir(), f"run this from the checkout; the peer is looked for in {PEER}"
    main()
