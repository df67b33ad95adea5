"""A report on disk against the types of `report.json`."""

import json
from pathlib import Path
from typing import Any

from whest.document import FAMILIES, document_adapter

FAMILY = "family/"


def check_document(path: Path) -> dict[str, Any]:
    """Read a report.json whose keys and types must all be declared."""
    document: dict[str, Any] = json.loads(path.read_text())
    check_types(document)
    return document


def check_types(document: dict[str, Any]) -> None:
    """Raise for a key too many, a key too few, or a wrong type. The shares of an exam's families are checked here."""
    assert list(FAMILIES) == [f"^{FAMILY}"]
    results = document["results"]
    families = {key: value for key, value in results.items() if key.startswith(FAMILY)}
    assert all(isinstance(share, float) for share in families.values())
    assert not families or document["run_config"]["task"] == "exam"
    closed = {**document, "results": {key: value for key, value in results.items() if key not in families}}
    document_adapter().validate_json(json.dumps(closed))
