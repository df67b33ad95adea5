"""The fast tests on the oldest and the newest supported JAX, on every supported Python: `make test-matrix`.

Each pair has an environment of its own in outputs/matrix, which is made once. A plain call runs everything; the
options choose a part. The table at the end is Markdown, for docs/compatibility.md.

    python benchmarks/matrix.py --python 3.13 --jax newest -- tests/metering tests/test_frozen.py
"""

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / "outputs" / "matrix"
JAX_FAMILY = ("jax", "jaxlib", "ml_dtypes", "optax", "jaxtyping")
"""Packages whose pins follow JAX's version, in lower case."""
QUICK = ("--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1")
"""As in the Makefile: XLA's older code generator compiles in half the time, where there is one."""
VERSIONS = "import platform, jax, hydra; print(platform.python_version(), jax.__version__, hydra.__version__)"


@dataclass(frozen=True)
class Pair:
    """One row of the matrix."""

    python: str
    jax: str
    """oldest or newest."""

    @property
    def home(self) -> Path:
        return PLACE / f"python{self.python}-{self.jax}"


@dataclass(frozen=True)
class Outcome:
    result: str
    is_good: bool


def project() -> dict[str, list[str]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def claimed() -> list[str]:
    """The Pythons of pyproject.toml's classifiers."""
    found = (re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", line) for line in project()["classifiers"])
    return [match[1] for match in found if match]


def interpreter(version: str) -> str | None:
    """A Python on PATH, or one of pyenv's."""
    if f"{sys.version_info.major}.{sys.version_info.minor}" == version:
        return sys.executable
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    own = sorted(root.glob(f"versions/{version}.*/bin/python"))
    return str(own[-1]) if own else shutil.which(f"python{version}")


def oldest_jax() -> str:
    """The lower bound of pyproject.toml."""
    found = (re.match(r"jax>=([\d.]+)", line) for line in project()["dependencies"])
    return next(match[1] for match in found if match)


def constraints(pair: Pair) -> Iterator[str]:
    """The development pins; those of JAX make way for the version that is tested."""
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line.partition("==")[0].lower() not in JAX_FAMILY:
            yield line
    if pair.jax == "oldest":
        yield from (f"{name}=={oldest_jax()}" for name in ("jax", "jaxlib"))


def environment(pair: Pair, python: str) -> str:
    """The pair's interpreter. Its mark has what was installed; another pyproject.toml or other pins install again."""
    mark, program = pair.home / "made.txt", str(pair.home / "bin" / "python")
    wanted = (ROOT / "pyproject.toml").read_text() + "\n".join(constraints(pair))
    if not mark.exists() or mark.read_text() != wanted:
        print(f"{pair.home.relative_to(ROOT)}: installing", flush=True)
        subprocess.run([python, "-m", "venv", str(pair.home)], check=True)
        pins = pair.home / "constraints.txt"
        pins.write_text("\n".join(constraints(pair)) + "\n")
        install = [program, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-c", str(pins), "-e", f"{ROOT}[dev]"], check=True, cwd=ROOT)
        mark.write_text(wanted)
    return program


def versions_of(program: str) -> str:
    return subprocess.run([program, "-c", VERSIONS], check=True, capture_output=True, text=True).stdout.strip()


def knows_flag(program: str, flag: str) -> bool:
    """Whether this XLA has the flag. It ends the process of one that it doesn't know."""
    tried = [program, "-c", "import jax; jax.devices()"]
    return subprocess.run(tried, env={**os.environ, "XLA_FLAGS": flag}, capture_output=True).returncode == 0


def run(pair: Pair, program: str, arguments: Sequence[str]) -> Outcome:
    flags = " ".join(flag for flag in QUICK if knows_flag(program, flag))
    variables = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "1", "XLA_FLAGS": flags}
    command = [program, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", "-p", "no:cacheprovider", *arguments]
    ended = subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, text=True)
    (pair.home / "tests.txt").write_text(ended.stdout)
    lines = ended.stdout.strip().splitlines() or ["no output"]
    if ended.returncode:
        print("\n".join(line for line in lines if line.startswith(("FAILED", "ERROR"))), flush=True)
    return Outcome(re.sub(r" in [\d.]+s.*", "", lines[-1].strip("= ")), ended.returncode == 0)


def main() -> None:
    parser = argparse.ArgumentParser(description="the fast tests on every supported Python and JAX")
    parser.add_argument("--python", nargs="*", default=claimed(), help="versions, such as 3.12")
    parser.add_argument("--jax", nargs="*", default=["oldest", "newest"], choices=["oldest", "newest"])
    parser.add_argument("tests", nargs="*", help="arguments of pytest, after --")
    options = parser.parse_args()
    rows, is_good = [], True
    for version in options.python:
        python = interpreter(version)
        if python is None:
            print(f"Python {version} is claimed and not found here: it is not tested", flush=True)
            continue
        seen: set[str] = set()
        for jax in options.jax:
            program = environment(Pair(version, jax), python)
            versions = versions_of(program)
            if versions in seen:  # this Python's newest JAX is the oldest that is supported
                continue
            seen.add(versions)
            outcome = run(Pair(version, jax), program, options.tests)
            is_good = is_good and outcome.is_good
            rows.append(f"| {' | '.join(versions.split())} | {datetime.date.today()} | {outcome.result} |")
            print(rows[-1], flush=True)
    print("\n| Python | JAX | Hydra | run on | fast tests |\n|---|---|---|---|---|", *rows, sep="\n")
    if not is_good or not rows:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
