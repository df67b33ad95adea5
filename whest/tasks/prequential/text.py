"""Text to learn from: where its documents come from, which of them are held out, and in which order they are read.

A document belongs to a split by the hash of its name alone, so that it stays there whatever else is added. Long ones
are cut at a line's end into pieces that count as documents of their own; the pieces of one follow each other.
`data.seed` turns the order of documents (and makes other ones up), and nothing else.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol

import numpy as np
from jaxtyping import UInt8
from pydantic import Field

from whest.errors import ConfigError
from whest.tasks.prequential.generated import invent_document

Split = Literal["train", "val", "test"]

TRAIN_BELOW, VAL_BELOW = 950, 975
"""Of a thousand: train 0–949, val 950–974, test 975–999."""

PIECE_BYTES = 2048
"""About how long a piece of a long document is."""

Size = Annotated[int, Field(ge=1, le=2**31)]

Seed = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass(frozen=True)
class Document:
    """A text with a name of its own."""

    doc_id: str
    content: bytes

    @property
    def split(self) -> Split:
        place = int(hashlib.sha256(self.doc_id.encode()).hexdigest(), 16) % 1000
        return "train" if place < TRAIN_BELOW else "val" if place < VAL_BELOW else "test"


@dataclass(frozen=True)
class Text:
    """What a run reads: the stream in its order, and what is held out from it."""

    name: str
    train: UInt8[np.ndarray, " byte"]
    val: UInt8[np.ndarray, " byte"]
    n_documents: int
    seed: int
    path: str | None = None

    @property
    def sha256(self) -> str:
        """Of all that is read: stream, then held-out text, with the length of either."""
        lengths = f"{len(self.train)},{len(self.val)}:".encode()
        return hashlib.sha256(lengths + self.train.tobytes() + self.val.tobytes()).hexdigest()

    def describe(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "sha256": self.sha256,
            "path": self.path,
            "seed": self.seed,
            "n_documents": self.n_documents,
            "n_train_bytes": len(self.train),
            "n_val_bytes": len(self.val),
        }


class TextSource(Protocol):
    """`data=…`."""

    def load(self) -> Text: ...


@dataclass(frozen=True)
class GeneratedText:
    """`data=generated`: prose, records and sums made up from the seed, the same bytes everywhere."""

    seed: Seed
    max_bytes: Size
    val_bytes: Size

    def load(self) -> Text:
        """Documents are made up until there are enough of either kind."""
        made: list[Document] = []
        lengths = {"train": 0, "val": 0, "test": 0}
        while lengths["train"] < self.max_bytes or lengths["val"] < self.val_bytes:
            document = Document(f"generated/{self.seed}/{len(made)}", invent_document(self.seed, len(made)))
            lengths[document.split] += len(document.content)
            made.append(document)
        return arrange("generated", made, self.seed, self.max_bytes, self.val_bytes)


@dataclass(frozen=True)
class PythonDocs:
    """`data=pydocs`: the language reference that every Python carries, read in place; each Python has its own."""

    seed: Seed
    max_bytes: Size
    val_bytes: Size

    def load(self) -> Text:
        from pydoc_data.topics import topics

        documents = [Document(f"pydocs/{name}", text.encode()) for name, text in topics.items()]
        return arrange("pydocs", documents, self.seed, self.max_bytes, self.val_bytes)


@dataclass(frozen=True)
class TextFiles:
    """`data=files`: your own, a file or all files of a folder; bytes are taken as they are."""

    path: Path
    seed: Seed
    max_bytes: Size
    val_bytes: Size

    def load(self) -> Text:
        if not self.path.exists():
            raise ConfigError(f"data.path={self.path}: no such file or folder")
        try:
            documents = [Document(name, path.read_bytes()) for name, path in self._files()]
        except OSError as error:
            raise ConfigError(f"data.path={self.path} can't be read: {error}") from None
        text = arrange(self.path.name, documents, self.seed, self.max_bytes, self.val_bytes, str(self.path))
        if not len(text.train):
            raise ConfigError(
                f"data.path={self.path} holds no text to learn from: give a file or folder with more in it"
            )
        return text

    def _files(self) -> Iterator[tuple[str, Path]]:
        """By a name that doesn't say where the folder lies; what is hidden stays so."""
        if self.path.is_file():
            yield self.path.name, self.path
            return
        for path in sorted(self.path.rglob("*")):
            name = path.relative_to(self.path)
            if path.is_file() and not any(part.startswith(".") for part in name.parts):
                yield name.as_posix(), path


def arrange(
    name: str, documents: Iterable[Document], seed: int, max_bytes: int, val_bytes: int, path: str | None = None
) -> Text:
    """Documents in the seed's order, in pieces, each in its split, cut off where there is enough."""
    ordered = sorted(documents, key=lambda document: hashlib.sha256(f"{seed}:{document.doc_id}".encode()).digest())
    pieces = [piece for document in ordered for piece in cut(document)]
    train = [piece.content for piece in pieces if piece.split == "train"]
    val = [piece.content for piece in pieces if piece.split == "val"]
    return Text(name, _joined(train, max_bytes), _joined(val, val_bytes), len(pieces), seed, path)


def cut(document: Document) -> list[Document]:
    """A short document as it is; a long one as pieces that end with a line, where one ends in time."""
    content, pieces = document.content, []
    while len(content) > 2 * PIECE_BYTES:
        end = content.find(b"\n", PIECE_BYTES, 2 * PIECE_BYTES) + 1 or 2 * PIECE_BYTES
        pieces.append(content[:end])
        content = content[end:]
    if not pieces:
        return [document]
    return [Document(f"{document.doc_id}#{i}", piece) for i, piece in enumerate([*pieces, content])]


def _joined(contents: Sequence[bytes], most: int) -> UInt8[np.ndarray, " byte"]:
    return np.frombuffer(b"".join(contents)[:most], np.uint8)
