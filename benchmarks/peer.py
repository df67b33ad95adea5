"""The peer, installed into an environment of its own, outputs/peer: `make peer`."""

import subprocess
import venv
from pathlib import Path

PEER = Path("outputs/peer").absolute()
PACKAGE = "whestbench==0.16.2"


def peer_bin() -> Path:
    """Where its `python` and `whest` are."""
    python = PEER / "bin" / "python"
    if not python.exists():
        venv.create(PEER, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
    return python.parent


if __name__ == "__main__":
    print(peer_bin())
