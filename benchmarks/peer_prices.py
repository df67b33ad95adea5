"""`meter=flopscope` beside flopscope itself: the tables of docs/prices.md.

    make peer && python benchmarks/peer_prices.py

Whole estimators and single operations are billed by the real package and by the list, on the same shapes. With
`--older` the releases before 0.9 are installed beside it (outputs/flopscope-RELEASE) and compared too.
"""

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from peer import peer_bin
from prices import OPERATIONS, THEIRS, N

from whest.metering.lists import PEER_RELEASES, priced_by
from whest.metering.walk import meter
from whest.tasks.whitebox.baseline import sample_means

WIDTH, DEPTH, SAMPLES = 256, 8, 1000
BEGIN, END = "<!-- peer: written by `python benchmarks/peer_prices.py`, not by hand -->", "<!-- end of peer -->"
SAME = 0.01
"""Two figures agree if they differ by no more than this."""
EXAMPLES = Path("docs/examples")
SAMPLER = """
def sample(mlp, n):
    h = fnp.random.default_rng(0).standard_normal((n, mlp.width), dtype=np.float32)
    rows = []
    for w in mlp.weights:
        h = fnp.maximum(h @ w, 0)
        rows.append(fnp.mean(h, axis=0))
    return fnp.stack(rows)
"""
THEIR_ESTIMATORS = f"""
import json, sys, types, warnings
warnings.simplefilter("ignore")
import numpy as np, flopscope as flops, flopscope.numpy as fnp
from whestbench.estimators import CovariancePropagationEstimator, MeanPropagationEstimator
{SAMPLER}
width, depth, n = json.loads(sys.stdin.read())
weights = np.random.default_rng(0).standard_normal((depth, width, width)).astype("f4") * (2 / width) ** 0.5
mlp = types.SimpleNamespace(width=width, depth=depth, seed=0, weights=[fnp.array(w) for w in weights])
runs = {{
    "mean propagation": lambda: MeanPropagationEstimator().predict(mlp, 0),
    "covariance propagation": lambda: CovariancePropagationEstimator().predict(mlp, 0),
    "plain sampling": lambda: sample(mlp, n),
}}
found = {{}}
for name, run in runs.items():
    with flops.BudgetContext(flop_budget=10**15, quiet=True) as budget:
        run()
    found[name] = budget.flops_used
print(json.dumps(found))
"""


def ask(script: str, question: object, release: str | None = None) -> Any:
    """An answer of the peer's interpreter, with an older flopscope before its own if one is named."""
    quiet = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(older(release)) if release else ""}
    command = [str(peer_bin() / "python"), "-c", script]
    ended = subprocess.run(command, input=json.dumps(question), capture_output=True, text=True, check=True, env=quiet)
    return json.loads(ended.stdout)


def older(release: str) -> Path:
    folder = Path("outputs").absolute() / f"flopscope-{release}"
    if not folder.exists():
        command = [str(peer_bin() / "python"), *"-m pip install --quiet --no-deps --target".split()]
        subprocess.run([*command, str(folder), f"flopscope=={release}"], check=True)
    return folder


def ported(name: str) -> Callable[..., Any]:
    """`predict` of an example as a function of the weights."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    class View:
        def __init__(self, weights: jax.Array) -> None:
            self.weights, self.depth, self.width = weights, weights.shape[0], weights.shape[1]

    return lambda weights: module.Estimator().predict(View(weights), 0)


def our_estimators(prices: str) -> dict[str, int]:
    """The ports by the list. The peer's own compute in float64, so the ports do too; the sampler is float32 in both."""
    weights = jax.ShapeDtypeStruct((DEPTH, WIDTH, WIDTH), jnp.float32)
    with priced_by(prices):
        with jax.enable_x64(True):
            found = {
                "mean propagation": meter(ported("ported_mean_prop"))(weights).flops,
                "covariance propagation": meter(ported("ported_cov_prop"))(weights).flops,
            }
        sampler = meter(lambda w, key: sample_means(w, key, SAMPLES))(weights, jax.random.key(0))
        return {**found, "plain sampling": sampler.flops}


def our_operations(prices: str) -> dict[str, int | None]:
    square, vector = jax.ShapeDtypeStruct((N, N), jnp.float32), jax.ShapeDtypeStruct((N,), jnp.float32)
    double, index = jax.ShapeDtypeStruct((N, N), jnp.float64), jax.ShapeDtypeStruct((10,), jnp.int32)
    key = jax.eval_shape(lambda: jax.random.key(0))
    given = {"x": square, "y": square, "s": square, "v": vector, "X": double, "Y": double, "index": index, "key": key}

    def price(source: str) -> int:
        code = compile(source.replace("jax.random.key(0)", "key"), source, "eval")

        def function(**arrays: jax.Array) -> object:
            return eval(code, {"jax": jax, "jnp": jnp, "np": np, "N": N, **arrays})

        with jax.enable_x64("X" in source or "float64" in source), priced_by(prices):
            return meter(function)(**given).flops

    return {name: price(ours) for name, (_, ours) in OPERATIONS.items()}


def compared(theirs: dict[str, int], ours: dict[str, Any]) -> dict[str, tuple[int, int, float]]:
    """Their figure, ours and the relative difference."""
    return {name: (theirs[name], ours[name], abs(ours[name] - theirs[name]) / max(theirs[name], 1)) for name in theirs}


def tables(prices: str, release: str | None) -> str:
    estimators = compared(ask(THEIR_ESTIMATORS, [WIDTH, DEPTH, SAMPLES], release), our_estimators(prices))
    version, billed = ask(THEIRS, [N, {name: code for name, (code, _) in OPERATIONS.items()}], release)
    operations = compared(billed, our_operations(prices))
    other = {name: row for name, row in operations.items() if row[2] > SAME}
    head = f"flopscope {version} | `meter={prices}` | difference |\n|---|---|---|---|"
    lines = [
        f"### `meter={prices}`: flopscope {' to '.join(PEER_RELEASES[prices])}",
        f"Whole estimators, {WIDTH}×{DEPTH}:",
        "\n".join([f"| estimator | {head}", *map(_row, estimators.items())]),
        f"{len(operations) - len(other)} of {len(operations)} operations agree to {SAME:.0%}. The others, n = {N}:",
        "\n".join([f"| operation | {head}", *map(_row, other.items())]),
    ]
    return "\n\n".join(lines)


def _row(item: tuple[str, tuple[int, int, float]]) -> str:
    name, (theirs, ours, apart) = item
    return f"| {name} | {theirs:,} | {ours:,} | {f'{apart:.2%}' if theirs else '–'} |"


def page(releases: dict[str, str | None]) -> str:
    return "\n\n".join([BEGIN, *(tables(prices, release) for prices, release in releases.items()), END]) + "\n"


if __name__ == "__main__":
    wanted: dict[str, str | None] = {"flopscope": None}
    if "--older" in sys.argv:
        wanted |= {"flopscope-0.7": "0.7.0", "flopscope-0.4": "0.4.3"}
    print(page(wanted))
