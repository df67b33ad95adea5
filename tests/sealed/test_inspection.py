"""What an inspection says: operations with their prices, constants with their sizes, tables of answers by rule."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.support.estimators import make
from tests.support.sealing import CONTEXT, purpose_of, seal_function, seal_programs
from whest.errors import JobFailedError
from whest.estimator.traced import estimator_function, trace
from whest.isolation.influence import Finding
from whest.isolation.listing import listing_answers
from whest.isolation.portable import write_program
from whest.metering.walk import estimate_cost
from whest.page import render
from whest.sealed.inspection import Listed, constant_of, inspect_sealed, read_listed, suspicions_of
from whest.sealed.page import inspection_page
from whest.sealed.sealed import read_sealed
from whest.sealed.text import text_of

SHAPE = (CONTEXT.depth, CONTEXT.width)
TABLE = np.random.default_rng(0).normal(size=(20, *SHAPE)).astype(np.float32)
"""Answers for twenty networks."""


def listed(function: Any) -> tuple[Listed, list[np.ndarray]]:
    """As a worker lists it, in this process."""
    document, arrays = write_program(trace(function, CONTEXT).jaxpr)
    reply, _ = listing_answers({"programs": {"predict": (document, (0, len(arrays)))}}, arrays)
    return read_listed("predict", reply["programs"]), arrays


def rules(function: Any) -> list[str]:
    program, arrays = listed(function)
    constants = [constant_of("predict", array) for array in arrays if array.size > 1]
    return [suspicion.rule for suspicion in suspicions_of(purpose_of(CONTEXT), [program], constants)]


def nearest(weights: Any, seed: Any, key: Any) -> Any:
    """The row of the table whose number the first weight gives."""
    place = jnp.abs(weights[0, 0, 0] * 1000).astype(jnp.int32) % len(TABLE)
    return jnp.asarray(TABLE)[place]


def one_hot(weights: Any, seed: Any, key: Any) -> Any:
    """The same without a lookup: a product with truth values."""
    prints = jnp.linspace(-1, 1, len(TABLE))
    is_it = jnp.abs(prints - weights[0, 0, 0]) < 0.05
    return jnp.einsum("n,ndw->dw", is_it.astype(jnp.float32), jnp.asarray(TABLE))


def chain(weights: Any, seed: Any, key: Any) -> Any:
    """The same by choosing one after the other in a loop."""

    def body(best: Any, row: Any) -> Any:
        number, answer = row
        return jnp.where(weights[0, 0, 0] > number, answer, best), None

    numbers = jnp.linspace(-1, 1, len(TABLE))
    return lax.scan(body, jnp.zeros(SHAPE), (numbers, jnp.asarray(TABLE)))[0]


@pytest.mark.parametrize(("function", "rule"), [(nearest, "lookup"), (one_hot, "choice"), (chain, "choice")])
def test_a_table_of_answers_is_noticed_by_its_size_and_by_its_use(function: Any, rule: str) -> None:
    assert rules(function) == ["luggage", rule]


def test_an_answer_that_does_not_look_at_the_weights_is_noticed() -> None:
    assert rules(lambda weights, seed, key: jnp.asarray(TABLE[0]) * seed) == ["blind"]


@pytest.mark.parametrize("name", ["cov_prop", "monte_carlo", "kerdock", "hybrid"])
def test_an_honest_estimator_trips_no_rule(name: str) -> None:
    assert rules(estimator_function(make(name), CONTEXT.flop_budget)) == []


def looped(weights: Any, seed: Any, key: Any) -> Any:
    means = lax.fori_loop(0, 7, lambda i, h: jnp.tanh(h @ weights[0]), jnp.ones((3, CONTEXT.width)))
    return lax.scan(lambda h, w: (jnp.exp(h @ w), None), means, weights)[0]


def test_the_rows_add_up_to_the_cost() -> None:
    program, _ = listed(looped)
    assert sum(row.flops or 0 for row in program.rows) == program.cost.flops
    assert program.cost == estimate_cost(trace(looped, CONTEXT).jaxpr).cost()
    assert program.n_operations == len(program.rows)
    tanh = next(row for row in program.rows if row.operation == "tanh")
    assert (tanh.rounds, tanh.depth, tanh.results) == (7, 1, "f32[3,16]")


def test_a_loop_by_the_data_has_no_rounds() -> None:
    def function(weights: Any, seed: Any, key: Any) -> Any:
        return lax.while_loop(lambda h: h.sum() < weights.sum(), lambda h: h * 2, jnp.ones(SHAPE))

    program, _ = listed(function)
    assert (program.n_open_loops, {row.rounds for row in program.rows if row.depth}) == (1, {None})


def test_the_worker_lists_what_the_file_holds_and_a_false_claim_shows() -> None:
    """The claim of a test's file is empty, so it is false."""
    sealed = read_sealed(seal_function(nearest, CONTEXT))
    (inspected,) = inspect_sealed(sealed)
    assert [one.rule for one in inspected.suspicions] == ["luggage", "lookup"]
    assert (inspected.claims_hold, inspected.constants[0].n_bytes) == (False, TABLE.nbytes)
    text = text_of(sealed, [inspected], 3)
    for words in (
        "the file states other FLOPs",
        "float32[20,3,16]",
        "rules luggage, lookup",
        "more",
        "u32[2] → f32[3,16]",
    ):
        assert words in text, text
    page = render(inspection_page(sealed, [inspected]))
    assert "dynamic_slice" in page
    assert "reads a constant at a place that the weights decide (960 numbers)" in page


def test_a_program_that_can_not_be_built_is_named() -> None:
    document, arrays = write_program(trace(looped, CONTEXT).jaxpr)
    document["program"]["equations"][0][0] = "pure_callback"
    sealed = read_sealed(seal_programs({"program": document}, arrays, purpose_of(CONTEXT)))
    with pytest.raises(JobFailedError, match=r"its program predict can't be used: .*pure_callback"):
        inspect_sealed(sealed)


@pytest.mark.parametrize(
    "odd", [None, 3, {}, {"predict": {}}, {"predict": {"rows": [[1]], "inputs": [], "outputs": []}}]
)
def test_a_worker_that_answers_nonsense_is_not_believed(odd: Any) -> None:
    with pytest.raises(JobFailedError, match="gave no listing"):
        read_listed("predict", odd)


def test_a_small_table_is_no_table_of_answers() -> None:
    purpose = purpose_of(CONTEXT)
    program, _ = listed(looped)
    small = Listed("predict", [], [], program.cost, 0, 1, [], [Finding("lookup", "x", CONTEXT.width)])
    assert suspicions_of(purpose, [small], []) == []
