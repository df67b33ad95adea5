"""The text to learn: the sources of its documents, the held-out split, and the order.

The hash of a document's name decides its split, so the split stays the same if documents are added. Long documents are
cut at line ends into pieces, which count as documents; the pieces of one document stay together. `data.seed` changes
only the order of the documents, and for data=generated their content.
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
"""The hash modulo 1000: train 0–949, val 950–974, test 975–999."""
PIECE_BYTES = 2048
"""The least length of a piece of a long document; at most it is twice as long."""
Size = Annotated[int, Field(ge=1, le=2**31)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


@dataclass(frozen=True)
class Document:
    """A named text."""

    doc_id: str
    content: bytes

    @property
    def split(self) -> Split:
        place = int(hashlib.sha256(self.doc_id.encode()).hexdigest(), 16) % 1000
        return "train" if place < TRAIN_BELOW else "val" if place < VAL_BELOW else "test"


@dataclass(frozen=True)
class Text:
    """The bytes of a run: the stream in its order, and the held-out text."""

    name: str
    train: UInt8[np.ndarray, " byte"]
    val: UInt8[np.ndarray, " byte"]
    n_documents: int
    seed: int
    path: str | None = None

    @property
    def sha256(self) -> str:
        """The hash of the two lengths, the stream and the held-out text."""
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
    """`data=generated`: invented prose, records and sums from the seed, the same bytes on every machine."""

    seed: Seed
    max_bytes: Size
    val_bytes: Size

    def load(self) -> Text:
        """Generate documents until there is enough text for both splits."""
        made: list[Document] = []
        lengths = {"train": 0, "val": 0, "test": 0}
        while lengths["train"] < self.max_bytes or lengths["val"] < self.val_bytes:
            document = Document(f"generated/{self.seed}/{len(made)}", invent_document(self.seed, len(made)))
            lengths[document.split] += len(document.content)
            made.append(document)
        return arrange("generated", made, self.seed, self.max_bytes, self.val_bytes)


@dataclass(frozen=True)
class PythonDocs:
    """`data=pydocs`: the language reference that comes with Python. Each Python version has its own text."""

    seed: Seed
    max_bytes: Size
    val_bytes: Size

    def load(self) -> Text:
        from pydoc_data.topics import topics

        documents = [Document(f"pydocs/{name}", text.encode()) for name, text in topics.items()]
        return arrange("pydocs", documents, self.seed, self.max_bytes, self.val_bytes)


@dataclass(frozen=True)
class TextFiles:
    """`data=files`: your own text, a file or all files of a folder, as raw bytes."""

    path: Path
    seed: Seed
    max_bytes: Size
    val_bytes: Size

    def load(self) -> Text:
        if not self.path.exists():
            raise ConfigError(f"data.path={self.path} does not exist: give a file or a folder of text")
        try:
            documents = [Document(name, path.read_bytes()) for name, path in self._files()]
        except OSError as error:
            raise ConfigError(f"data.path={self.path} can't be read: {error}") from None
        text = arrange(self.path.name, documents, self.seed, self.max_bytes, self.val_bytes, str(self.path))
        if not len(text.train):
            raise ConfigError(f"data.path={self.path} has no text to learn from: give a file or folder with more text")
        return text

    def _files(self) -> Iterator[tuple[str, Path]]:
        """The files with their names relative to the folder. Hidden files are left out."""
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
    """Order the documents by the seed, cut them into pieces, and fill the two splits up to their sizes."""
    ordered = sorted(documents, key=lambda document: hashlib.sha256(f"{seed}:{document.doc_id}".encode()).digest())
    pieces = [piece for document in ordered for piece in cut(document)]
    train = [piece.content for piece in pieces if piece.split == "train"]
    val = [piece.content for piece in pieces if piece.split == "val"]
    return Text(name, _joined(train, max_bytes), _joined(val, val_bytes), len(pieces), seed, path)


def cut(document: Document) -> list[Document]:
    """Cut a long document into pieces, at a line end if there is one in time. A short document stays whole."""
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
