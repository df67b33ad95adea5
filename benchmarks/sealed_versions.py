"""Every bundled estimator and learner: sealed under this JAX, read, metered and run under another one, and compared.

    python benchmarks/sealed_versions.py                     # the newest JAX, as benchmarks/matrix.py installs it
    python benchmarks/sealed_versions.py --other bin/python  # or that of this interpreter

The table at the end is for docs/format.md. The answers of the source are those of `predict` as it was traced here.
"""

import argparse
import json
import subprocess
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matrix
import numpy as np
from hydra.utils import get_class
from omegaconf import OmegaConf

from whest.cases.prediction import Failure
from whest.estimator.contract import SetupContext
from whest.estimator.spec import EstimatorSpec, estimator_spec
from whest.estimator.traced import compile_program, estimator_function, trace
from whest.isolation.learner import written_programs
from whest.isolation.learning import loaded
from whest.isolation.portable import read_program, write_program
from whest.learner.contract import LearnerContext, create_learner
from whest.learner.programs import flatten_learner, trace_programs
from whest.metering.walk import METER_VERSION
from whest.mlp import SeedProtocol, draw_mlp
from whest.sealed.container import Versions
from whest.sealed.purpose import Purpose
from whest.sealed.sealed import Traced, read_sealed, write_sealed

WIDTH, DEPTH, BUDGET, SEED, N_TRUTH = 32, 4, 10**7, 5, 100_000
CONTEXT = SetupContext(WIDTH, DEPTH, BUDGET, 0.0, None, None, 0, "", None)
LEARNING = LearnerContext(10**10, 16, 4096, 1337)
ROWS = {"row_length": LEARNING.row_length, "n_bytes": LEARNING.n_bytes}


def bundled() -> dict[str, EstimatorSpec]:
    """The estimators and learners that are programs."""
    found = {}
    for path in sorted((matrix.ROOT / "conf" / "estimator").glob("*.yaml")):
        node: Any = OmegaConf.to_container(OmegaConf.load(path))
        if "_target_" in node:
            found[path.stem] = estimator_spec({"name": path.stem, "mode": "traced", **node})
    return {name: spec for name, spec in found.items() if is_program(spec)}


def is_program(spec: EstimatorSpec) -> bool:
    return is_estimator(spec) or hasattr(get_class(str(spec.target)), "update")


def is_estimator(spec: EstimatorSpec) -> bool:
    return hasattr(get_class(str(spec.target)), "predict")


def seal(spec: EstimatorSpec) -> tuple[bytes, dict[str, Any]]:
    """The file, and what the source answers here."""
    versions = Versions(version("whest"), version("jax"), METER_VERSION, 2)
    if is_estimator(spec):
        function = estimator_function(spec.create(), BUDGET)
        program: Any = trace(function, CONTEXT)
        document, arrays = write_program(program.jaxpr)
        traced = Traced(Purpose("whitebox", BUDGET, width=WIDTH, depth=DEPTH), ({"program": document}, arrays), {}, 0)
        return write_sealed(spec.name, "", "", None, versions, [traced]), predicted(function)
    programs = written_programs(trace_programs(flatten_learner(create_learner(spec, LEARNING)), LEARNING))
    traced = Traced(Purpose("prequential", LEARNING.flop_budget, **ROWS), programs, {}, 0)
    return write_sealed(spec.name, "", "", None, versions, [traced]), learnt(loaded(*programs, LEARNING))


def answered(content: bytes) -> dict[str, Any]:
    """What a file answers in this process: its FLOPs and its figures."""
    sealed = read_sealed(content)
    message, arrays = sealed.programs(sealed.header.entries[0])
    if sealed.header.entries[0].purpose.task == "prequential":
        return learnt(loaded(message, arrays, LEARNING))
    function = read_program(message["program"], arrays)
    return predicted(lambda *args: function(*args)[0])


def predicted(function: Any) -> dict[str, Any]:
    program = compile_program(function, CONTEXT)
    if isinstance(program, Failure):
        raise SystemExit(str(program))
    found = program.predict(draw_mlp(SeedProtocol().streams(SEED), WIDTH, DEPTH, "bench"))
    if found.means is None:
        return {"flops": {"predict": found.cost.flops}, "figures": [[]]}
    return {"flops": {"predict": found.cost.flops, **found.cost.by_namespace}, "figures": [found.means]}


