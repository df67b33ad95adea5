"""`job=info`: what a stored dataset is, in a table."""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from whest.formats.metadata import choose_split, parse_header, split_names
from whest.formats.open import open_split, read_document
from whest.formats.source import VERIFIED_BYTES
from whest.formats.stored import StoredSplit
from whest.mlp import SEED_PROTOCOL_NAMES
from whest.rows import ContentDigest


def print_info(path: Path, console: Console) -> None:
    """Every split, each read and verified where its size allows."""
    document = read_document(path)
    names = split_names(document, path)
    header = parse_header(choose_split(document, names[0], path), path)
    table = Table(box=None, show_header=False, title=_plain(str(path)), title_justify="left", title_style="bold")
    version = header.protocol.version
    table.add_row("  schema", str(document["schema_version"]))
    table.add_row("  shape", f"{header.stated.width}x{header.stated.depth} (width x depth)")
    table.add_row("  seed protocol", f"{SEED_PROTOCOL_NAMES[version]} {version}")
    if len(names) > 1:
        table.add_row("  default split", _plain(str(document.get("default_split", "none"))))
    for name in names:
        for key, value in describe_split(open_split(path, name, partial=True)).items():
            table.add_row(_plain(f"  {name}: {key}"), _plain(value))
    console.print(table)


def _plain(words: str) -> Text:
    """A file's own words, without colours, links or anything else a terminal would act on."""
    return Text("".join(letter for letter in words if letter.isprintable()))


def describe_split(stored: StoredSplit) -> dict[str, str]:
    header, part = stored.header, stored.header.part
    share = "" if part.is_whole else f", the slice [{part.start},{part.end}) of {part.total}: merge it before use"
    facts = {"MLPs": f"{stored.n_mlps}{share}", "samples an MLP": f"{header.stated.n_samples:,}"}
    if header.stated.sampler:
        facts["sampler"] = header.stated.sampler
    if stored.reader.n_bytes > VERIFIED_BYTES:
        stated = header.stated.content_sha256 or "not stated"
        return {**facts, "sha256": f"{stated} (as stated; {stored.reader.n_bytes / 1e9:.1f} GB were not read)"}
    digest, floors = ContentDigest(header.stated.width, header.stated.depth, header.protocol.version), []
    for record in stored.verified():
        digest.add(record.row, record.fingerprint)
        assert record.row.truth is not None
        floors.append(record.row.truth.floor_mse)
    noise = f"{np.mean(floors):.3g} is added to every MSE"
    return {**facts, "noise of the truth": noise, "sha256": digest.hexdigest()}
