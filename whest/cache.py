"""The truth cache: sampled truth on disk, found by the hash of everything that determines it.

An entry is written beside its place and moved there in one step, and carries a digest of its content, so a killed
run leaves no half entry and a damaged one is noticed and drawn again.
"""

import hashlib
import io
import json
import os
import tempfile
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from whest.mlp import MLP
from whest.truth import Running, Truth, TruthSampler

DIGEST_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True)
class TruthCache:
    folder: Path

    def find(self, sampler: TruthSampler, mlp: MLP) -> Truth | None:
        """The cached truth, or None where there is none or it is damaged."""
        return read_entry(self._path(sampler, mlp))

    def draw(self, sampler: TruthSampler, mlp: MLP, stream: Iterable[Running] | None = None) -> Truth:
        """Exhaust the sampler's stream and keep what it gave."""
        moments = deque(stream if stream is not None else sampler.stream(mlp), maxlen=1)
        truth = moments.pop().truth()
        assert truth.n_samples >= sampler.n_samples, "a sampler's stream ended early"
        write_entry(self._path(sampler, mlp), truth)
        return truth

    def truth(self, sampler: TruthSampler, mlp: MLP) -> Truth:
        return self.find(sampler, mlp) or self.draw(sampler, mlp)

    def _path(self, sampler: TruthSampler, mlp: MLP) -> Path:
        return self.folder / f"{truth_hash(sampler, mlp)}.npz"


def truth_hash(sampler: TruthSampler, mlp: MLP) -> str:
    """Everything the drawn numbers depend on: the sampler, its version and size, the weights, the sampling stream."""
    stream = [str(mlp.sample_stream.entropy), list(mlp.sample_stream.spawn_key)]
    header = json.dumps([sampler.name, sampler.version, sampler.n_samples, mlp.weights.shape, stream])
    return hashlib.sha256(header.encode() + mlp.weights.tobytes()).hexdigest()[:40]


def write_entry(path: Path, truth: Truth) -> None:
    buffer = io.BytesIO()
    np.savez(
        buffer,
        means=truth.means,
        standard_errors=truth.standard_errors,
        avg_variance=truth.avg_variance,
        n_samples=truth.n_samples,
        n_replicates=truth.n_replicates or 0,
    )
    content = buffer.getvalue()
    write_atomically(path, hashlib.sha256(content).digest() + content)


def read_entry(path: Path) -> Truth | None:
    """The entry, or None where it is absent or damaged."""
    try:
        stored = path.read_bytes()
    except OSError:
        return None
    digest, content = stored[:DIGEST_BYTES], stored[DIGEST_BYTES:]
    if hashlib.sha256(content).digest() != digest:
        return None
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return Truth(
            file["means"],
            file["standard_errors"],
            float(file["avg_variance"]),
            int(file["n_samples"]),
            int(file["n_replicates"]) or None,
        )


def write_atomically(path: Path, content: bytes) -> None:
    """Write a whole file or nothing: into a neighbour first, then moved over the name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, neighbour = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        Path(neighbour).chmod(0o666 & ~_umask())
        Path(neighbour).replace(path)
    except BaseException:
        Path(neighbour).unlink(missing_ok=True)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
