"""Programs that travel: a traced program as plain data, and back.

A worker that runs a contestant's code sends what it traced as JSON and raw arrays, in a closed vocabulary: operations
by name from a fixed list, numbers, strings, a few of JAX's own records. Reading it back can only ever build a
program of those operations, never run code, and the program is traced and metered anew by whoever reads it, so
nothing the sender did to its own copy of JAX or whest matters.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend.core import ClosedJaxpr, JaxprEqn, Literal, Primitive, Var, primitives

from whest.errors import UnmeterableError, WhestError
from whest.isolation.bounds import ForeignProgramError, check_bounds
from whest.metering.jaxprs import CALLS, call_arguments, called_program, label_of, sub_programs
from whest.metering.prices import REFUSED

Json = Any

FORMAT = 1

_SAMPLES: tuple[tuple[Any, ...], ...] = (
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


def _primitives_in(program: ClosedJaxpr) -> list[Primitive]:
    found = []
    for eqn in program.jaxpr.eqns:
        found += [eqn.primitive, *(p for inner in sub_programs(eqn) or () for p in _primitives_in(inner))]
    return found


@cache
def vocabulary() -> dict[str, Primitive]:
    """The operations a program may consist of."""
    public = [getattr(primitives, name) for name in dir(primitives) if name.endswith("_p")]
    unlisted = [p for sample, *args in _SAMPLES for p in _primitives_in(jax.make_jaxpr(sample)(*args))]
    known = {primitive.name: primitive for primitive in [*public, *unlisted] if isinstance(primitive, Primitive)}
    barred = {*REFUSED, *CALLS, "call", "custom_linear_solve", "custom_lin", "reduce", "reduce_window", "get", "swap"}
    return {name: primitive for name, primitive in known.items() if name not in barred}


ENUMS = {
    kind.__name__: kind
    for kind in (
        lax.GatherScatterMode,
        lax.Precision,
        lax.RandomAlgorithm,
        lax.FftType,
        lax.RoundingMethod,
        lax.DotAlgorithmPreset,
    )
}

RECORDS = {
    kind.__name__: kind for kind in (lax.GatherDimensionNumbers, lax.ScatterDimensionNumbers, lax.ConvDimensionNumbers)
}


@cache
def key_dtypes() -> dict[str, Any]:
    """The dtypes of random keys, by the name of their generator."""
    names = ("threefry2x32", "rbg", "unsafe_rbg")
    return {name: jax.eval_shape(lambda name=name: jax.random.key(0, impl=name)).dtype for name in names}


def _generator(dtype: Any) -> str:
    return next(name for name, known in key_dtypes().items() if known == dtype)


STAYS = frozenset(("device_put", "sharding_constraint"))
"""Operations that only say where an array lives."""


@dataclass
class _Writer:
    """Numbers the variables of a program and inlines its calls."""

    arrays: list[np.ndarray] = field(default_factory=list)
    n_variables: int = 0

    def program(self, program: ClosedJaxpr) -> Json:
        names: dict[Var, Json] = {}
        inputs = [self._name(var, names) for var in program.jaxpr.invars]
        equations: list[Json] = []
        outputs = self._body(program, names, equations, "")
        shapes = [_write_aval(var.aval) for var in program.jaxpr.invars]
        return {"inputs": inputs, "shapes": shapes, "equations": equations, "outputs": outputs}

    def _name(self, var: Var, names: dict[Var, Json]) -> int:
        self.n_variables += 1
        names[var] = self.n_variables
        return self.n_variables

    def _body(self, program: ClosedJaxpr, names: dict[Var, Json], equations: list[Json], scope: str) -> list[Json]:
        for var, value in zip(program.jaxpr.constvars, program.consts, strict=True):
            names[var] = self._constant(value)
        for eqn in program.jaxpr.eqns:
            here = ".".join(label for label in (scope, label_of(eqn)) if label)
            operands = [self._atom(atom, names) for atom in eqn.invars]
            if eqn.primitive.name in STAYS:
                names.update(zip(eqn.outvars, operands, strict=True))
                continue
            inner = _called(eqn)
            if inner is not None:
                inside = dict(zip(inner.jaxpr.invars, call_arguments(eqn, operands), strict=True))
                results = self._body(inner, inside, equations, here)
                names.update(zip(eqn.outvars, results, strict=True))
                continue
            results = [self._name(var, names) for var in eqn.outvars]
            params = {key: self._value(value, eqn) for key, value in eqn.params.items()}
            equations.append([eqn.primitive.name, operands, results, params, here])
        return [self._atom(atom, names) for atom in program.jaxpr.outvars]

    def _atom(self, atom: Any, names: dict[Var, Json]) -> Json:
        if not isinstance(atom, Literal):
            return names[atom]
        if getattr(atom.aval, "weak_type", False):
            value = atom.val.item() if hasattr(atom.val, "item") else atom.val
            return {"complex": [value.real, value.imag]} if isinstance(value, complex) else {"scalar": value}
        return self._constant(atom.val)

    def _constant(self, value: Any) -> Json:
        if jnp.issubdtype(getattr(value, "dtype", np.float32), jax.dtypes.prng_key):
            kind = _generator(value.dtype)
            return {"key": self._constant(jax.random.key_data(value)), "kind": kind}
        self.arrays.append(np.asarray(value))
        return {"array": len(self.arrays) - 1}

    def _value(self, value: Any, eqn: JaxprEqn) -> Json:
        """A parameter as tagged data."""
        if value is None or isinstance(value, bool | str):
            return value
        if type(value).__name__ in ENUMS:
            return {"enum": type(value).__name__, "name": value.name}
        if isinstance(value, int | float | np.integer | np.floating):
            return value.item() if hasattr(value, "item") else value
        if type(value).__name__ == "PRNGImpl":
            return {"key_impl": next(name for name, dtype in key_dtypes().items() if dtype._impl == value)}
        if type(value).__name__ in RECORDS:
            fields = value._asdict() if hasattr(value, "_asdict") else vars(value)
            return {"record": type(value).__name__, "fields": {key: self._value(v, eqn) for key, v in fields.items()}}
        if isinstance(value, tuple | list):
            return {"tuple": [self._value(item, eqn) for item in value]}
        if isinstance(value, ClosedJaxpr):
            return {"program": self.program(value)}
        if hasattr(value, "eqns"):
            return {"open_program": self.program(ClosedJaxpr(value, ()))}
        if value in key_dtypes().values():
            return {"key_dtype": _generator(value)}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"dtype": np.dtype(value).name}
        if type(value).__name__ == "UnspecifiedValue" or type(value).__name__.endswith("Sharding"):
            return None
        raise UnmeterableError(
            f"`{eqn.primitive.name}` can't leave the worker: parameter type {type(value).__name__} isn't plain data"
        )


def _called(eqn: JaxprEqn) -> ClosedJaxpr | None:
    """The program of an equation that only calls one."""
    name = eqn.primitive.name
    if name in REFUSED:
        raise UnmeterableError(f"`{name}` {REFUSED[name]}: its cost can't be metered, so it can't be used in predict")
    inner = called_program(eqn)
    if inner is not None:
        return inner
    if name not in vocabulary():
        raise UnmeterableError(f"`{name}` is not an operation whest can meter (docs/meter.md lists what it can)")
    return None


def _write_aval(aval: Any) -> Json:
    if jnp.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return [list(aval.shape), "key", _generator(aval.dtype)]
    return [list(aval.shape), np.dtype(aval.dtype).name, bool(getattr(aval, "weak_type", False))]


def write_program(program: ClosedJaxpr) -> tuple[Json, list[np.ndarray]]:
    """A traced program as JSON and the arrays it refers to."""
    writer = _Writer()
    document = writer.program(program)
    return {"format": FORMAT, "program": document}, writer.arrays


def read_program(document: Json, arrays: Sequence[np.ndarray]) -> Callable[..., Any]:
    """The program as a function of its inputs, ready to be traced. Whatever isn't in the vocabulary is refused."""
    if not isinstance(document, Mapping) or document.get("format") != FORMAT or set(document) != {"format", "program"}:
        raise ForeignProgramError("the worker sent a program in an unknown format")
    check_bounds(document, arrays)
    if "equations" not in document["program"]:
        raise ForeignProgramError("the worker sent a document without a program")
    return _Reader(arrays).function(document["program"])


