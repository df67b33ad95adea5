"""Programs that travel: a traced program as plain data, and back.

A worker that runs a contestant's code sends what it traced as JSON and raw arrays, in a closed vocabulary: operations
by name from a fixed list (`vocabulary`), numbers, strings, a few records. Reading it back can only ever build a
program of those operations, never run code, and the program is traced and metered anew by whoever reads it, so
nothing the sender did to its own copy of JAX or whest matters. Loops and choices are in whest's own terms, so that a
document outlives the JAX that it was traced with (docs/format.md).
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

from whest.errors import UnmeterableError, WhestError
from whest.host import page
from whest.isolation import vocabulary as words
from whest.isolation.bounds import ForeignProgramError, check_bounds, check_kind, check_size, fields_of
from whest.isolation.vocabulary import FORMAT, OPERATIONS
from whest.metering import internals
from whest.metering.internals import ClosedJaxpr, JaxprEqn, Literal, Var
from whest.metering.jaxprs import call_arguments, called_program, label_of
from whest.metering.prices import REFUSED

Json = Any

ENUMS = {name: getattr(lax, name) for name in words.CHOICES}

RECORDS = {name: getattr(lax, name) for name in words.RECORDS}

RECORD_FIELDS = {name: set(fields.split()) for name, fields in words.RECORDS.items()}


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
            inner = None if eqn.primitive.name in OPERATIONS else _called(eqn)
            if inner is not None:
                inside = dict(zip(inner.jaxpr.invars, call_arguments(eqn, operands), strict=True))
                results = self._body(inner, inside, equations, here)
                names.update(zip(eqn.outvars, results, strict=True))
                continue
            results = [self._name(var, names) for var in eqn.outvars]
            name, params = self._said(eqn)
            equations.append([name, operands, results, params, here])
        return [self._atom(atom, names) for atom in program.jaxpr.outvars]

    def _said(self, eqn: JaxprEqn) -> tuple[str, dict[str, Json]]:
        """An equation's name and parameters in the words of the format."""
        name = eqn.primitive.name
        if name == "scan":
            scan = internals.scan_of(eqn)
            counts = {"n_consts": scan.n_consts, "n_carry": scan.n_carry, "length": scan.length}
            return name, {
                **counts,
                "reverse": bool(scan.reverse),
                "unroll": int(scan.unroll),
                "body": self._inner(scan.body),
            }
        if name == "while":
            loop = internals.while_of(eqn)
            programs = {"test": self._inner(loop.test), "body": self._inner(loop.body)}
            return name, {"n_test": loop.n_test, "n_body": loop.n_body, **programs}
        if name == "cond":
            branches = {"tuple": [self._inner(branch) for branch in internals.branches_of(eqn)]}
            return "switch", {"branches": branches, "platforms": self._value(internals.platforms_of(eqn), eqn)}
        params = internals.said(eqn)
        if set(params) != OPERATIONS[name]:
            odd = ", ".join(sorted(set(params) ^ OPERATIONS[name]))
            raise UnmeterableError(f"`{name}` can't leave the worker: its parameters differ from the format's ({odd})")
        return name, {key: self._value(value, eqn) for key, value in params.items()}

    def _inner(self, program: ClosedJaxpr) -> Json:
        return {"program": self.program(program)}

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
            fields = {key: self._value(v, eqn) for key, v in fields_of(value).items()}
            return {"record": type(value).__name__, "fields": fields}
        if isinstance(value, tuple | list):
            return {"tuple": [self._value(item, eqn) for item in value]}
        if isinstance(value, ClosedJaxpr):
            return self._inner(value)
        if value in key_dtypes().values():
            return {"key_dtype": _generator(value)}
        if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
            return {"dtype": np.dtype(value).name}
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
    if name != "cond":
        raise UnmeterableError(f"`{name}` is not an operation whest can meter ({page('meter.md')} lists what it can)")
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
    if not isinstance(document, Mapping) or set(document) != {"format", "program"}:
        raise ForeignProgramError("a program document is an object of two fields, format and program")
    if type(document["format"]) is not int or document["format"] != FORMAT:
        raise ForeignProgramError(
            f"the program document has format {str(document['format'])[:20]}, and this whest reads format {FORMAT}: "
            "write it again with the same version of whest as reads it"
        )
    check_bounds(document, arrays)
    if not isinstance(document["program"], Mapping) or "equations" not in document["program"]:
        raise ForeignProgramError("the program document has no program in it")
    return _Reader(arrays).function(document["program"])


