"""One test per piece of JAX's insides that whest uses. When a new JAX comes, these say what moved."""

import ast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.support.operations import CALLS, elementwise_calls, every_elementwise
from tests.support.places import ROOT
from whest.isolation.vocabulary import CHOICES, OPERATIONS, RECORDS
from whest.metering import internals
from whest.metering.elementwise import ONE, SEVERAL
from whest.metering.jaxprs import CALLS as CALLING
from whest.metering.jaxprs import sub_programs
from whest.metering.prices import REFUSED
from whest.metering.walk import meter

X = np.linspace(0.1, 0.9, 12, dtype=np.float32).reshape(3, 4)


def the(name, function, *args):
    return next(eqn for eqn in jax.make_jaxpr(function)(*args).eqns if eqn.primitive.name == name)


def test_nothing_else_imports_them():
    inside = ("jax._src", "jax.core", "jax.extend", "jax.interpreters")
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for folder in ("whest", "estimators")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [it.name for it in node.names])
        if name.startswith(inside) and path.name != "internals.py"
    }
    assert found == set()


def test_tracing_internals_of_eager_mode_are_where_they_were():
    for name in internals.FOR_EAGER:
        assert getattr(internals, name) is not None
    assert {"process_primitive", "process_custom_jvp_call", "process_custom_vjp_call"} <= set(dir(internals.Trace))
    assert callable(internals.EvalTrace.process_primitive)


def test_the_parts_of_a_scan():
    def body(carried, x):
        return (carried[0] + x.sum(), carried[1] * 2), (x * 2, x + 1)

    scan = internals.scan_of(
        the("scan", lambda x, k: lax.scan(lambda c, row: (c + k * row, row), x[0], x, reverse=True), X, 3.0)
    )
    assert (scan.n_consts, scan.n_carry, scan.length, scan.reverse, scan.unroll) == (1, 1, 3, True, 1)
    assert len(scan.body.in_avals) == 3
    carried = internals.scan_of(the("scan", lambda x: lax.scan(body, (x[0, 0], x[0, 1]), x), X))
    assert (carried.n_carry, len(carried.body.out_avals)) == (2, 4)


def test_the_parts_of_a_differentiated_scan():
    """Its parts are nested inside each other, and still constants, carried values and arrays in this order."""

    def total(x):
        return lax.scan(lambda c, row: (jnp.tanh(c * row), c.sum()), x[0], x)[1].sum()

    scans = [eqn for eqn in jax.make_jaxpr(jax.grad(total))(X).eqns if eqn.primitive.name == "scan"]
    assert len(scans) == 2
    for eqn in scans:
        scan = internals.scan_of(eqn)
        assert scan.n_consts + scan.n_carry <= len(eqn.invars)
        assert [v.aval.shape for v in scan.body.jaxpr.outvars[: scan.n_carry]] == [
            v.aval.shape for v in eqn.outvars[: scan.n_carry]
        ]


def test_the_parts_of_a_while_loop():
    loop = internals.while_of(
        the(
            "while",
            lambda x, k, n: lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + k, s[1] * k), (x, x)),
            0.0,
            1.0,
            5.0,
        )
    )
    assert (loop.n_test, loop.n_body) == (1, 1)
    assert [aval.dtype for aval in loop.test.out_avals] == [np.bool_]


def test_the_parts_of_a_choice():
    eqn = the("cond", lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), 1, X)
    assert len(internals.branches_of(eqn)) == 3
    assert internals.platforms_of(eqn) is None
    by_device = the("cond", lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), X)
    assert internals.platforms_of(by_device) is not None


def test_a_choice_is_rebuilt_without_another_clamp():
    def rebuilt(index, x):
        return internals.run_switch([lambda x: [jnp.sin(x)], lambda x: [jnp.cos(x)]], index, [x], None)

    names = [eqn.primitive.name for eqn in jax.make_jaxpr(rebuilt)(np.int32(1), X).eqns]
    assert names == ["cond"]


def test_a_loop_with_lanes_is_rebuilt_as_it_was():
    def rebuilt(limits):
        return internals.run_while(lambda n, s: [s < n], lambda s: [s * 2], [limits, jnp.ones_like(limits)], 1, 0)

    np.testing.assert_array_equal(jax.jit(rebuilt)(np.float32([1, 5, 9]))[0], [1, 8, 16])


CALLERS = {
    "jit": jax.jit(jnp.sin),
    "remat2": jax.checkpoint(jnp.sin),
    "custom_jvp_call": jax.nn.relu,
    "composite": lambda x: lax.composite(jnp.sin, "whest.sine")(x),
}


@pytest.mark.parametrize("name", CALLERS)
def test_calls_show_their_program(name):
    eqn = the(name, CALLERS[name], X)
    assert name in CALLING
    assert sub_programs(eqn)[0].out_avals[0].shape == X.shape


def test_labels_are_read_from_the_name_stack():
    def labelled(x):
        with jax.named_scope("phase"):
            return jnp.sin(x)

    assert internals.scopes_of(the("sin", labelled, X)) == ["phase"]
    with jax.named_scope("now"):
        assert internals.current_scopes() == ["now"]


def test_settings_of_an_equation_can_be_entered_again():
    with internals.context_of(the("sin", jnp.sin, X)):
        assert jnp.sin(X).shape == X.shape


def samples():
    for name, dtype in every_elementwise():
        if dtype in ("float32", "int32", "bool", "complex64"):
            yield from elementwise_calls(name, np.dtype(dtype))
    yield from CALLS


def test_parameters_are_those_of_the_format():
    """A new parameter goes into `UNSAID`, if it says nothing about the result; else the format needs a new number."""
    moved = {}

    def visit(program):
        for eqn in program.jaxpr.eqns:
            name = eqn.primitive.name
            if name in OPERATIONS and name not in ("scan", "while"):
                odd = set(internals.said(eqn)) ^ OPERATIONS[name]
                moved.update({name: odd} if odd else {})
            for inner in sub_programs(eqn) or ():
                visit(inner)

    for call, operands in samples():
        visit(jax.make_jaxpr(call)(*operands))
    assert moved == {}


LEFT_OUT = frozenset(
    """
    call cond custom_linear_solve custom_lin reduce reduce_window select_and_scatter empty2 device_put
    sharding_constraint
    """.split()
)
"""In JAX's public list and not in the format: calls, functions of the author's, and where an array lives."""


def test_operations_that_came_or_went():
    """A new operation is written out (`WRITTEN_OUT`), called (`CALLS`), refused by name, or left out here."""
    here = set(internals.operations())
    assert set(OPERATIONS) - here <= {"switch", *internals.WRITTEN_OUT}, "gone"
    assert here - set(OPERATIONS) <= {*LEFT_OUT, *REFUSED, *CALLING}, "new"
    assert {*ONE, *SEVERAL} - {"mulhi"} <= here


def test_choices_and_records_are_those_of_the_format():
    for name, values in CHOICES.items():
        assert set(values.split()) <= set(getattr(lax, name).__members__), name
    for name, fields in RECORDS.items():
        assert getattr(lax, name)._fields == tuple(fields.split()), name


@pytest.mark.parametrize(
    ("function", "flops"),
    [
        (jnp.log2, 2 * X.size + 1),
        (jax.grad(lambda x: jnp.tanh(x).sum()), 6 * X.size - 1),
        (lambda x: jnp.polyval(jnp.arange(3.0), x), 6 * X.size),
    ],
    ids=["log2", "one_minus_square", "polynomial"],
)
def test_operations_of_newer_jax_cost_what_older_jax_wrote_out(function, flops):
    assert meter(function)(X).flops == flops
