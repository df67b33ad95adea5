"""What whest knows of JAX's insides: the one module that imports them, and the one that spells moving parameters.

JAX's programs (jaxprs) are no public format: types move, parameters get other names, operations come and go. All that
whest needs of them is here, in whest's own terms, for each JAX in pyproject.toml's range. `tests/metering/
test_internals.py` has one test per piece, which says what moved when a new JAX comes.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr as ClosedJaxpr
from jax.extend.core import Jaxpr as Jaxpr
from jax.extend.core import JaxprEqn as JaxprEqn
from jax.extend.core import Literal as Literal
from jax.extend.core import Primitive as Primitive
from jax.extend.core import Var as Var
from jax.extend.core import check_jaxpr as check_jaxpr
from jax.extend.core import jaxpr_as_fun as jaxpr_as_fun
from jax.extend.core import primitives

from whest.errors import UnmeterableError, WhestError

try:
    from jax._src import monitoring as monitoring
    from jax._src import source_info_util
    from jax._src.core import EvalTrace as EvalTrace
    from jax._src.core import Trace as Trace
    from jax._src.core import eval_trace as eval_trace
    from jax._src.core import set_current_trace as set_current_trace
except ImportError as moved:  # pragma: no cover - another JAX
    _MOVED = str(moved)

FOR_EAGER = ("EvalTrace", "Trace", "eval_trace", "monitoring", "set_current_trace", "source_info_util")


def __getattr__(name: str) -> Any:
    """Say why, if eager mode asks for what this JAX has moved."""
    if name in (
        "EvalTrace",
        "Trace",
        "eval_trace",
        "monitoring",
        "set_current_trace",
    ):  # pragma: no cover - another JAX
        raise WhestError(
            f"eager mode needs JAX's tracing internals as they are in 0.10 to 0.12, and JAX {jax.__version__} has "
            f"moved them ({_MOVED}). Use estimator.mode=traced, or install jax 0.10.2"
        )
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def closed(program: Any, consts: Sequence[Any] = ()) -> ClosedJaxpr:
    """A program with the values of its constants. JAX 0.11 made the two kinds of program one."""
    if isinstance(program, ClosedJaxpr):
        return program
    return ClosedJaxpr(program, tuple(consts))


def scopes_of(eqn: JaxprEqn) -> list[str]:
    """The `jax.named_scope`s around an equation, without JAX's notes of its transformations."""
    return _scopes(eqn.source_info.name_stack.stack)


def current_scopes() -> list[str]:
    return _scopes(source_info_util.current_name_stack().stack)


def _scopes(stack: Sequence[Any]) -> list[str]:
    return [entry.name for entry in stack if type(entry).__name__ == "Scope"]


def context_of(eqn: JaxprEqn) -> AbstractContextManager[Any]:
    """JAX's settings when an equation was traced."""
    return eqn.ctx.manager


@cache
def no_names() -> Any:
    """What JAX wants to know about the names of a program's arguments: nothing."""
    return jax.make_jaxpr(lambda: ())().jaxpr.debug_info


# Control flow ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan:
    """A `scan` in whest's terms. Operands: constants, carried values, arrays to go over. Results: carried, stacked."""

    body: ClosedJaxpr
    n_consts: int
    n_carry: int
    length: int
    reverse: bool
    unroll: int


@dataclass(frozen=True)
class While:
    """A `while` in whest's terms. Operands: constants of the test, constants of the body, carried values."""

    test: ClosedJaxpr
    body: ClosedJaxpr
    n_test: int
    n_body: int


SCAN_PARTS = frozenset({"ft_in", "ft_out"})
"""How JAX since 0.11 says which operands and results of a `scan` are which; before it were two numbers."""


def scan_of(eqn: JaxprEqn) -> Scan:
    params = eqn.params
    if "num_carry" in params:
        n_consts, n_carry = params["num_consts"], params["num_carry"]
    else:
        n_consts, n_carry = _scan_parts(params)
    return Scan(closed(params["jaxpr"]), n_consts, n_carry, params["length"], params["reverse"], params["unroll"])


