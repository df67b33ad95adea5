"""What a program brings along: every way to write an author's number down is counted."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import whest
from tests.support.contests import RULES, SHAPE
from tests.support.estimators import make
from tests.support.sealing import LEARNERS, context_of, parts_of, seal_estimator, seal_function, seal_learner
from whest.contest.intake import look_into
from whest.contest.rules import read_contest, rules_of
from whest.isolation.vocabulary import OPERATIONS
from whest.sealed.carried import VALUES, Carried, carried_by

N = 20


def filled(weights: Any, number: int) -> Any:
    return weights[0].at[jnp.asarray([99])].get(mode="fill", fill_value=number + 0.123456789).sum()


def filled_whole(weights: Any, number: int) -> Any:
    return weights[0].at[jnp.asarray([99])].get(mode="fill", fill_value=number).sum()


def power(weights: Any, number: int) -> Any:
    return lax.integer_pow(weights[0, 0, 0], 3 + number)


def scaled(weights: Any, number: int) -> Any:
    return lax.linalg.symmetric_product(weights[0], weights[1], alpha=number + 0.5).sum()


def looped(weights: Any, number: int) -> Any:
    return lax.scan(lambda h, w: (filled(w[None], number), None), weights[0, 0, 0], weights)[0]


@pytest.mark.parametrize("way", [filled, filled_whole, power, scaled, looped])
def test_a_number_in_a_parameter_counts_as_one_that_is_an_operand(way: Any) -> None:
    def count(n: int) -> int:
        def predict(weights: Any, *rest: Any) -> Any:
            return weights[:, 0] + sum(way(weights, number) for number in range(n))

        return carried_by(*parts_of(seal_function(predict, context_of(*SHAPE)))[1:]).numbers

    assert count(4) - count(1) == 3 * 8 * (2 if way is scaled else 1)  # alpha and beta


def test_a_table_of_fill_values_is_over_the_limit() -> None:
    def predict(weights: Any, *rest: Any) -> Any:
        return weights[:, 0] + sum(filled(weights, number) for number in range(N))

    config = whest.compose("job=host", *RULES, "contest.limit_constants=500")
    content = seal_function(predict, context_of(*SHAPE))
    message, arrays = parts_of(content)[1:]
    assert carried_by(message, arrays).numbers >= 8 * N
    assert str(look_into(content, read_contest(config), rules_of(config))["damage"]).startswith("it carries ")


def with_parameter(name: str, value: Any) -> Carried:
    equation = ["slice", [1], [2], {name: value}, ""]
    return carried_by({"program": {"program": {"equations": [equation], "outputs": [2]}}}, [np.zeros(3, np.int16)])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, Carried(6, 0, 0)),
        (255, Carried(6, 0, 1)),
        (-256, Carried(6, 0, 2)),
        (2**62, Carried(6, 0, 8)),
        ({"tuple": [1, {"tuple": [70_000, 0]}]}, Carried(6, 0, 4)),
        ({"record": "X", "fields": {"a": {"tuple": [5, 6]}}}, Carried(6, 0, 2)),
        (True, Carried(6, 0, 0)),
        (0.5, Carried(6, 8, 0)),
        ({"program": {"equations": [["add", [1, {"scalar": 3}], [9], {}, ""]], "outputs": [{"complex": [1, 2.0]}]}},
         Carried(6, 24, 0)),
    ],
)  # fmt: skip
def test_whole_numbers_of_the_structure_count_by_their_bytes(value: Any, expected: Carried) -> None:
    assert with_parameter("start_indices", value) == expected


def test_values_are_parameters_of_the_format() -> None:
    assert set().union(*OPERATIONS.values()) >= VALUES
    assert with_parameter("fill_value", 7) == Carried(6, 8, 0)


@pytest.mark.parametrize("odd", [None, 3, [], {"equations": 3}, {"equations": [[1], 5, {"equations": [[]]}]}])
def test_a_document_of_another_form_stops_nothing(odd: Any) -> None:
    assert carried_by(odd, []).n_bytes == 0


def test_an_honest_program_has_little_beside_its_arrays() -> None:
    told = carried_by(*parts_of(seal_estimator("cov_prop", context_of(*SHAPE)))[1:])
    assert told.numbers + told.structure < 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_an_honest_learner_is_far_from_the_limit_of_its_contests(name: str) -> None:
    limit = whest.compose("job=host", "contest=prism")["contest"]["limit_constants"]
    assert carried_by(*parts_of(seal_learner(make(name)))[1:]).n_bytes < limit / 16
