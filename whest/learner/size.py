"""How much a learner can bring along: its whole program document under gzip.

Constants are only one place for luggage. Which variable an operand names, a static parameter or a label can hold bytes
too, so the bound is on everything that is read: operations, wiring, parameters, labels, constants.
"""

import gzip
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from whest.learner.programs import LearnerError

LARGEST_DOCUMENT = 76_000
"""Bytes under gzip: four times the largest bundled learner (byte_contexts, 19.0 kB)."""

LARGEST_WRITTEN = 32 * LARGEST_DOCUMENT
"""Bytes before gzip; a longer document is refused without the work of packing it. Bundled ones pack to an eighth."""


def program_bytes(document: Mapping[str, Any], arrays: Sequence[np.ndarray]) -> int:
    """The size of a learner's programs under gzip; too large a one is refused."""
    constants = sum(array.nbytes for array in arrays)
    shapes = [[array.dtype.name, list(array.shape)] for array in arrays]
    written = json.dumps([document, shapes], separators=(",", ":"), sort_keys=True).encode()
    if len(written) + constants > LARGEST_WRITTEN:
        raise LearnerError(
            f"the learner's programs have {len(written) + constants:,} bytes written down, at most {LARGEST_WRITTEN:,} "
            "are read: use a loop (lax.scan) where operations repeat"
        )
    packed = gzip.compress(b"".join([written, *(array.tobytes() for array in arrays)]), compresslevel=9, mtime=0)
    if len(packed) > LARGEST_DOCUMENT:
        raise LearnerError(
            f"the learner's programs have {len(packed):,} bytes under gzip, at most {LARGEST_DOCUMENT:,} are allowed: "
            "what it knows must come from init(key) and the stream"
        )
    return len(packed)
