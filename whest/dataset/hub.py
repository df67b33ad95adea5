"""`dataset=hub`: a dataset from the Hugging Face hub, at a fixed revision."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from whest.config.extras import installing
from whest.dataset.dataset import Count, Dataset, Range
from whest.dataset.formats.metadata import choose_split
from whest.dataset.formats.opening import METADATA, read_document
from whest.dataset.stored import load_stored
from whest.errors import ConfigError

REPO = re.compile(r"[\w.-]+/[\w.-]+")
MOVING = ("main", "master", "head", "latest")


@dataclass(frozen=True)
class HubDataset:
    """`repo` is owner/name, or hf://owner/name@revision."""

    repo: str
    revision: str | None = None
    split: str | None = None
    range: Range | None = None
    n_mlps: Count | None = None
    cache_dir: str | None = None

    def load(self) -> Dataset:
        repo, revision = pinned(self.repo, self.revision)
        folder = self._download(repo, revision, [METADATA])
        split = str(choose_split(read_document(folder), self.split, folder)["split"])
        folder = self._download(repo, revision, [METADATA, f"data/{split}-*.parquet"])
        dataset = load_stored(folder, split, self.range, self.n_mlps)
        storage = folder.parent.parent  # a snapshot has only links: the files are stored in this folder
        return replace(dataset, name=repo, path=f"hf://{repo}@{revision}", hidden=(storage,))

    def _download(self, repo: str, revision: str, patterns: list[str]) -> Path:
        """The snapshot's folder in the cache, with at least these files."""
        try:
            from huggingface_hub import snapshot_download
        except ImportError:
            raise ConfigError(f"dataset=hub needs huggingface_hub: {installing('hub')}") from None
        options: dict[str, Any] = {"repo_type": "dataset", "revision": revision, "cache_dir": self.cache_dir}
        try:
            return Path(snapshot_download(repo, allow_patterns=patterns, **options)).absolute()
        except Exception as error:  # network, permissions and wrong names raise different classes
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise ConfigError(
                f"dataset.repo={repo} at dataset.revision={revision} can't be downloaded: {reason}. Check both names "
                "and the network, or copy the dataset here and use dataset=file"
            ) from error


def pinned(repo: str, revision: str | None) -> tuple[str, str]:
    """owner/name and a commit or tag. A branch is refused, because its content can change."""
    name, _, inline = repo.removeprefix("hf://").partition("@")
    if revision is not None and inline and inline != revision:
        raise ConfigError(f"dataset.repo={repo} and dataset.revision={revision} name two revisions: give one")
    revision = revision or inline or None
    if REPO.fullmatch(name) is None:
        raise ConfigError(f"dataset.repo={repo} must be owner/name, or hf://owner/name@revision")
    if revision is None or revision.lower().removeprefix("refs/heads/") in MOVING or revision.startswith("refs/heads/"):
        raise ConfigError(
            f"dataset.revision={'null' if revision is None else revision} is not pinned: give a commit of {name} (40 "
            "hex digits, on the dataset's page under History) or a tag, so that the score stays comparable"
        )
    return name, revision
