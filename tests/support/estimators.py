"""Bundled estimators under test: created from their YAML and compiled once; their answers and costs; and networks."""

import math
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from hydra.utils import get_class
from omegaconf import OmegaConf

from tests.support.places import CONF
from whest.estimator import Estimator, SetupContext
from whest.estimator.spec import estimator_spec
from whest.estimator.traced import Program, compile_program, estimator_function
from whest.metering import meter
from whest.mlp import MLP, SeedProtocol, draw_mlp

ESTIMATORS = CONF / "estimator"


def load_node(path: Path) -> dict[str, Any]:
    """A choice as the runner gets it: the YAML's own keys with `name` and `mode`."""
    node = OmegaConf.to_container(OmegaConf.load(path))
    assert isinstance(node, dict)
    return {"name": path.stem, "mode": "traced", **{str(key): value for key, value in node.items()}}


NODES = {path.stem: load_node(path) for path in sorted(ESTIMATORS.glob("*.yaml"))}


BUNDLED = [
    name
    for name, node in NODES.items()
    if "_target_" in node and hasattr(get_class(node["_target_"]), "predict")  # byte learners have their own contract
]


def make(name: str) -> Estimator:
    return estimator_spec(NODES[name]).create()


def draw(mlp_seed: int, width: int, depth: int) -> MLP:
    return draw_mlp(SeedProtocol().streams(mlp_seed), width, depth, "test")


def with_weights(*layers: np.ndarray) -> MLP:
    return MLP(np.stack(layers).astype(np.float32), 1, "by-hand", np.random.SeedSequence(0))


@cache
def compiled(estimator: Estimator, width: int, depth: int, budget: float) -> Program:
    """Bundled estimators are frozen: the same knobs, shape and budget are the same program."""
    context = SetupContext(
        width=width,
        depth=depth,
        flop_budget=int(budget),
        lam=0.0,
        wall_time_limit_s=None,
        residual_wall_time_limit_s=None,
        seed=0,
        scratch_dir="",
        submission_dir=None,
    )
    program = compile_program(estimator_function(estimator, int(budget)), context)
    assert isinstance(program, Program), program
    return program


def answer(estimator: Estimator, mlp: MLP, budget: float = 1e9) -> np.ndarray:
    prediction = compiled(estimator, mlp.width, mlp.depth, budget).predict(mlp)
    assert prediction.means is not None, prediction
    return prediction.means.astype(np.float64)


def price(estimator: Estimator, width: int, depth: int, budget: int) -> int:
    """Metered FLOPs of one prediction, without running it."""
    shapes = [((depth, width, width), jnp.float32), ((), jnp.uint32), ((2,), jnp.uint32)]
    return meter(estimator_function(estimator, budget))(*(jax.ShapeDtypeStruct(*shape) for shape in shapes)).flops


def erf(values: np.ndarray) -> np.ndarray:
    return np.vectorize(math.erf, otypes=[float])(values)


def rectified(mean: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, variance and on-probability of relu(N(mean, variance)), in double precision."""
    sigma = np.sqrt(variance)
    on = 0.5 * (1 + erf(mean / sigma / math.sqrt(2)))
    density = np.exp(-0.5 * (mean / sigma) ** 2) / math.sqrt(2 * math.pi)
    first = mean * on + sigma * density
    return first, (mean**2 + variance) * on + mean * sigma * density - first**2, on


def in_double(function: Callable[..., jax.Array], *arrays: np.ndarray) -> np.ndarray:
    """In float64, operation by operation: at these sizes compiling would take longer than running."""
    with jax.enable_x64(True), jax.disable_jit():
        return np.asarray(function(*(jnp.asarray(array, jnp.float64) for array in arrays)))
