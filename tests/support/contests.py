"""Small contests for tests: sealed files made in this process, an inbox, and the organiser's command."""

import os
import shutil
from pathlib import Path
from typing import Any

import jax.numpy as jnp

import whest
from tests.support.sealing import context_of, seal_estimator, seal_function
from whest.cli.host import host
from whest.contest.storage import SECRET, keep

SHAPE = (8, 2, 10**6)
RULES = (
    "contest=whitebox",
    "round.width=8",
    "round.depth=2",
    "round.n_samples=500",
    "truth=plain",
    "budget=1e6",
    "contest.n_mlps=3",
)
START_S = 1_790_000_000
"""The date of the first file of an inbox."""


def sealed(name: str = "mean_prop") -> bytes:
    return seal_estimator(name, context_of(*SHAPE))


def sealed_constant(value: float, carried: int = 0) -> bytes:
    """A program that answers the same number for every neuron, with an array of so many numbers aboard."""
    table = jnp.arange(carried, dtype=jnp.float32)

    def predict(weights: Any, *rest: Any) -> Any:
        answer = jnp.full(weights.shape[:2], value) + 0 * weights[:, 0]
        return answer + 0 * table.sum() if carried else answer

    return seal_function(predict, context_of(*SHAPE), "constant")


def put(inbox: Path, name: str, content: bytes, second: int) -> Path:
    """A file that was delivered at that second."""
    path = inbox / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    os.utime(path, (START_S + second, START_S + second))
    return path


def fix_secret(contest: Path) -> Path:
    """A contest that is not open yet, whose secret is the same in every test: who wins is then no matter of luck."""
    keep(contest.with_name(f"{contest.name}.private") / SECRET, bytes(range(32)).hex().encode(), mode=0o600)
    return contest


def organise(*words: str, folder: Path) -> None:
    """`job=host …` in this process."""
    typed = ["job=host", *words, f"outputs_dir={folder / 'outputs'}"]
    host(whest.compose(*typed), folder, typed)


def copied(contest: Path, place: Path) -> Path:
    """The published folder and the private one beside it, elsewhere."""
    shutil.copytree(contest, place)
    private = contest.with_name(f"{contest.name}.private")
    if private.exists():
        shutil.copytree(private, place.with_name(f"{place.name}.private"))
    return place


def flipped(path: Path, place: int) -> None:
    """Change one byte of a file."""
    content = bytearray(path.read_bytes())
    content[place % len(content)] ^= 1
    path.write_bytes(content)