def _scan_parts(params: Mapping[str, Any]) -> tuple[int, int]:
    given, taken = (params[name] for name in sorted(SCAN_PARTS))
    if not all(type(part).__module__ == "jax._src.flattree" for part in (given, taken)):
        raise UnmeterableError("the program is inconsistent: a `scan` whose parts are not JAX's own")
    n_consts, n_carry, _ = map(len, given.unpack())
    if len(taken.unpack()[0]) != n_carry:
        raise UnmeterableError("the program is inconsistent: a `scan` gives back more or fewer values than it carries")
    return n_consts, n_carry


def while_of(eqn: JaxprEqn) -> While:
    params = eqn.params
    test, body = closed(params["cond_jaxpr"]), closed(params["body_jaxpr"])
    return While(test, body, params["cond_nconsts"], params["body_nconsts"])


def branches_of(eqn: JaxprEqn) -> tuple[ClosedJaxpr, ...]:
    """The programs that a `cond` chooses from by its first operand."""
    return tuple(map(closed, eqn.params["branches"]))


def platforms_of(eqn: JaxprEqn) -> Any:
    """For which kinds of device each branch is, where the choice is made by device."""
    return eqn.params.get("branches_platforms")


Run = Callable[..., list[Any]]
"""A program as a function of its operands."""


def run_scan(body: Run, operands: Sequence[Any], n_consts: int, n_carry: int, **how: Any) -> list[Any]:
    """`lax.scan` of a body over flat operands; `how` is length, reverse, unroll."""
    consts, carry = operands[:n_consts], list(operands[n_consts : n_consts + n_carry])

    def one(carried: list[Any], slices: list[Any]) -> tuple[list[Any], list[Any]]:
        results = body(*consts, *carried, *slices)
        return results[:n_carry], results[n_carry:]

    carried, stacked = lax.scan(one, carry, list(operands[n_consts + n_carry :]), **how)
    return [*carried, *stacked]


def run_while(test: Run, body: Run, operands: Sequence[Any], n_test: int, n_body: int) -> list[Any]:
    """`lax.while_loop` over flat operands."""
    for_test, for_body = operands[:n_test], operands[n_test : n_test + n_body]
    start = list(operands[n_test + n_body :])
    shapes = [jax.typeof(operand) for operand in operands]
    carried = shapes[n_test + n_body :]
    tested = jax.make_jaxpr(test)(*shapes[:n_test], *carried)
    if tested.out_avals[0].shape:
        bodied = jax.make_jaxpr(body)(*shapes[n_test:])
        return _run_lanes(tested, bodied, operands, n_test, n_body)
    return lax.while_loop(lambda now: test(*for_test, *now)[0], lambda now: list(body(*for_body, *now)), start)


def _run_lanes(test: ClosedJaxpr, body: ClosedJaxpr, operands: Sequence[Any], n_test: int, n_body: int) -> list[Any]:
    """A loop whose test has a lane per case, as `jax.vmap` makes it; JAX has no public function for it."""
    counts = {"cond_nconsts": n_test, "body_nconsts": n_body}
    return primitives.while_p.bind(*operands, cond_jaxpr=test, body_jaxpr=body, **counts)


