"""Prequential learning: how short a code a byte learner gives a text it reads once."""

from whest.tasks.prequential.build import build_task
from whest.tasks.prequential.view import VIEW

__all__ = ["VIEW", "build_task"]
