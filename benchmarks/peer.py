"""The peer, installed from PyPI into an environment of its own: outputs/peer."""

import subprocess
import venv
from pathlib import Path

PEER = Path("outputs/peer").absolute()


def peer_bin() -> Path:
    """Where its `python` and `whest` are."""
    python = PEER / "bin" / "python"
    if not python.exists():
        venv.create(PEER, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "whestbench"], check=True)
    return python.parent