def run_switch(branches: Sequence[Run], index: Any, operands: Sequence[Any], platforms: Any) -> list[Any]:
    """`lax.switch` without the clamp it puts before the choice: a program that has one brings its own."""
    shapes = [jax.typeof(operand) for operand in operands]
    whole = jax.ShapeDtypeStruct((), jnp.int32)
    program = jax.make_jaxpr(lambda which, *given: lax.switch(which, branches, *given))(whole, *shapes)
    values = dict(zip(program.jaxpr.invars, [index, *operands], strict=True))
    values.update(zip(program.jaxpr.constvars, program.consts, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, Literal) else values[atom]

    for eqn in program.jaxpr.eqns:
        if eqn.primitive.name != "cond":  # the clamp
            values.update(dict.fromkeys(eqn.outvars, index))
            continue
        params = eqn.params if platforms is None else {**eqn.params, "branches_platforms": platforms}
        results = eqn.primitive.bind(index, *map(read, eqn.invars[1:]), **params)
        values.update(zip(eqn.outvars, results, strict=True))
    return [read(atom) for atom in program.jaxpr.outvars]


# Operations -----------------------------------------------------------------------------------------------------------

_UNLISTED: tuple[tuple[Any, ...], ...] = (
    (jax.random.wrap_key_data, np.zeros(2, np.uint32)),
    (lambda: jax.random.key_data(jax.random.key(0)),),
    (lax.optimization_barrier, np.zeros(2)),
    (lambda x: lax.split(x, (1, 1)), np.zeros(2)),
    (lambda pivots: lax.linalg.lu_pivots_to_permutation(pivots, 2), np.zeros(2, np.int32)),
    (lambda x: jnp.stack([x, x]), np.zeros(2)),
    (jnp.unstack, np.zeros((2, 2))),
    (lambda x: jnp.tile(x, 2), np.zeros(2)),
    (lambda x: x.at[0].subtract(1.0), np.zeros(2)),
    (lambda x: lax.linalg.symmetric_product(x, x), np.zeros((2, 2))),
    (lambda x: lax.linalg.cholesky_update(x, x[0]), np.eye(2)),
    (lambda x: jax.scipy.linalg.qr(x, pivoting=True), np.eye(2)),
    (lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), np.zeros(2)),
)
"""Small programs with operations that JAX's public list leaves out."""


@cache
def operations() -> dict[str, Primitive]:
    """Every operation of this JAX that has a public name or stands in one of the small programs, by name."""
    listed = [getattr(primitives, name) for name in dir(primitives) if name.endswith("_p")]
    unlisted = [p for sample, *args in _UNLISTED for p in _primitives_in(jax.make_jaxpr(sample)(*args))]
    return {primitive.name: primitive for primitive in [*listed, *unlisted] if isinstance(primitive, Primitive)}


def _primitives_in(program: ClosedJaxpr) -> list[Primitive]:
    from whest.metering.jaxprs import sub_programs

    found = []
    for eqn in program.jaxpr.eqns:
        found += [eqn.primitive, *(p for inner in sub_programs(eqn) or () for p in _primitives_in(inner))]
    return found


_ACCURATE = "cbrt cos erfc exp exp2 expm1 log log1p logistic rsqrt sin sqrt tan tanh".split()


def _convolve(vector: Any, matrix: Any) -> Any:
    return lax.conv(matrix[None, None], matrix[None, None], (1, 1), "SAME")


UNSAID: Mapping[str, tuple[Mapping[str, Any], Callable[..., Any]]] = {
    **{name: ({"accuracy": None}, lambda v, m, name=name: getattr(lax, name)(v)) for name in _ACCURATE},
    "broadcast_in_dim": ({"sharding": None}, lambda v, m: lax.broadcast_in_dim(v, (3, 2), (1,))),
    "reshape": ({"sharding": None}, lambda v, m: lax.reshape(m, (4,))),
    "iota": ({"sharding": None}, lambda v, m: lax.iota(np.float32, 2)),
    "convert_element_type": ({"sharding": None}, lambda v, m: lax.convert_element_type(v, np.int32)),
    "dot_general": ({"out_sharding": None}, lambda v, m: lax.dot(m, m)),
    "conv_general_dilated": ({"out_sharding": None}, _convolve),
    "rng_bit_generator": ({"out_sharding": None}, lambda v, m: lax.rng_bit_generator(np.zeros(4, np.uint32), (2,))),
    **{
        name: ({"out_sharding": None}, lambda v, m, name=name: getattr(lax, name)(v, (0,)))
        for name in ("reduce_sum", "reduce_max", "reduce_min")
    },
    "mul": ({"out_dtype": None}, lambda v, m: lax.mul(v, v)),
    "top_k": ({"is_stable": True}, lambda v, m: lax.top_k(v, 1)),
    "log2": ({"accuracy": None}, lambda v, m: vars(lax)["log2"](v)),
    "polynomial": ({"unroll": None}, lambda v, m: vars(lax)["polynomial"](v, [1.0, 2.0])),
}  # fmt: skip
"""Parameters that say nothing about an operation's result, with the value that says nothing, and a call that shows
which of them this JAX has: placement, and promises that JAX kept anyway before they got a name (`is_stable`).
An equation that says something there can't be sent."""


