"""Where the data of a run came from, as a source that MLflow's `get_source` knows: entry point mlflow.dataset_source.

A run doesn't import this: `mlflow.data` is slow to import.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from mlflow.data.dataset_source import DatasetSource
from mlflow.exceptions import MlflowException

from whest.tracking.content import SOURCE_FACTS, SOURCE_TYPE

if TYPE_CHECKING:
    from whest.dataset.dataset import Dataset


class WhestSource(DatasetSource):
    """A stored dataset, a shipped suite or a seed."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.facts: dict[str, Any] = {key: facts.get(key) for key in SOURCE_FACTS}

    @staticmethod
    def _get_source_type() -> str:
        return SOURCE_TYPE

    @staticmethod
    def _can_resolve(raw_source: Any) -> bool:
        return False  # a path or an address alone is for MLflow's own sources

    @classmethod
    def _resolve(cls, raw_source: Any) -> Self:
        raise MlflowException(f"{raw_source} is no source of whest")

    def to_dict(self) -> dict[str, Any]:
        return dict(self.facts)

    @classmethod
    def from_dict(cls, source_dict: Mapping[str, Any]) -> Self:
        return cls(source_dict)

    def load(self) -> "Dataset":
        """The MLPs again: from the file, the suite or the seed."""
        from whest.dataset.sources import FreshDataset, named_suite
        from whest.dataset.stored import FileDataset

        name, size = str(self.facts["name"]), self.facts["n_mlps"]
        if self.facts["path"]:
            return FileDataset(path=self.facts["path"], split=self.facts["split"], n_mlps=size).load()
        if suite := named_suite(name):
            return replace(suite, n_mlps=size).load()
        if name == "fresh" and self.facts["width"] and self.facts["seed"] is not None:
            width, depth, seed = (int(self.facts[key]) for key in ("width", "depth", "seed"))
            protocol = (self.facts["seed_protocol"] or {}).get("version", "3.0")
            return FreshDataset(width, depth, seed, size, seed_protocol=protocol).load()
        raise MlflowException(
            f"the dataset {name} can't be loaded from its source: run_config in report.json describes it"
        )


class SeedsSource(WhestSource):
    """The same of runs that were logged before whest had a source of its own."""

    @staticmethod
    def _get_source_type() -> str:
        return "seeds"
