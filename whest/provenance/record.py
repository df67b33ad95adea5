"""`provenance.json`: the files of the estimator and the user's repository, written beside the report."""

import json
from pathlib import Path
from typing import Any

from whest.document import CHANGES, PROVENANCE, SOURCE
from whest.estimator.spec import EstimatorSpec
from whest.files import write_atomically
from whest.host import PACKAGE, code_version
from whest.provenance.git import state_of
from whest.provenance.source import copy_source, source_files


def keep_provenance(spec: EstimatorSpec, folder: Path) -> None:
    """Copy the source and write provenance.json; changes.diff too, if the repository has changes."""
    hashes, left_out = copy_source(source_files(spec), folder / SOURCE)
    git = _repository(spec)
    if git is not None and git.diff:
        write_atomically(folder / CHANGES, git.diff.encode() + b"\n")
    record: dict[str, Any] = {
        "source": {"files": hashes, "left_out": left_out, "from": str(spec.source) if spec.source else None},
        "git": None if git is None else {"commit": git.commit, "branch": git.branch, "is_changed": git.is_changed},
    }
    write_atomically(folder / PROVENANCE, json.dumps(record, indent=2).encode())


def _repository(spec: EstimatorSpec) -> Any:
    """The repository of the user's own file. Of a bundled estimator: whest's checkout, if it was changed.

    `run_meta.code_version` names the commit of an unchanged checkout, so git isn't asked again.
    """
    if not spec.is_bundled:
        return state_of(spec.source.parent) if spec.source else None
    return state_of(PACKAGE.parent) if (code_version() or "").endswith("-dirty") else None
