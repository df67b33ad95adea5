"""The truth cache: sampled truth on disk, found by the hash of everything that determines it.

An entry has a digest of its content and is moved to its place in one step. So a killed run leaves no partial entry, and
a damaged entry is noticed and drawn again. While an entry is drawn, its state is kept in a file beside it. The next run
continues from that state and gets the same numbers, bit for bit.
"""

import hashlib
import json
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from whest.files import read_arrays, write_arrays
from whest.mlp import MLP
from whest.progress import Progress
from whest.truth.moments import MOMENTS_VERSION, LayerMoments, stream_moments
from whest.truth.truth import Running, Truth, TruthSampler, describe_sampler, expected_samples

BEGUN = ".begun"
"""The suffix of the state of an unfinished draw."""

MOMENTS = ".moments"
"""The suffix of the moments of `truth.moments=true`. They don't depend on the sampler of the means."""


@dataclass(frozen=True)
class TruthCache:
    folder: Path

    def find(self, sampler: TruthSampler, mlp: MLP) -> Truth | None:
        """The cached truth; None if it is missing or damaged."""
        return read_entry(self.truth_file(sampler, mlp))

    def stream(self, sampler: TruthSampler, mlp: MLP) -> Iterator[Running]:
        """The sampler's stream, from the state where it was last stopped. At the end, the entry is written."""
        path = self.truth_file(sampler, mlp)
        begun = path.with_suffix(BEGUN)
        running = None
        for running in sampler.stream(mlp, read_arrays(begun)):
            write_arrays(begun, running.state())
            yield running
        assert running is not None, "a sampler's stream was empty"
        write_entry(path, running.truth())
        begun.unlink(missing_ok=True)

    def draw(self, sampler: TruthSampler, mlp: MLP) -> Truth:
        """Draw the truth, or the rest of it, and keep it."""
        (last,) = deque(self.stream(sampler, mlp), maxlen=1)
        return last.truth()

    def truth(self, sampler: TruthSampler, mlp: MLP) -> Truth:
        return self.find(sampler, mlp) or self.draw(sampler, mlp)

    def moments(self, mlp: MLP, n_samples: int) -> LayerMoments:
        """Moments from the cache, or drawn now, from the state where they were last stopped."""
        path = self.moments_file(mlp, n_samples)
        begun = path.with_suffix(MOMENTS + BEGUN)
        entry = read_arrays(path)
        if entry is not None:
            return LayerMoments(int(entry.pop("n_samples")), entry)
        running = None
        for running in stream_moments(mlp, n_samples, read_arrays(begun)):
            write_arrays(begun, running.state())
        assert running is not None, "the stream of moments was empty"
        found = running.moments()
        write_arrays(path, {**found.arrays, "n_samples": found.n_samples})
        begun.unlink(missing_ok=True)
        return found

    def moments_file(self, mlp: MLP, n_samples: int) -> Path:
        return self.folder / f"{_hash(['moments', MOMENTS_VERSION, n_samples], mlp)}{MOMENTS}"

    def truth_file(self, sampler: TruthSampler, mlp: MLP) -> Path:
        return self.folder / f"{truth_hash(sampler, mlp)}.npz"


def truth_hash(sampler: TruthSampler, mlp: MLP) -> str:
    """Hash of everything that determines the numbers: the sampler, its version and aim, the weights, the stream."""
    return _hash(describe_sampler(sampler), mlp)


def _hash(drawn: object, mlp: MLP) -> str:
    stream = [str(mlp.sample_stream.entropy), list(mlp.sample_stream.spawn_key)]
    header = json.dumps([drawn, mlp.weights.shape, stream])
    return hashlib.sha256(header.encode() + mlp.weights.tobytes()).hexdigest()[:40]


def write_entry(path: Path, truth: Truth) -> None:
    own = {name: value for name, value in vars(truth).items() if name != "moments"}  # they have an entry of their own
    write_arrays(path, own | {"n_replicates": truth.n_replicates or 0})


def read_entry(path: Path) -> Truth | None:
    """The entry; None if it is missing or damaged."""
    entry = read_arrays(path)
    if entry is None:
        return None
    return Truth(
        entry["means"],
        entry["standard_errors"],
        float(entry["avg_variance"]),
        int(entry["n_samples"]),
        int(entry["n_replicates"]) or None,
    )


def watched_truth(cache: TruthCache, sampler: TruthSampler, mlp: MLP, progress: Progress) -> Truth:
    """Draw an MLP's truth and show the progress."""
    stream = progress.samples(
        cache.stream(sampler, mlp), f"truth of {mlp.name}", lambda running: expected_samples(sampler, running)
    )
    (last,) = deque(stream, maxlen=1)
    return last.truth()


def asked_moments(sampler: TruthSampler) -> int | None:
    """The samples of `truth.moments=true`; None without it, or of a sampler that has no such setting."""
    return int(getattr(sampler, "moment_samples", 0)) or None if getattr(sampler, "moments", False) else None
