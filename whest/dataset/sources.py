"""Sources of MLPs: a shipped suite, a root seed, or a list of seeds."""

import json
import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from whest.config.build import Node
from whest.dataset.dataset import Count, Dataset, Range, Seed, Size, selected
from whest.dataset.row import Row
from whest.dataset.suite import SUITE_ROOTS, Suite, load_suite, suite_versions
from whest.errors import ConfigError
from whest.mlp import SeedProtocol, Streams, distinct_names, legacy_streams, mlp_names, salted_protocol

SUITE = "suite-"
"""How the name of a suite's dataset begins."""
SUITE_TARGET = "whest.dataset.sources.SuiteDataset"


@dataclass(frozen=True)
class SuiteDataset:
    """The round's shipped MLPs with their baked truth."""

    round: str
    range: Range | None = None
    n_mlps: Count | None = None
    version: Annotated[int, Field(ge=1)] | None = None
    """None: the newest."""

    def load(self) -> Dataset:
        suite = load_suite(self.round, self.version)
        return _select(_suite_dataset(suite), self.range, self.n_mlps)


@lru_cache(maxsize=4)
def _suite_dataset(suite: Suite) -> Dataset:
    protocol = SeedProtocol()
    rows = tuple(
        Row(index, seed, name, protocol.streams(seed), truth)
        for index, (seed, name, truth) in enumerate(zip(suite.mlp_seeds, suite.mlp_names, suite.truths, strict=True))
    )
    return Dataset(
        name=suite_name(suite.round, suite.version),
        width=suite.width,
        depth=suite.depth,
        protocol_version=protocol.version,
        rows=rows,
        seed=SUITE_ROOTS[suite.round],
        sampler=suite.sampler,
    )


def suite_name(round_name: str, version: int) -> str:
    """Version 1 has no number: it is the one that runs of before versions name."""
    return f"{SUITE}{round_name}" + (f"-v{version}" if version > 1 else "")


def named_suite(name: str) -> SuiteDataset | None:
    """The suite of a dataset's name; None if it is the name of no suite."""
    found = re.fullmatch(rf"{SUITE}(\w+?)(?:-v([1-9]\d{{0,5}}))?", name)
    return SuiteDataset(found[1], version=int(found[2] or 1)) if found else None


@dataclass(frozen=True)
class FreshDataset:
    """MLPs drawn from a root seed. Their truth is sampled and cached when it is needed."""

    width: Size
    depth: Size
    seed: Seed
    n_mlps: Count | None = None
    range: Range | None = None
    seed_protocol: Literal["2.0", "3.0"] = "3.0"

    DEFAULT_N_MLPS = 10

    def load(self) -> Dataset:
        n_mlps = self.n_mlps or (None if self.range else self.DEFAULT_N_MLPS)
        total = self.range[1] if self.range else n_mlps
        assert total is not None
        if self.seed_protocol == "2.0":
            streams = legacy_streams(self.seed, total)
            seeds = [stream.estimator_seed for stream in streams]
            rows = _rows(seeds, distinct_names(seeds), streams)
        else:
            rows = _protocol_rows(SeedProtocol(), fresh_seeds(self.seed, total))
        whole = Dataset("fresh", self.width, self.depth, self.seed_protocol, rows, seed=self.seed)
        return _select(whole, self.range, n_mlps)


@dataclass(frozen=True)
class SeedsDataset:
    """MLPs by their seeds: a list, or a JSON file with a list. Protocol 4.0 takes its salt from the environment."""

    width: Size
    depth: Size
    mlp_seeds: list[Seed] | str
    range: Range | None = None
    n_mlps: Count | None = None
    seed_protocol: Literal["3.0", "4.0"] = "3.0"
    salt_digest: str | None = None

    def load(self) -> Dataset:
        seeds = self.mlp_seeds if isinstance(self.mlp_seeds, list) else _seeds_from_file(Path(self.mlp_seeds))
        if not seeds:
            raise ConfigError("dataset.mlp_seeds is empty: give at least one seed, dataset.mlp_seeds=[20260525]")
        if self.seed_protocol == "4.0":
            if self.salt_digest is None:
                raise ConfigError(
                    "dataset.salt_digest is missing: seed protocol 4.0 needs the sha256 of the salt, to check the salt"
                )
            protocol = salted_protocol(self.salt_digest)
        else:
            protocol = SeedProtocol()
        path = None if isinstance(self.mlp_seeds, list) else Path(self.mlp_seeds).resolve()
        whole = Dataset(
            name="seeds",
            width=self.width,
            depth=self.depth,
            protocol_version=self.seed_protocol,
            rows=_protocol_rows(protocol, seeds),
            path=str(path) if path else None,
            salt_digest=protocol.salt_digest,
            hidden=(path,) if path else (),
        )
        return _select(whole, self.range, self.n_mlps)


def fresh_seeds(root: int, n_mlps: int) -> list[int]:
    """63-bit MLP seeds from a root seed. A longer list starts with the same seeds."""
    return [int(seed) for seed in np.random.SeedSequence(root).generate_state(n_mlps, np.uint64) >> np.uint64(1)]


def drawn_seed(config: Node) -> dict[str, int]:
    """Draw a seed for a fresh dataset that has none, so that the run can be repeated."""
    dataset = config["dataset"]
    return {"seed": secrets.randbits(31)} if "seed" in dataset and dataset["seed"] is None else {}


def chosen_version(config: Node) -> dict[str, int]:
    """The newest version of a suite, if none was chosen: a record must say which one it was."""
    dataset = config["dataset"]
    if dataset.get("_target_") != SUITE_TARGET or dataset.get("version") is not None:
        return {}
    return {"version": versions[-1]} if (versions := suite_versions(str(dataset.get("round")))) else {}


def of_its_time(recorded: dict[str, Any]) -> dict[str, Any]:
    """A recorded config. If it names no version of a suite, it is of the time when there was one."""
    dataset = recorded.get("dataset")
    if not isinstance(dataset, dict) or dataset.get("_target_") != SUITE_TARGET or "version" in dataset:
        return recorded
    return {**recorded, "dataset": {**dataset, "version": 1}}


def _protocol_rows(protocol: SeedProtocol, seeds: Sequence[int]) -> tuple[Row, ...]:
    return _rows(seeds, mlp_names(protocol, seeds), [protocol.streams(seed) for seed in seeds])


def _rows(seeds: Sequence[int], names: Sequence[str], streams: Sequence[Streams]) -> tuple[Row, ...]:
    return tuple(Row(i, *columns) for i, columns in enumerate(zip(seeds, names, streams, strict=True)))


def _seeds_from_file(path: Path) -> list[int]:
    try:
        seeds = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"dataset.mlp_seeds={path}: no such file; give a list or a JSON file with a list") from None
    except (OSError, ValueError) as error:
        raise ConfigError(f"dataset.mlp_seeds={path} is not a readable JSON file: {error}") from None
    if not isinstance(seeds, list) or not all(type(s) is int and 0 <= s < 2**63 for s in seeds):
        raise ConfigError(f"dataset.mlp_seeds={path} must hold a JSON list of whole numbers from 0 to 2^63 - 1")
    return seeds


def _select(dataset: Dataset, range_: Range | None, n_mlps: int | None) -> Dataset:
    chosen = selected(dataset.name, dataset.n_mlps, range_, n_mlps)
    if chosen == range(dataset.n_mlps):
        return dataset  # with its digest, if that is known
    return replace(dataset, rows=dataset.rows[chosen.start : chosen.stop])