def learnt(engine: Any) -> dict[str, Any]:
    """The losses of some steps, and the logits at the end."""
    draw = np.random.default_rng(1)
    rows = draw.integers(32, 127, (3, engine.rows_per_step, LEARNING.row_length)).astype(np.uint8)
    engine.begin(LEARNING.seed, rows[0])
    losses, moved = engine.steps(
        rows, rows[::-1].copy(), np.full(rows.shape[:2], 5, np.int32), np.array([1, 0.5, 0], np.float32)
    )
    flops = {"update": engine.update_cost.flops, "logits": engine.forward_cost.flops}
    return {"flops": flops, "figures": [losses, moved, engine.logits(rows[0])]}


def plain(answer: dict[str, Any]) -> dict[str, Any]:
    """As JSON: float32 to float64 and back loses nothing."""
    figures = [np.asarray(each, np.float64).ravel().tolist() for each in answer["figures"]]
    return {"flops": {name: int(flops) for name, flops in answer["flops"].items()}, "figures": figures}


def true_means() -> np.ndarray:
    """Of the last layer, by plain sampling."""
    h = np.random.default_rng(0).standard_normal((N_TRUTH, WIDTH), np.float32)
    for weights in draw_mlp(SeedProtocol().streams(SEED), WIDTH, DEPTH, "bench").weights:
        h = np.maximum(h @ weights, 0)
    return h.mean(0)


def score(answer: dict[str, Any], truth: np.ndarray) -> float | None:
    if len(answer["figures"]) != 1 or not answer["figures"][0]:
        return None
    means = np.reshape(answer["figures"][0], (DEPTH, WIDTH))
    return float(np.mean((means[-1] - truth) ** 2)) * max(0.1, answer["flops"]["predict"] / BUDGET)


def distance(one: dict[str, Any], other: dict[str, Any]) -> float:
    """The largest difference, over the largest figure."""
    pairs = zip(one["figures"], other["figures"], strict=True)
    return max(
        (float(np.max(np.abs(np.subtract(a, b)))) / (float(np.max(np.abs(a))) or 1.0) for a, b in pairs if len(a)),
        default=0.0,
    )


def read_all(folder: Path) -> None:
    """In the other interpreter: answer every file of a folder."""
    for path in sorted(folder.glob("*.whest")):
        path.with_suffix(".json").write_text(json.dumps(plain(answered(path.read_bytes()))))
    (folder / "jax").write_text(version("jax"))


def main() -> None:
    parser = argparse.ArgumentParser(description="sealed under one JAX, read under another")
    parser.add_argument("--other", help="an interpreter with another JAX and this whest")
    parser.add_argument("--read", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        read_all(options.read)
        return
    other = options.other or matrix.environment(
        matrix.Pair("3.12", "newest"), matrix.interpreter("3.12") or "python3.12"
    )
    truth, is_good, specs = true_means(), True, bundled()
    with tempfile.TemporaryDirectory() as place:
        folder, here = Path(place), {}
        for name, spec in specs.items():
            content, source = seal(spec)
            (folder / f"{name}.whest").write_bytes(content)
            here[name] = plain(source), plain(answered(content))
        subprocess.run([other, __file__, "--read", place], check=True, cwd=matrix.ROOT)
        theirs = (folder / "jax").read_text()
        print(f"sealed under JAX {version('jax')}, read under {theirs}; {WIDTH}x{DEPTH}, budget {BUDGET:.0e}\n")
        print(
            "| program | FLOPs | the same there | file against source here | there against here | score there / here |"
        )
        print("|---|---|---|---|---|---|")
        for name, (source, file) in here.items():
            there = json.loads((folder / f"{name}.json").read_text())
            same = source["flops"] == file["flops"] == there["flops"]
            ours, away = distance(source, file), distance(file, there)
            scores = score(file, truth), score(there, truth)
            ratio = "–" if not scores[0] or scores[1] is None else f"{scores[1] / scores[0]:.9f}"
            flops = next(iter(file["flops"].values()))
            print(f"| `{name}` | {flops:,} | {'yes' if same else 'NO'} | {ours:.1g} | {away:.1g} | {ratio} |")
            is_good = is_good and same and ours == 0 and away < 1e-4
    if not is_good:
        raise SystemExit("something differs by more than rounding")


if __name__ == "__main__":
    main()
