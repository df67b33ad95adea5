"""Bundles: a trained model as one file of plain arrays, with its parameters and the program that answers.

The program is the learner's `logits`, traced and written as data (`whest.isolation.portable`), so opening a bundle runs
no code of its author. A bundle is an .npz without pickles. Its size is measured after gzip.
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
"""In bytes. A larger bundle is refused without opening it."""
DATE = (1980, 1, 1, 0, 0, 0)


class BundleError(WhestError):
    """The bundle can't be used."""


@dataclass(frozen=True)
class Bundle:
    """The parameters in the order of the program's inputs, the program, and the learner's description."""

    params: Sequence[np.ndarray]
    program: Mapping[str, Any]
    constants: Sequence[np.ndarray]
    learner: Mapping[str, Any]


def pack(bundle: Bundle) -> bytes:
    """Pack a model. The same model always gives the same bytes: no dates, no compression."""
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
            raise ValueError(f"{len(content)} bytes are over the limit of {LARGEST_OPENED}")
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
