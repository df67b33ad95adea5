"""Values that must not change by accident, so that old and new scores stay comparable.

`frozen.json` holds the pinned values. An intended change (a new meter version, a new report key) replaces them in the
same commit: `python tests/test_frozen.py` prints the present values.
"""

import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

import whest
from tests.support.places import ROOT
from whest.config.versions import BASE
from whest.dataset.sources import SuiteDataset
from whest.dataset.suite import FOLDER as SUITES
from whest.dataset.suite import shipped_suites
from whest.document import protocol_hash
from whest.estimator.spec import estimator_spec
from whest.estimator.traced import estimator_function
from whest.experiment import build, protocol_of
from whest.metering.walk import METER_VERSION, meter
from whest.mlp import SeedProtocol, draw_mlp
from whest.truth.cache import truth_hash
from whest.truth.fast import FastTruth
from whest.truth.mixed import MixedTruth
from whest.truth.plain import PlainTruth
from whest.truth.pruned import PrunedTruth
from whest.truth.reference import ReferenceTruth

PINS = Path(__file__).with_name("frozen.json")
PROTOCOLS = {
    **{
        f"{round_} {rule}": (f"round={round_}", f"scoring={rule}")
        for round_ in ("warmup", "phase1", "phase2")
        for rule in ("whest", "fherma")
    },
    **{f"{round_} v1": (f"round={round_}", "dataset.version=1") for round_ in ("warmup", "phase1", "phase2")},
    "prism": ("experiment=prism", "data=generated"),  # pydocs differs with each Python
    "ari": ("experiment=ari",),
}
FLOPS = {
    f"{estimator} {width}x{depth}": (estimator, width, depth, budget)
    for estimator in ("cov_prop", "kerdock", "matrix_core")
    for width, depth, budget in ((256, 8, 6.8e10), (32, 4, 1e8))
}
EXPERIMENTS = ("", *sorted(path.stem for path in (ROOT / "conf" / "experiment").glob("*.yaml")))
TINY = ("debug=tiny", "tracking=none")


def protocol(name: str, folder: Path) -> str:
    config = whest.compose(*PROTOCOLS[name], "tracking=none", f"outputs_dir={folder}")
    return protocol_hash(protocol_of(build(config, folder)))


def suite_digests() -> dict[str, str]:
    paths = sorted(SUITES.glob("v*/*.npz"))
    return {f"{path.parent.name}/{path.stem}": hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def suite_contents() -> dict[str, str]:
    """The content digest of each round's suite, which is in the protocol hash, of every version."""
    shipped = [SuiteDataset(suite.round, version=suite.version) for suite in shipped_suites()]
    return {f"v{suite.version}/{suite.round}": suite.load().sha256 for suite in shipped}


def truth_hashes() -> dict[str, str]:
    mlp = draw_mlp(SeedProtocol().streams(20260525), 16, 3, "frozen")
    samplers = {
        "fast": FastTruth(n_samples=10_000, standard_error=None, resample=False),
        "mixed": MixedTruth(n_samples=10_000, standard_error=None, resample=False),
        "plain": PlainTruth(n_samples=10_000, standard_error=None, resample=False),
        "pruned": PrunedTruth(n_samples=10_000, standard_error=None, resample=False),
        "reference": ReferenceTruth(n_samples=10_000, standard_error=None, resample=False),
    }
    return {name: truth_hash(sampler, mlp) for name, sampler in samplers.items()}


def flops(name: str) -> int:
    estimator, width, depth, budget = FLOPS[name]
    node = whest.compose(f"estimator={estimator}")["estimator"]
    function = estimator_function(estimator_spec(node).create(), int(budget))
    weights = jax.ShapeDtypeStruct((depth, width, width), np.float32)
    key = jax.ShapeDtypeStruct((2,), np.uint32)
    return meter(function)(weights, jax.ShapeDtypeStruct((), np.uint32), key).flops


def composed(experiment: str) -> Any:
    """The output of `--cfg job`, with the class of a target but without its module."""
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(ROOT / "conf"), **BASE):
        config = hydra_compose("config", [f"experiment={experiment}"] if experiment else [])
    return _without_modules(OmegaConf.to_container(config, resolve=False))


def _without_modules(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_modules(item) for item in node]
    if not isinstance(node, dict):
        return node
    return {
        key: value.rpartition(".")[2] if key == "_target_" else _without_modules(value) for key, value in node.items()
    }


def report_keys(folder: Path) -> list[str]:
    report = whest.run(*TINY, f"outputs_dir={folder}", folder=folder / "run")
    return sorted(_paths(report.to_json()))


def _paths(value: Any, prefix: str = "") -> set[str]:
    """Every key, as a path; rows of a list are one row."""
    if isinstance(value, dict):
        return {prefix} | {path for key, item in value.items() for path in _paths(item, f"{prefix}/{key}")}
    if isinstance(value, list):
        return {prefix} | {path for item in value for path in _paths(item, f"{prefix}/*")}
    return {prefix}


def read_pins() -> dict[str, Any]:
    pins: dict[str, Any] = json.loads(PINS.read_text())
    return pins


@pytest.mark.parametrize("name", PROTOCOLS)
def test_protocol_hashes(name: str, tmp_path: Path) -> None:
    assert protocol(name, tmp_path) == read_pins()["protocols"][name]


def test_suites_are_the_same_bytes() -> None:
    assert suite_digests() == read_pins()["suites"]


def test_suites_have_the_same_content() -> None:
    assert suite_contents() == read_pins()["suite_contents"]


def test_the_first_versions_protocols_are_those_of_before_there_were_versions() -> None:
    pins = read_pins()["protocols"]
    assert {name: pins[f"{name} v1"] for name in ("warmup", "phase1", "phase2")} == {
        "warmup": "c88138c880f56ccb",
        "phase1": "5729b303b4e23ed7",
        "phase2": "3e120ffe20377c54",
    }


def test_truth_hashes() -> None:
    assert truth_hashes() == read_pins()["truth_hashes"]


def test_the_meters_version() -> None:
    assert read_pins()["meter_version"] == METER_VERSION


SLOW_TO_TRACE = ("kerdock 256x8", "matrix_core 256x8")
"""Their pins at 32x4 are fast."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow) if name in SLOW_TO_TRACE else name for name in FLOPS]
)
def test_flops(name: str) -> None:
    assert flops(name) == read_pins()["flops"][name]


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_composed_configs(experiment: str) -> None:
    assert composed(experiment) == read_pins()["configs"][experiment or "default"]


def test_keys_of_a_report(tmp_path: Path) -> None:
    """Which operations a program is made of is JAX's choice, version by version; everything else is ours."""
    assert _any_operation(report_keys(tmp_path)) == _any_operation(read_pins()["report_keys"])


def _any_operation(paths: list[str]) -> list[str]:
    return sorted({re.sub(r"/operations/\w+", "/operations/*", path) for path in paths})


def pins_now(folder: Path) -> dict[str, Any]:
    return {
        "meter_version": METER_VERSION,
        "protocols": {name: protocol(name, folder) for name in PROTOCOLS},
        "suites": suite_digests(),
        "suite_contents": suite_contents(),
        "truth_hashes": truth_hashes(),
        "flops": {name: flops(name) for name in FLOPS},
        "configs": {experiment or "default": composed(experiment) for experiment in EXPERIMENTS},
        "report_keys": report_keys(folder),
    }


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as made:
        sys.stdout.write(json.dumps(pins_now(Path(made)), indent=1, ensure_ascii=False) + "\n")
