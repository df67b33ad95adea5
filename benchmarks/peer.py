"""Install WhestBench ("the peer") into its own environment, outputs/peer: `make peer`."""

import subprocess
import venv
from pathlib import Path

PEER = Path("outputs/peer").absolute()
PACKAGE = "whestbench==0.16.2"


def peer_bin() -> Path:
    """The folder of its `python` and `whest`."""
    python = PEER / "bin" / "python"
    if not python.exists():
        venv.create(PEER, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
    return python.parent


if __name__ == "__main__":
    print(peer_bin())
