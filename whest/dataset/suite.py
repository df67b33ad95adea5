"""The shipped suites: the fixed MLPs of each round, with their truth, as files of the package.

The MLPs follow from a root seed that was fixed before any score was seen. Only seeds, names, means and standard errors
are stored, so a suite is small. `benchmarks/bake_suites.py` makes the suites.

A new bake is a new version, in a folder of its own: `suites/v2/warmup.npz`. An old version is never changed, so that
old scores can be repeated. A later version has the seeds of an earlier one, and more after them.
"""

import hashlib
import io
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from whest.errors import ConfigError, WhestError
from whest.truth.truth import Truth

SUITE_ROOTS = {"warmup": 101, "phase1": 102, "phase2": 103}
FOLDER = Path(__file__).parent / "suites"
SCHEMA = 2
TRUTH_ARRAYS = ("means", "standard_errors", "avg_variances", "n_samples", "n_replicates")


@dataclass(frozen=True, eq=False)
class Suite:
    """One round's shipped rows."""

    round: str
    width: int
    depth: int
    mlp_seeds: Sequence[int]
    mlp_names: Sequence[str]
    truths: Sequence[Truth]
    sampler: str
    """The sampler of the truth with its version, e.g. "plain 1"."""
    version: int = 1

    @property
    def is_newest(self) -> bool:
        return self.version == suite_versions(self.round)[-1]

    @property
    def floor_mse(self) -> float:
        return float(np.mean([truth.floor_mse for truth in self.truths]))


def save_suite(suite: Suite, path: Path) -> None:
    arrays = {
        "mlp_seeds": np.array(suite.mlp_seeds, np.int64),
        "mlp_names": np.array(suite.mlp_names, np.str_),
        "means": np.stack([truth.means for truth in suite.truths]),
        "standard_errors": np.stack([truth.standard_errors for truth in suite.truths]),
        "avg_variances": np.array([truth.avg_variance for truth in suite.truths]),
        "n_samples": np.array([truth.n_samples for truth in suite.truths], np.int64),
        "n_replicates": np.array([truth.n_replicates or 0 for truth in suite.truths], np.int64),
    }
    header = {
        "schema": SCHEMA,
        "round": suite.round,
        "width": suite.width,
        "depth": suite.depth,
        "sampler": suite.sampler,
        "sha256": _digest(arrays),
    }
    np.savez_compressed(path, header=np.array(json.dumps(header)), **arrays)  # type: ignore[arg-type]


def suite_path(round_name: str, version: int) -> Path:
    return FOLDER / f"v{version}" / f"{round_name}.npz"


def suite_rounds() -> list[str]:
    """The rounds that have a suite of any version."""
    return sorted({path.stem for path in FOLDER.glob("v*/*.npz")})


def suite_versions(round_name: str) -> list[int]:
    """The versions of a round's suite, the newest last."""
    folders = (path.parent.name for path in FOLDER.glob("v*/*.npz") if path.stem == round_name)
    return sorted(int(name[1:]) for name in folders if re.fullmatch(r"v[1-9]\d*", name))


def shipped_suites() -> Iterator[Suite]:
    """Every suite, by round, the newest version first."""
    for name in suite_rounds():
        yield from (load_suite(name, version) for version in reversed(suite_versions(name)))


def load_suite(round_name: str, version: int | None = None) -> Suite:
    """A round's suite; None is the newest version."""
    versions = suite_versions(round_name)
    if not versions:
        known = ", ".join(suite_rounds())
        raise ConfigError(f"no suite is shipped for round={round_name}; there is one for: {known}. Use dataset=fresh")
    if version is not None and version not in versions:
        there = ", ".join(map(str, versions))
        raise ConfigError(
            f"dataset.version={version}: the suite of round={round_name} has the versions {there}; leave it out for "
            "the newest"
        )
    version = versions[-1] if version is None else version
    path = suite_path(round_name, version)
    found = path.stat()
    return _read_suite(path, version, (found.st_ino, found.st_size, found.st_mtime_ns))


@lru_cache(maxsize=4)
def _read_suite(path: Path, version: int, state: tuple[int, ...]) -> Suite:
    """The suite of a file in this state: the jobs of a sweep share it, so nothing in it can be written."""
    damaged = WhestError(f"the shipped suite {path.name} is damaged or of another version: reinstall whest")
    try:
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            header = json.loads(str(file["header"]))
            arrays = {name: file[name] for name in file.files if name != "header"}
    except Exception as error:  # a broken archive can raise many kinds of errors
        raise damaged from error
    if header["schema"] != SCHEMA or header["sha256"] != _digest(arrays):
        raise damaged
    for array in arrays.values():
        array.flags.writeable = False
    truths = [
        Truth(means, errors, float(variance), int(n), int(replicates) or None)
        for means, errors, variance, n, replicates in zip(*(arrays[name] for name in TRUTH_ARRAYS), strict=True)
    ]
    return Suite(
        round=header["round"],
        width=header["width"],
        depth=header["depth"],
        mlp_seeds=[int(seed) for seed in arrays["mlp_seeds"]],
        mlp_names=[str(name) for name in arrays["mlp_names"]],
        truths=truths,
        sampler=header["sampler"],
        version=version,
    )


def _digest(arrays: dict[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(name.encode() + str(arrays[name].dtype).encode() + str(arrays[name].shape).encode())
        digest.update(np.ascontiguousarray(arrays[name]).tobytes())
    return digest.hexdigest()