@dataclass
class _Reader:
    arrays: Sequence[np.ndarray]

    def function(self, program: Json) -> Callable[..., list[Any]]:
        def run(*args: Any) -> list[Any]:
            values = dict(zip(program["inputs"], args, strict=True))
            for equation in program["equations"]:
                try:
                    values.update(self._results(equation, values))
                except WhestError:
                    raise
                except Exception as error:  # JAX's own rules say why an operation doesn't fit its operands
                    said = f"{type(error).__name__}: {error}"[:500]
                    raise ForeignProgramError(f"the program's {equation[0][:100]!r} can't be built: {said}") from None
            return [self._atom(atom, values) for atom in program["outputs"]]

        return run

    def _results(self, equation: Json, values: Mapping[int, Any]) -> dict[int, Any]:
        name, operands, results, params, scope = equation
        primitive = vocabulary().get(name)
        if primitive is None:
            raise ForeignProgramError(f"the program uses {name[:100]!r}, which is not in the vocabulary")
        inputs = [self._atom(atom, values) for atom in operands]
        decoded = {key: self._value(value) for key, value in params.items()}
        with jax.named_scope(scope) if scope else nullcontext():
            answer = primitive.bind(*inputs, **decoded)
        return dict(zip(results, answer if primitive.multiple_results else [answer], strict=True))

    def _atom(self, atom: Json, values: Mapping[int, Any]) -> Any:
        if type(atom) is int and atom in values:
            return values[atom]
        match atom:
            case {"scalar": bool() | int() | float() as value}:
                return value
            case {"complex": [int() | float() as real, int() | float() as imaginary]}:
                return complex(real, imaginary)
            case {"key": key, "kind": str() as kind}:
                return jax.random.wrap_key_data(self._atom(key, values), impl=kind)
            case {"array": int() as place} if 0 <= place < len(self.arrays):
                return self.arrays[place]
        raise ForeignProgramError(f"the program names an operand that isn't there, {str(atom)[:100]}")

    def _value(self, value: Json) -> Any:
        """A parameter, by its tag."""
        match value:
            case None | bool() | int() | float() | str():
                return value
            case {"tuple": [*items]}:
                return tuple(self._value(item) for item in items)
            case {"enum": str() as kind, "name": str() as name} if kind in ENUMS:
                return ENUMS[kind][name]
            case {"record": str() as kind, "fields": {**fields}} if kind in RECORDS:
                return RECORDS[kind](**{str(key): self._value(item) for key, item in fields.items()})
            case {"program": {**program}}:
                return self._closed(program)
            case {"open_program": {**program}}:
                return self._closed(program).jaxpr
            case {"dtype": str() as name}:
                return _read_dtype(name)
            case {"key_dtype": str() as name} if name in key_dtypes():
                return key_dtypes()[name]
            case {"key_impl": str() as name} if name in key_dtypes():
                return key_dtypes()[name]._impl
        raise ForeignProgramError(f"the program has a parameter of an unknown kind, {str(value)[:100]}")

    def _closed(self, program: Json) -> ClosedJaxpr:
        return jax.make_jaxpr(self.function(program))(*map(_read_aval, program["shapes"]))


def _read_dtype(name: str) -> np.dtype:
    """A kind of number; structures, texts and raw bytes are no dtypes here."""
    dtype = np.dtype(name)
    if dtype.name != name or not (dtype == np.bool_ or jnp.issubdtype(dtype, np.number)):
        raise ForeignProgramError(f"the program has numbers of an unknown kind, {name[:100]!r}")
    return dtype


def _read_aval(description: Json) -> Any:
    shape, dtype, detail = description
    if not all(type(n) is int and 0 <= n < 2**40 for n in shape) or len(shape) > 32:
        raise ForeignProgramError(f"the program has an input of shape {str(shape)[:100]}")
    if dtype == "key":
        return jax.eval_shape(
            lambda: jax.random.wrap_key_data(jnp.zeros((*shape, _key_words(detail)), jnp.uint32), impl=detail)
        )
    return jax.ShapeDtypeStruct(tuple(shape), _read_dtype(dtype), weak_type=bool(detail))


def _key_words(kind: str) -> int:
    return int(key_dtypes()[kind]._impl.key_shape[-1])
