"""`truth=reference`: the same NumPy stream, chunks and dtypes as the reference implementation."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from whest.mlp import MLP
from whest.truth.moments import MomentSamples
from whest.truth.plain import Moments
from whest.truth.truth import MOST_SAMPLES, SampleCount, StandardError, State, is_small_enough


@dataclass(frozen=True)
class ReferenceTruth:
    """NumPy normals with the reference's chunk sizes and dtypes; agrees with its CPU bake to 1e-7."""

    name: ClassVar[str] = "reference"
    version: ClassVar[int] = 1

    n_samples: SampleCount
    standard_error: StandardError | None = None
    resample: bool = False
    moments: bool = False
    moment_samples: MomentSamples = 2**18

    def stream(self, mlp: MLP, state: State | None = None) -> Iterator[Moments]:
        wanted = self.n_samples if self.standard_error is None else MOST_SAMPLES
        generator = np.random.default_rng(mlp.sample_stream)
        rows = max(1024, min(16384, 2**20 // mlp.width))
        moments = Moments.begin(mlp, state)
        if moments.generator:
            generator.bit_generator.state = json.loads(moments.generator)
            yield moments
        while moments.n_samples < wanted and not is_small_enough(moments, self.standard_error):
            drawn = min(rows, wanted - moments.n_samples)
            h = generator.standard_normal((drawn, mlp.width), dtype=np.float32)
            total, squares = [], []
            for w in mlp.weights:
                h = np.maximum(h @ w, np.float32(0))
                wide = h.astype(np.float64)
                total.append(wide.sum(0))
                squares.append(np.square(wide).sum(0))
            drawing_on = json.dumps(generator.bit_generator.state)
            moments = moments + Moments(drawn, np.stack(total), np.stack(squares), drawing_on)
            yield moments
