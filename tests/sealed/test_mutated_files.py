"""Sealed files that somebody tampered with: refused or right, never the end of the worker that reads them."""

import copy
import json
import os
import signal
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.support.estimators import draw
from tests.support.mutations import mutated
from tests.support.sealing import context_of, parts_of, purpose_of, seal_function, seal_programs, with_header
from whest.cases.prediction import Failure
from whest.errors import ConfigError
from whest.estimator.spec import EstimatorSpec
from whest.estimator.traced import begin_program
from whest.isolation.messages import WorkerFailedError, read_cost, read_prediction, write_mlp
from whest.isolation.portable import read_program
from whest.isolation.process import Worker, World
from whest.isolation.traced import TracedProcessRunner
from whest.limits import WorkerLimits
from whest.sealed.container import SealedFileError
from whest.sealed.sealed import open_sealed, read_sealed

CONTEXT = context_of(8, 2, 10**6)
MLP = draw(3, 8, 2)
SEED, HANG_S, MOST_MB, WORKERS_SHARE = 9, 30.0, 1500.0, 250
ENDS = {"refused", "right", "over budget", "killed at a limit", "failed in words"}
TABLE = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


def honest(weights: Any, seed: Any, key: Any) -> Any:
    """A loop, a choice, a constant, random numbers and a reduction."""
    h = jnp.asarray(TABLE) + seed.astype(jnp.float32)
    h = lax.fori_loop(0, 3, lambda i, x: jnp.tanh(x @ weights[0]), h)
    rows = lax.scan(lambda x, w: (jnp.maximum(x @ w, 0), x.mean(0)), h, weights)[1]
    return lax.cond(rows.sum() > 0, lambda r: r * 2, lambda r: jnp.sort(r), rows)


def tampered(content: bytes, draw: Random) -> bytes:
    """One file: bytes changed where they stand, or header, program or arrays changed and sealed again."""
    how = draw.choice(("bytes", "cut", "header", "program", "program", "program", "arrays"))
    if how == "bytes":
        changed = bytearray(content)
        for _ in range(draw.choice((1, 1, 3, 20))):
            changed[draw.randrange(len(changed))] = draw.randrange(256)
        return bytes(changed)
    if how == "cut":
        return content[: draw.randrange(len(content))] + draw.randbytes(draw.choice((0, 0, 5)))
    header, message, arrays = parts_of(content)
    if how == "header":
        return with_header(content, mutated(header, draw))
    if how == "program":
        return seal_programs(mutated(message, draw), arrays, purpose_of(CONTEXT))
    arrays = copy.deepcopy(arrays)
    place = draw.randrange(len(arrays))
    kind = draw.choice(("drop", "reshape", "retype", "odd"))
    if kind == "drop":
        del arrays[place]
    elif kind == "reshape":
        arrays[place] = np.zeros(draw.choice(((), (0,), (3,), (8, 8), (1,) * 33, (1000, 1000))), arrays[place].dtype)
    elif kind == "retype":
        arrays[place] = arrays[place].astype(draw.choice(("bool", "int8", "float16", "complex64", "uint64")))
    else:
        arrays[place] = np.full(arrays[place].shape, draw.choice((np.nan, np.inf, -1, 2**31)), np.float32)
    return seal_programs(message, arrays, purpose_of(CONTEXT))


def opened(content: bytes) -> Any:
    """The programs that a run would send to its worker; None if the file is refused."""
    try:
        sealed = read_sealed(content)
        matching = [entry for entry in sealed.header.entries if entry.purpose == purpose_of(CONTEXT)]
        return sealed.programs(matching[0]) if matching else None
    except SealedFileError:
        return None


class Reading:
    """One worker after the other, as a run has them: each reads a share of the files."""

    def __init__(self, folder: Path) -> None:
        spec = EstimatorSpec("fuzz", "traced", None, folder / "it.whest", {})
        self._world = World(spec, CONTEXT, WorkerLimits(HANG_S, HANG_S, MOST_MB), (), folder)
        self._worker: Worker | None = None
        self._n_read = 0

    def __enter__(self) -> "Reading":
        return self

    def __exit__(self, *error: object) -> None:
        if self._worker is not None:
            self._worker.close()

    def verdict(self, programs: Any) -> str:
        if self._worker is None or self._n_read >= WORKERS_SHARE:
            self.__exit__()
            self._worker, self._n_read = Worker("sealed", self._world), 0
            self._worker.wait_until_ready()
        self._n_read += 1
        message, arrays = programs
        try:
            reply, _ = self._worker.ask({"program": message.get("program"), "do": "load"}, arrays, timeout_s=HANG_S)
            if "failure" in reply:
                return "refused"
            cost = read_cost(reply["cost"])
            assert cost == self._here(programs), json.dumps(message)[:2000]
            if reply["refused"]:
                return "over budget"
            question, weights = write_mlp(MLP)
            prediction = read_prediction(*self._worker.ask(question, weights, timeout_s=HANG_S), CONTEXT)
        except WorkerFailedError as error:
            if error.failure.code == "PREDICT_ERROR":  # said in words; the worker lives
                return "refused"
            self._worker.close()
            self._worker = None
            is_limit = error.is_timeout or error.failure.code == "OUT_OF_MEMORY"
            return "killed at a limit" if is_limit else f"crashed: {error.failure.message}"
        return "right" if prediction.failure is None else "failed in words"

    def _here(self, programs: Any) -> Any:
        """The cost of what the document says, read in this process."""
        message, arrays = programs
        function = read_program(message["program"], arrays)
        begun = begin_program(lambda *args: function(*args)[0], CONTEXT)
        assert not isinstance(begun, Failure), begun
        return begun.estimate.cost()