@cache
def unsaid(name: str) -> Mapping[str, Any]:
    """What this JAX wants to be told about an operation beyond the parameters that whest writes down."""
    if name not in UNSAID:
        return {}
    values, call = UNSAID[name]
    traced = jax.make_jaxpr(call)(np.zeros(2, np.float32), np.zeros((2, 2), np.float32))
    has = next(eqn.params for eqn in traced.eqns[::-1] if eqn.primitive.name == name)
    return {key: value for key, value in values.items() if key in has}


def said(eqn: JaxprEqn) -> dict[str, Any]:
    """An equation's parameters without those that say nothing; one that says something is left for the reader."""
    names = UNSAID.get(eqn.primitive.name, ({},))[0]
    params = {key: value for key, value in eqn.params.items() if key not in names or not _says_nothing(key, value)}
    if "update_jaxpr" in params:
        program, consts = params.pop("update_jaxpr"), params.pop("update_consts")
        params["update"] = None if program is None else _region(closed(program, consts))
    if "select_prim" in params:
        params["select"] = params.pop("select_prim").name
    return params


def _told(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of `said` as this JAX calls them."""
    told = dict(params)
    if "update" in told:
        program = told.pop("update")
        told |= {"update_jaxpr": None if program is None else _region(program).jaxpr, "update_consts": ()}
    if "select" in told:
        told["select_prim"] = {"ge": lax.ge_p, "gt": lax.gt_p, "le": lax.le_p, "lt": lax.lt_p}[told.pop("select")]
    return told


def _region(program: ClosedJaxpr) -> ClosedJaxpr:
    """The function of a scatter, which takes two lone numbers and nothing else."""
    if program.consts or len(program.in_avals) != 2:
        raise UnmeterableError(
            "a scatter's function brings constants along: it takes two lone numbers and nothing else"
        )
    return program


def _says_nothing(key: str, value: Any) -> bool:
    if key in ("is_stable", "unroll"):  # the first of equals is a right answer either way; a way to compile
        return True
    return value is None or type(value).__name__ == "UnspecifiedValue" or type(value).__name__.endswith("Sharding")


# Operations of newer JAX ------------------------------------------------------------------------------------------


def _log2(x: Any) -> Any:
    log = lax.log(x)
    if not jnp.issubdtype(x.dtype, jnp.complexfloating):
        return lax.div(log, lax.log(np.array(2, x.dtype)))
    parts = lax.real(log), lax.imag(log)
    ln2 = lax.log(np.array(2, parts[0].dtype))
    return lax.complex(*(lax.div(part, ln2) for part in parts))


def _one_minus_square(x: Any) -> Any:
    one = np.array(1, x.dtype)
    return lax.mul(lax.add(one, x), lax.sub(one, x))


def _polynomial(x: Any, *coefficients: Any) -> Any:
    """From the lowest power up."""
    total = jnp.zeros_like(x)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


WRITTEN_OUT: Mapping[str, Callable[..., Any]] = {
    "log2": _log2,
    "one_minus_square": _one_minus_square,
    "polynomial": _polynomial,
}
"""Operations since JAX 0.11 and 0.12 in the words of 0.10.2. They cost what their words cost, so that a function costs
the same on each JAX, and a JAX that doesn't have them reads them as their words."""


def written_out(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """The words of such an operation as a program of its operands; None for any other."""
    name = eqn.primitive.name
    if name not in WRITTEN_OUT:
        return None
    kinds: list[Any] = [var.aval for var in eqn.invars]
    return _written_out(name, tuple(jax.ShapeDtypeStruct(kind.shape, kind.dtype) for kind in kinds))


@cache
def _written_out(name: str, shapes: tuple[Any, ...]) -> ClosedJaxpr:
    return jax.make_jaxpr(WRITTEN_OUT[name])(*shapes)


def bind(name: str, operands: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
    """An operation on operands, with the parameters that whest writes down."""
    primitive = operations().get(name)
    if primitive is None:
        return [WRITTEN_OUT[name](*operands)]
    answer = primitive.bind(*operands, **_told(params), **unsaid(name))
    return list(answer) if primitive.multiple_results else [answer]
