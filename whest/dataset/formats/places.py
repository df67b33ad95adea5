"""Where a dataset's files may be: in the folder that was given, or beside it in the hub's cache."""

from pathlib import Path

from whest.dataset.formats.metadata import refused

SNAPSHOTS = "snapshots"
"""The hub's cache keeps a dataset as `snapshots/COMMIT`, with links to its files in `blobs`."""


def own_file(folder: Path, file: Path) -> Path:
    """A file of the dataset; a link that leads elsewhere is refused, so that no other file passes for its data."""
    if not is_own(folder, file):
        raise refused(folder, f"{file.name} is a link out of the folder", "Put the file itself there")
    return file


def is_own(folder: Path, file: Path) -> bool:
    place = folder.absolute()
    roots = [place, place.parent.parent / "blobs"] if place.parent.name == SNAPSHOTS else [place]
    return any(file.resolve().is_relative_to(root.resolve()) for root in roots)
