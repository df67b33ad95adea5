"""`job=merge` joins the slices of one dataset; `job=combine` puts several splits into one directory.

Both work row by row: each input is verified while it is copied. If an input is found to be wrong, there is no output.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, pairwise
from pathlib import Path
from typing import Any

from whest.dataset.formats.metadata import Header, refused, require_word, split_names
from whest.dataset.formats.opening import open_split, read_document
from whest.dataset.formats.save import Share, write_single, write_splits
from whest.dataset.formats.split import StoredSplit
from whest.errors import ConfigError

COUNTED = ("n_mlps", "n_samples", "truth_floor_mse", "content_sha256", "content_mlp_range", "moments_sha256")
"""Metadata that is computed again from the rows."""

OF_A_SLICE = ("is_partial", "mlp_range", "total_n_mlps", "hardware", "created_at_utc")
OF_A_FORMAT = ("schema_version", "format", "prepared_splits")
SHARED = ("backend", "seed_protocol", "width", "depth")
"""Metadata that all splits of a directory share."""


def merge(inputs: Sequence[Path], output: Path) -> str:
    """Join slices that cover a dataset exactly once. Returns the sha256 of the content."""
    if not inputs:
        raise ConfigError("inputs is empty: give the slices, job=merge inputs=[a,b] output=DIR")
    slices = sorted((open_split(path, partial=True) for path in inputs), key=lambda one: one.header.part.start)
    for one in slices:
        if one.header.part.is_whole:
            raise refused(one.header.path, "it is a complete dataset, not a slice", "Remove it from the inputs")
    _require_equal([one.header for one in slices], _of_a_dataset)
    _require_cover([one.header for one in slices])
    first = slices[0].header
    document = {
        **_without(first, COUNTED + OF_A_SLICE + OF_A_FORMAT),
        "split": first.stated.split,
        "config": first.stated.config,
        "created_at_utc": min(str(one.header.document.get("created_at_utc", "")) for one in slices),
        "merged_at_utc": datetime.now(UTC).isoformat(),
        "partials_count": len(slices),
        "hardware_fingerprints": _hardware(slices),
    }
    records = chain.from_iterable(one.verified() for one in slices)
    return write_single(output, Share(records, first.part.total, document))


def combine(inputs: Sequence[Path] | Mapping[str, Path], output: Path, default_split: str | None = None) -> list[str]:
    """Make one dataset whose splits are the complete datasets `inputs`. A mapping names them. Returns the names."""
    if not inputs:
        raise ConfigError("inputs is empty: give datasets, job=combine inputs=[a,b] output=DIR")
    named = list(inputs.items()) if isinstance(inputs, Mapping) else [(None, path) for path in inputs]
    opened = [(name, _open_single(path)) for name, path in named]
    splits = {name or one.header.stated.split: one for name, one in opened}
    if len(splits) != len(opened):
        names = ", ".join(one.header.stated.split for _, one in opened)
        raise ConfigError(f"inputs: two have the same split ({names}); name them: inputs={{public:a,holdout:b}}")
    for split in splits:
        require_word("inputs: split", split)
    _require_equal([one.header for one in splits.values()], _of_a_directory)
    default = default_split or next(iter(splits))
    if default not in splits:
        raise ConfigError(f"default_split={default} is not one of the splits: {', '.join(splits)}")
    first = next(iter(splits.values())).header
    common = {key: first.document[key] for key in SHARED if key in first.document}
    common["n_samples"] = min(one.header.stated.n_samples for one in splits.values())
    common["created_at_utc"] = min(str(one.header.document.get("created_at_utc", "")) for one in splits.values())
    shares = {
        name: Share(one.verified(), one.n_mlps, _split_document(one, "default" if name == default else name))
        for name, one in splits.items()
    }
    write_splits(output, shares, common, default)
    return list(splits)


def _open_single(path: Path) -> StoredSplit:
    names = split_names(read_document(path), path)
    if len(names) > 1:
        raise refused(path, f"it has several splits already: {', '.join(names)}", "Combine the datasets it came from")
    return open_split(path)


def _split_document(one: StoredSplit, config: str) -> dict[str, Any]:
    """The split's own metadata. Each config has another name, so that `datasets` can download one split alone."""
    kept = _without(one.header, COUNTED + OF_A_SLICE + OF_A_FORMAT + SHARED + ("split",))
    created = one.header.document.get("created_at_utc")
    return {
        **kept,
        "config": config,
        "created_at_utc": str(created or ""),
        "hardware_fingerprints": kept.get("hardware_fingerprints") or _hardware([one]),
    }


def _without(header: Header, keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in header.document.items() if key not in keys}


def _hardware(slices: Sequence[StoredSplit]) -> list[Any]:
    """The different machines, each once."""
    machines: list[Any] = []
    for one in slices:
        hardware = one.header.document.get("hardware")
        if hardware and hardware not in machines:
            machines.append(hardware)
    return machines


def _of_a_directory(header: Header) -> dict[str, object]:
    stated = header.stated
    return {
        "width": stated.width,
        "depth": stated.depth,
        "standard_error": stated.standard_error,
        "n_samples": stated.n_samples if stated.standard_error is None else None,
        "backend": stated.backend,
        "seed_protocol": (header.protocol.version, header.protocol.salt_digest),
    }


def _of_a_dataset(header: Header) -> dict[str, object]:
    stated = header.stated
    own = {
        "total_n_mlps": stated.total_n_mlps,
        "seed": stated.seed,
        "root_seed": stated.root_seed,
        "split": stated.split,
        "config": stated.config,
        "sampler": stated.sampler,
        "moments_sha256 (there or not)": stated.moments_sha256 is not None,
    }
    return {**_of_a_directory(header), **own}


def _require_equal(headers: Sequence[Header], look: Callable[[Header], dict[str, object]]) -> None:
    first = headers[0]
    for header in headers[1:]:
        for key, value in look(header).items():
            if value != look(first)[key]:
                raise refused(
                    header.path,
                    f"its {key} is {value}, that of {first.path} is {look(first)[key]}",
                    "Inputs must be made with the same settings",
                )


def _require_cover(headers: Sequence[Header]) -> None:
    """The slices must hold each MLP once, in order."""
    if headers[0].part.start:
        raise ConfigError(f"inputs: no slice holds MLPs [0,{headers[0].part.start}); bake it and add it")
    for before, after in pairwise(headers):
        if after.part.start < before.part.end:
            twice = f"[{after.part.start},{min(before.part.end, after.part.end)})"
            raise ConfigError(f"inputs: {before.path} and {after.path} both hold MLPs {twice}; remove one")
        if after.part.start > before.part.end:
            raise ConfigError(
                f"inputs: no slice holds MLPs [{before.part.end},{after.part.start}), between {before.path} and "
                f"{after.path}; bake it and add it"
            )
    last = headers[-1].part
    if last.end != last.total:
        raise ConfigError(f"inputs: no slice holds MLPs [{last.end},{last.total}); bake it and add it")
