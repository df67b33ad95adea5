"""The format of programs outlives a JAX version: what one wrote another reads, meters and runs to the same figures."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.support import stored_program
from tests.support.estimators import BUNDLED, make, price
from tests.support.places import ROOT
from whest.isolation.portable import ForeignProgramError, read_program, write_program
from whest.isolation.vocabulary import CHOICES, FORMAT, OPERATIONS, RECORDS
from whest.metering.walk import meter

X = np.linspace(0.1, 0.9, 6, dtype=np.float32)


def test_a_program_written_under_jax_0_10_2_gives_the_same_figures_here():
    stored = stored_program.stored()
    flops, results = stored_program.answers(stored["document"], stored["arrays"])
    assert (stored["jax"], flops) == ("0.10.2", stored["flops"])
    for ours, theirs in zip(results, stored["results"], strict=True):
        assert ours.dtype == theirs.dtype
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)


def test_this_jax_writes_a_program_of_the_same_cost():
    document, arrays = write_program(jax.make_jaxpr(stored_program.program)(stored_program.WEIGHTS, stored_program.KEY))
    flops, _ = stored_program.answers(json.loads(json.dumps(document)), arrays)
    assert flops == stored_program.stored()["flops"]


@pytest.mark.parametrize("name", ["log2", "one_minus_square"])
def test_operations_of_newer_jax_are_read_by_an_older_one(name):
    document, arrays = write_program(jax.make_jaxpr(jnp.sin)(X))
    (equation,) = document["program"]["equations"]
    equation[0] = name
    copy = read_program(document, arrays)
    wanted = {"log2": np.log2(X), "one_minus_square": 1 - X**2}[name]
    np.testing.assert_allclose(jax.jit(copy)(X)[0], wanted, rtol=1e-5, atol=1e-6)
    assert meter(copy)(X).flops == {"log2": 13, "one_minus_square": 18}[name]


@pytest.mark.parametrize("number", [1, 3, "2", None, True])
def test_another_format_is_refused_with_a_sentence(number):
    document, arrays = write_program(jax.make_jaxpr(jnp.sin)(X))
    with pytest.raises(ForeignProgramError, match=f"has format {number}, and this whest reads format {FORMAT}"):
        read_program({**document, "format": number}, arrays)


def test_parameters_are_closed():
    document, arrays = write_program(jax.make_jaxpr(jnp.sin)(X))
    document["program"]["equations"][0][3]["accuracy"] = None
    with pytest.raises(ForeignProgramError, match="'sin' has other parameters than the format's"):
        jax.make_jaxpr(read_program(document, arrays))(X)


F = {
    "cov_prop": 49747, "hermite_cov": 75513, "hybrid": 49747, "kerdock": 353696, "matrix_core": 446859,
    "mean_prop": 4992, "monte_carlo": 999931, "orthogonal": 4992, "pruned_mc": 4992, "random": 6118,
    "telescoping": 96988, "third_cumulant": 204166, "third_cumulant_plus": 239542, "whitened_mc": 4992, "zeros": 0,
}  # fmt: skip
"""16x3, a budget of 1e6: the same on each JAX."""


def test_f_does_not_depend_on_the_version_of_jax():
    assert {name: price(make(name), 16, 3, 10**6) for name in BUNDLED} == F


def test_the_page_about_the_format_has_every_word():
    page = (ROOT / "docs" / "format.md").read_text()
    rows = {line.split("|")[1].strip(" `"): line.split("|")[2] for line in page.splitlines() if line.startswith("| `")}
    for name, parameters in OPERATIONS.items():
        if parameters:
            assert {word.strip(" `") for word in rows[name].split(",")} == parameters, name
        else:
            assert f"`{name}`" in page, name
    for words in (*CHOICES.values(), *RECORDS.values(), " ".join([*CHOICES, *RECORDS])):
        assert all(f"`{word}`" in page for word in words.split())
