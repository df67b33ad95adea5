"""What the same operation costs on flopscope and on our meter: a table for docs/whestbench.md.

    python benchmarks/peer_prices.py        # some seconds, after `make peer`

Each line is written once, in NumPy's words, with `np` standing for flopscope.numpy there and for jax.numpy here.
flopscope is asked in its own interpreter, under its own BudgetContext; arrays are made before the count begins.
"""

import json
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
from peer import peer_bin

from whest.meter import meter

N, ROWS = 64, 100
ARRAYS = {"a": (N, N), "b": (N, N), "h": (ROWS, N), "v": (N,), "w": (N,)}
OPERATIONS = {
    "h @ a": "a matrix product, 100×64 by 64×64",
    "a @ b": "a matrix product, 64×64 by 64×64",
    "a.T @ a": "the same of a matrix with itself",
    "a @ v": "a matrix by a vector",
    "v @ w": "an inner product",
    "np.outer(v, w)": "an outer product",
    "np.einsum('ij,jk->ik', a, b)": "einsum, as a matrix product",
    "a + b": "add",
    "a * b": "multiply",
    "a / b": "divide",
    "np.maximum(a, 0.0)": "ReLU",
    "np.where(a > 0, a, b)": "compare and select",
    "a.sum(axis=0)": "sum",
    "a.mean(axis=0)": "mean",
    "a.var(axis=0)": "variance",
    "np.sqrt(a)": "sqrt",
    "np.exp(a)": "exp",
    "np.tanh(a)": "tanh",
    "a.T": "transpose",
    "a.reshape(-1)": "reshape",
    "np.concatenate([a, b])": "concatenate",
    "np.stack([v, w])": "stack",
    "a[:, ::2]": "slice",
    "np.zeros((64, 64))": "zeros",
    "np.ones((64, 64))": "ones",
    "np.eye(64)": "eye",
    "np.diag(a)": "diagonal",
    "np.sort(v)": "sort 64",
    "np.cumsum(v)": "running sum of 64",
    "np.linalg.cholesky(a @ a.T + 64 * np.eye(64))": "Cholesky, with its matrix made",
    "np.linalg.solve(a, b)": "solve 64×64",
    "np.linalg.inv(a)": "inverse",
    "np.linalg.eigh(a)": "eigh",
    "np.linalg.svd(a)": "svd",
    "np.linalg.qr(a)": "qr",
    "stats.norm.pdf(v)": "normal density of 64",
    "stats.norm.cdf(v)": "normal distribution of 64",
    "NORMALS": "6,400 normals, there in float64",
    "a.astype(DOUBLE)": "float32 to float64",
    "a64 @ b64": "a matrix product in float64",
    "a64 + b64": "add in float64",
}
THEIRS = """
import json, sys
import flopscope as flops, flopscope.numpy as np
from flopscope import stats
asked = json.loads(sys.argv[1])
rng = np.random.default_rng(0)
DOUBLE = np.float64
shapes = asked["arrays"].items()
names = {name: np.asarray(rng.standard_normal(tuple(shape)), dtype=np.float32) for name, shape in shapes}
names |= {name + "64": np.asarray(names[name], dtype=np.float64) for name in ("a", "b")}
found = {}
for text in asked["operations"]:
    expression = "rng.standard_normal((100, 64))" if text == "NORMALS" else text
    context = flops.BudgetContext(flop_budget=10**15, quiet=True)
    try:
        with context:
            eval(expression, globals(), names)
        found[text] = context.flops_used
    except Exception as error:
        found[text] = f"{type(error).__name__}"
print(json.dumps(found))
"""


def theirs() -> dict[str, int | str]:
    asked = json.dumps({"arrays": ARRAYS, "operations": list(OPERATIONS)})
    command = [str(peer_bin() / "python"), "-I", "-W", "ignore", "-c", THEIRS, asked]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    answer: dict[str, int | str] = json.loads(printed.splitlines()[-1])
    return answer


def ours(text: str) -> int | str:
    from jax.scipy import stats

    is_double = "a64" in text or "DOUBLE" in text
    with jax.enable_x64(is_double):
        rng = np.random.default_rng(0)
        arrays = {name: jnp.asarray(rng.standard_normal(shape), jnp.float32) for name, shape in ARRAYS.items()}
        arrays |= {f"{name}64": arrays[name].astype(jnp.float64) for name in ("a", "b") if is_double}
        names = {"np": jnp, "stats": stats, "DOUBLE": jnp.float64}

        def run(given: dict[str, jax.Array]) -> object:
            if text == "NORMALS":
                return jax.random.normal(jax.random.key(0), (ROWS, N))
            return eval(text, names, given)

        try:
            return meter(run)(arrays).flops
        except Exception as error:
            return type(error).__name__


def main() -> None:
    found = theirs()
    print("| operation | flopscope | whest | theirs / ours |")
    print("|---|---|---|---|")
    for text, words in OPERATIONS.items():
        there, here = found[text], ours(text)
        is_known = isinstance(there, int) and isinstance(here, int) and here > 0
        ratio = f"{there / here:.3g}" if is_known and isinstance(there, int) and isinstance(here, int) else "–"
        code = "" if text == "NORMALS" else f"`{text}`, "
        print(f"| {code}{words} | {_number(there)} | {_number(here)} | {ratio} |")


def _number(value: int | str) -> str:
    return f"{value:,}" if isinstance(value, int) else value


if __name__ == "__main__":
    main()
