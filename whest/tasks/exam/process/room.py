"""The room a learner is trained in, and the exam that must not lie in it.

A room is a list of visible folders, not of hidden ones, so the list itself says nothing about the exam.
"""

from collections.abc import Sequence
from pathlib import Path

from whest.errors import ConfigError


def refuse_exam_in_room(exam: Path | None, allowed: Sequence[Path]) -> None:
    """Refuse an exam in a folder of the room: it could not be hidden from the learner."""
    if exam is None:
        return
    for place in {exam, exam.resolve()}:
        for folder in allowed:
            if place.is_relative_to(folder.resolve()) or place.is_relative_to(folder):
                raise ConfigError(
                    f"data.exam={exam} is in {folder}, which the training process must see: move it to another folder"
                )
