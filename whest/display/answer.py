"""`console=json`: the result as one line of JSON on standard output. Text for people goes to standard error then."""

import json
import sys
from typing import Any

from whest.document import strict_json


class _State:
    """Whether JSON was asked for, and what the job has told so far."""

    is_json = False
    told: dict[str, Any] = {}  # noqa: RUF012


def answer_in_json(is_wanted: bool) -> None:
    _State.is_json = is_wanted


def is_json() -> bool:
    return _State.is_json


def tell(**fields: Any) -> None:
    """Add to the answer of this job."""
    _State.told |= fields


def give_answer(exit_code: int, error: str | None = None) -> None:
    """Print the answer and forget it. Without console=json, nothing is printed."""
    told, _State.told = _State.told, {}
    if not _State.is_json:
        return
    document = {"exit_code": exit_code, "error": error, **told}
    sys.stdout.write(json.dumps(strict_json(document), default=str, allow_nan=False) + "\n")
    sys.stdout.flush()
