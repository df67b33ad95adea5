"""The room a learner is trained in, and the exam that must not lie in it.

The room lists what is there, not what is hidden, so that even the way it is built says nothing of the exam.
"""

from collections.abc import Sequence
from pathlib import Path

from whest.errors import ConfigError


def refuse_exam_in_room(exam: Path | None, allowed: Sequence[Path]) -> None:
    """An exam that lies where the learner must look could not be kept from it."""
    if exam is None:
        return
    for place in {exam, exam.resolve()}:
        for folder in allowed:
            if place.is_relative_to(folder.resolve()) or place.is_relative_to(folder):
                raise ConfigError(
                    f"data.exam={exam} lies in {folder}, which the training process needs to see: move it elsewhere"
                )