@pytest.mark.parametrize("n", [60, pytest.param(1000, marks=pytest.mark.slow)])
def test_mutated_files_are_refused_or_right(n: int, tmp_path: Path) -> None:
    draw, content = Random(SEED), seal_function(honest, CONTEXT)
    verdicts: Counter[str] = Counter()
    with Reading(tmp_path) as reading:
        assert reading.verdict(opened(content)) == "right"
        for _ in range(n):
            programs = opened(tampered(content, draw))
            verdicts["refused" if programs is None else reading.verdict(programs)] += 1
    assert verdicts["refused"] > n // 4, verdicts
    assert verdicts["right"] > n // 50, "mutations that still make sense belong to the test"
    assert sum(verdicts.values()) == n
    assert set(verdicts) <= ENDS, verdicts


@pytest.mark.parametrize("shape", [(2**62,), (2**40, 2**40), (2**31, 2**31, 2**31), (2**40 + 1,)])
def test_an_array_whose_bytes_overflow_is_refused_before_the_compiler_sees_it(shape: tuple[int, ...]) -> None:
    """XLA dies of it with SIGSEGV. To spread a number costs no FLOPs, so no budget stops it."""

    def vast(weights: Any, seed: Any, key: Any) -> Any:
        spread = lax.broadcast_in_dim(weights[0, 0, 0], shape, ())
        return weights[:, 0] + spread[(0,) * len(shape)]

    message, arrays = opened(seal_function(vast, CONTEXT))
    function = read_program(message["program"], arrays)
    begun = begin_program(lambda *args: function(*args)[0], CONTEXT)
    assert isinstance(begun, Failure)
    assert "at most 1,099,511,627,776 numbers are read" in begun.message


@pytest.mark.parametrize(
    "odd", ["mul", 7, {"tuple": ["mul", "mul"]}, {"enum": "FftType", "name": "FFT"}, {"dtype": "float32"}]
)
def test_a_parameter_of_another_kind_is_refused_before_the_compiler_sees_it(odd: Any) -> None:
    """XLA's C++ dies of a text as the precision of a product, which JAX's Python lets pass."""
    message, arrays = opened(seal_function(lambda weights, *rest: weights[:, 0] @ weights[0], CONTEXT))
    changed = copy.deepcopy(message["program"])
    (product,) = [equation for equation in changed["program"]["equations"] if equation[0] == "dot_general"]
    product[3]["precision"] = odd
    function = read_program(changed, arrays)
    begun = begin_program(lambda *args: function(*args)[0], CONTEXT)
    assert isinstance(begun, Failure)
    assert "as its precision" in begun.message


class Fragile(Worker):
    """Dies by a signal as soon as it is asked, as XLA does of some programs."""

    n_started = 0

    def ask(self, *args: Any, **kwargs: Any) -> Any:
        Fragile.n_started += 1
        os.kill(self.pid, signal.SIGSEGV)
        return super().ask(*args, **kwargs)


def test_a_program_that_kills_its_workers_is_refused_in_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host goes on, and asks no third worker."""
    monkeypatch.setattr(TracedProcessRunner, "_worker", lambda runner, role: Fragile(role, runner._world))
    spec = EstimatorSpec("it", "traced", None, tmp_path / "it.whest", {})
    world = World(spec, CONTEXT, WorkerLimits(HANG_S, HANG_S, MOST_MB), (), tmp_path)
    with TracedProcessRunner(world, opened(seal_function(honest, CONTEXT))) as runner:
        failures = [runner.predict(MLP).failure for _ in range(4)]
    assert [failure.code for failure in failures if failure] == ["WORKER_DIED"] * 4
    assert failures[0] is not None
    assert failures[0].message == "the worker died: killed by SIGSEGV"
    refused = "the worker died: killed by SIGSEGV, twice, as it compiled the program: refused"
    assert [failure.message for failure in failures[1:] if failure] == [refused] * 3
    assert Fragile.n_started == 2


def test_python_by_that_name_is_never_imported(tmp_path: Path) -> None:
    """A Python file by the name of a sealed program is refused, and never imported."""
    file = tmp_path / "sly.whest"
    file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(ConfigError, match="no sealed program"):
        open_sealed(file)
    with pytest.raises(ConfigError, match="it has no Python to import"):
        EstimatorSpec("sly", "traced", None, file, {}).create()
    assert not (tmp_path / "ran").exists()
