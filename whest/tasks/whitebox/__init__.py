"""White-box estimation: predict every neuron's mean from the weights alone."""

from whest.tasks.whitebox.build import build_task
from whest.tasks.whitebox.view import VIEW

__all__ = ["VIEW", "build_task"]