@dataclass
class _Reader:
    arrays: Sequence[np.ndarray]

    def function(self, program: Json) -> Callable[..., list[Any]]:
        def run(*args: Any) -> list[Any]:
            _check_shapes(program["shapes"], args)
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
        if name not in OPERATIONS:
            raise ForeignProgramError(f"the program uses {name[:100]!r}, which is not in the vocabulary")
        if params.keys() != OPERATIONS[name]:
            wanted = ", ".join(sorted(OPERATIONS[name])) or "none"
            raise ForeignProgramError(f"the program's {name!r} has other parameters than the format's ({wanted})")
        inputs = [self._atom(atom, values) for atom in operands]
        with jax.named_scope(scope) if scope else nullcontext():
            answer = self._answer(name, inputs, params)
        for value in answer:
            check_size(jax.typeof(value).shape)
        return dict(zip(results, answer, strict=True))

    def _answer(self, name: str, inputs: list[Any], params: Mapping[str, Json]) -> list[Any]:
        if name == "scan":
            counts = _counts(len(inputs), params["n_consts"], params["n_carry"])
            how = {"length": _whole(params["length"]), "unroll": _whole(params["unroll"])}
            return internals.run_scan(
                self._inner(params["body"]), inputs, *counts, **how, reverse=params["reverse"] is True
            )
        if name == "while":
            counts = _counts(len(inputs), params["n_test"], params["n_body"])
            return internals.run_while(self._inner(params["test"]), self._inner(params["body"]), inputs, *counts)
        if name == "switch":
            return self._switch(inputs, params)
        told = {key: self._value(value) for key, value in params.items()}
        for key, value in told.items():
            check_kind(name, key, value)
        if name == "convert_element_type" and isinstance(inputs[0], bool | int | float | complex):
            # JAX folds this where it stands, and then it has no price. Where the author's program has it, it was
            # passed to a function, which is called here again.
            return list(jax.jit(lambda number: internals.bind(name, [number], told))(*inputs))
        return internals.bind(name, inputs, told)

    def _switch(self, inputs: list[Any], params: Mapping[str, Json]) -> list[Any]:
        match params["branches"]:
            case {"tuple": [_, _, *_] as programs}:
                branches = [self._inner(program) for program in programs]
            case _:
                raise ForeignProgramError("the program's 'switch' has fewer than two branches")
        which, *given = inputs
        if jax.typeof(which).shape or jax.typeof(which).dtype != np.int32:
            raise ForeignProgramError("the program's 'switch' chooses by something else than a lone int32")
        return internals.run_switch(branches, which, given, self._value(params["platforms"]))

    def _inner(self, program: Json) -> Callable[..., list[Any]]:
        """A program inside another as a function, of arguments of the shapes it declares."""
        match program:
            case {"program": {"equations": _, **_rest} as inner}:
                return self.function(inner)
        raise ForeignProgramError(f"the program has something else where a program belongs, {str(program)[:100]}")

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
            case {"enum": str() as kind, "name": str() as name} if name in words.CHOICES.get(kind, "").split():
                return ENUMS[kind][name]
            case {"record": str() as kind, "fields": {**fields}} if fields.keys() == RECORD_FIELDS.get(kind):
                return RECORDS[kind](**{str(key): self._value(item) for key, item in fields.items()})
            case {"program": {**program}}:
                return self._closed(program)
            case {"dtype": str() as name}:
                return _read_dtype(name)
            case {"key_dtype": str() as name} if name in key_dtypes():
                return key_dtypes()[name]
            case {"key_impl": str() as name} if name in key_dtypes():
                return key_dtypes()[name]._impl
        raise ForeignProgramError(f"the program has a parameter of an unknown kind, {str(value)[:100]}")

    def _closed(self, program: Json) -> ClosedJaxpr:
        return jax.make_jaxpr(self.function(program))(*map(read_aval, program["shapes"]))


def _read_dtype(name: str) -> np.dtype:
    """A kind of number; structures, texts and raw bytes are no dtypes here."""
    dtype = np.dtype(name)
    if dtype.name != name or not (dtype == np.bool_ or jnp.issubdtype(dtype, np.number)):
        raise ForeignProgramError(f"the program has numbers of an unknown kind, {name[:100]!r}")
    return dtype


def _whole(number: Json) -> int:
    if type(number) is not int or number < 0:
        raise ForeignProgramError(f"the program counts by {str(number)[:100]}, which is not a whole number from 0")
    return number


def _counts(n_operands: int, *counts: Json) -> list[int]:
    if sum(map(_whole, counts)) > n_operands:
        raise ForeignProgramError("the program has a loop with fewer operands than it counts")
    return list(counts)


def _check_shapes(descriptions: Sequence[Json], args: Sequence[Any]) -> None:
    for description, arg in zip(descriptions, args, strict=True):
        declared, given = read_aval(description), jax.typeof(arg)
        if (declared.shape, declared.dtype) != (given.shape, given.dtype):
            raise ForeignProgramError(f"a part of the program declares {declared} and is given {given}")


def read_aval(description: Json) -> Any:
    shape, dtype, detail = description
    if not all(type(n) is int and 0 <= n < 2**40 for n in shape) or len(shape) > 32:
        raise ForeignProgramError(f"the program has an input of shape {str(shape)[:100]}")
    check_size(shape)
    if dtype == "key":
        return jax.eval_shape(
            lambda: jax.random.wrap_key_data(jnp.zeros((*shape, _key_words(detail)), jnp.uint32), impl=detail)
        )
    return jax.ShapeDtypeStruct(tuple(shape), _read_dtype(dtype), weak_type=bool(detail))


def _key_words(kind: str) -> int:
    return int(key_dtypes()[kind]._impl.key_shape[-1])
