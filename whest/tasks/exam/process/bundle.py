"""Bundles: a trained model as one file of plain arrays, its parameters and the program that answers with them.

The program is the learner's `logits`, traced and written as data (`whest.isolation.portable`). Opening a bundle runs
none of its author's code. A bundle is an .npz without pickles; its size is that of its bytes under gzip.
"""

import gzip
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from whest.errors import WhestError

LARGEST_OPENED = 2**31
"""Bytes of a bundle that is opened at all."""

DATE = (1980, 1, 1, 0, 0, 0)


class BundleError(WhestError):
    """A bundle that can't be opened."""


@dataclass(frozen=True)
class Bundle:
    """Parameters in the order of the program's inputs, the program, and which learner it was."""

    params: Sequence[np.ndarray]
    program: Mapping[str, Any]
    constants: Sequence[np.ndarray]
    learner: Mapping[str, Any]


def pack(bundle: Bundle) -> bytes:
    """The same bytes for the same model: no dates, no compression of its own."""
    arrays = {f"param_{i:04d}": array for i, array in enumerate(bundle.params)}
    arrays |= {f"constant_{i:04d}": array for i, array in enumerate(bundle.constants)}
    arrays |= {"program": _as_bytes(bundle.program), "learner": _as_bytes(bundle.learner)}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = io.BytesIO()
            np.lib.format.write_array(member, np.asarray(array, order="C"), allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy", DATE), member.getvalue())
    return packed.getvalue()


def unpack(content: bytes) -> Bundle:
    try:
        if len(content) > LARGEST_OPENED:
            raise ValueError(f"{len(content)} bytes are more than are opened")
        with np.load(io.BytesIO(content), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        program, learner = (json.loads(arrays[name].tobytes()) for name in ("program", "learner"))
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise BundleError(f"the bundle can't be opened ({type(error).__name__}: {error})") from None
    params, constants = ([arrays[n] for n in sorted(arrays) if n.startswith(kind)] for kind in ("param_", "constant_"))
    return Bundle(params, program, constants, learner)


def gzipped_size(content: bytes) -> int:
    return len(gzip.compress(content, compresslevel=9, mtime=0))


def _as_bytes(document: Any) -> np.ndarray:
    return np.frombuffer(json.dumps(document).encode(), np.uint8)
