"""An exam: train a byte learner from nothing under a budget, then answer questions it never saw."""

from whest.tasks.exam.build import build_task
from whest.tasks.exam.view import VIEW

__all__ = ["VIEW", "build_task"]
