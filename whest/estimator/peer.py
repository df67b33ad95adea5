"""The interpreter of WhestBench ("the peer"), and its versions of whestbench and flopscope."""

import importlib.util
import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from whest.errors import ConfigError
from whest.host import advice

OLDEST = (0, 16)
"""The first whestbench version that materialises an answer while the meter runs, as our worker does."""

INSTALLING = "python -m venv outputs/peer && outputs/peer/bin/pip install 'whestbench>=0.16'"
REMEDY = f"run `{advice('make peer', INSTALLING)}`, or name an interpreter that has it: estimator.python=ENV/bin/python"
PROBE = """
import importlib.metadata, json, sys
versions = {name: importlib.metadata.version(name) for name in ("whestbench", "flopscope", "numpy")}
print(json.dumps({"prefix": sys.prefix, **versions}))
"""


@dataclass(frozen=True)
class PeerPython:
    """An interpreter that has whestbench installed."""

    python: str
    prefix: str
    whestbench: str
    flopscope: str
    numpy: str

    @property
    def meter(self) -> dict[str, Any]:
        """The FLOP counter of that interpreter. It is part of the protocol hash, so these runs form their own track."""
        return {"name": "flopscope", "version": self.flopscope, "whestbench": self.whestbench}


def find_peer(python: str | None) -> PeerPython:
    """The given interpreter, or else the one of outputs/peer (`make peer`), or else this one if it has whestbench."""
    if python is not None:
        if not Path(python).is_file():
            raise ConfigError(f"estimator.python={python}: no such file; {REMEDY}")
        return _probe(str(Path(python).absolute()), f"estimator.python={python}")
    made = [place / "outputs" / "peer" / "bin" / "python" for place in (Path.cwd(), Path(__file__).parents[2])]
    found = next((path for path in made if path.exists()), None)
    if found is not None:
        return _probe(str(found), f"the peer's environment {found.parents[1]}")
    if importlib.util.find_spec("whestbench") is None:
        raise ConfigError(f"estimator.python is missing, and this environment has no whestbench: {REMEDY}")
    return _probe(sys.executable, f"estimator.python={sys.executable}")


@cache
def _probe(python: str, named: str) -> PeerPython:
    """Ask the interpreter for its versions, without running any of the peer's code."""
    try:
        asked = subprocess.run([python, "-I", "-c", PROBE], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"{named} can't be run ({error}): {REMEDY}") from None
    if asked.returncode:
        reason = (asked.stderr.strip() or f"exit code {asked.returncode}").splitlines()[-1]
        raise ConfigError(f"{named} has no whestbench ({reason}): {REMEDY}")
    try:
        peer = PeerPython(python, **json.loads(asked.stdout))
    except (ValueError, TypeError):
        raise ConfigError(f"{named} is not a Python interpreter: {REMEDY}") from None
    if _release(peer.whestbench) < OLDEST:
        wanted = ".".join(str(part) for part in OLDEST)
        raise ConfigError(f"{named} has whestbench {peer.whestbench}, older than {wanted}: {REMEDY}")
    return peer


def _release(version: str) -> tuple[int, ...]:
    parts = version.split(".")[:2]
    return tuple(int(part) if part.isdigit() else 0 for part in parts)
