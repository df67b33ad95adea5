"""Typed objects from config nodes; an error names the key, the value and the choices."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import jax
import pytest
from pydantic import Field

from whest.config.build import build_target
from whest.dataset.sources import SeedsDataset
from whest.errors import ConfigError
from whest.estimator.spec import estimator_spec


@dataclass(frozen=True)
class Toy:
    """One field of each kind the configs use."""

    width: Annotated[int, Field(ge=1, le=64)]
    colour: Literal["red", "green", "blue"] = "red"
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    limit: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    range: tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=1)]] | None = None
    folder: Path = Path()
    label: str = "toy"
    loud: bool = False


class Plain:
    """An estimator's class as a user may write it, without dataclass and annotations."""

    def __init__(self, n_rounds, step=0.1):
        self.n_rounds, self.step = n_rounds, step


class Open:
    def __init__(self, **knobs):
        self.knobs = knobs


def refusal(values: dict[str, Any], target: Any = Toy, key: str = "toy") -> str:
    with pytest.raises(ConfigError) as caught:
        build_target(target, values, key)
    return str(caught.value)


# What is right


def test_values_become_typed_fields() -> None:
    built = build_target(Toy, {"width": 8, "share": 1, "range": [2, 5], "folder": "runs", "limit": 3}, "toy")
    assert built == Toy(8, share=1.0, range=(2, 5), folder=Path("runs"), limit=3.0)
    assert isinstance(built.share, float)
    assert isinstance(built.range, tuple)


def test_whole_numbers_may_be_written_as_floats() -> None:
    """YAML reads 1e1 as a float; a count stays a count."""
    width = build_target(Toy, {"width": 1e1}, "toy").width
    assert width == 10
    assert type(width) is int


def test_plain_classes_take_their_arguments() -> None:
    built = build_target(Plain, {"n_rounds": 3}, "estimator")
    assert (built.n_rounds, built.step) == (3, 0.1)
    assert build_target(Open, {"anything": 1, "goes": "here"}, "estimator").knobs == {"anything": 1, "goes": "here"}


class Annotated:
    """A plain class whose constructor is annotated, also with names that pydantic reserves."""

    def __init__(self, rank: int, schema: str = "", _hidden: float = 0.0, loose=None, **more: object) -> None:  # type: ignore[no-untyped-def]
        self.knobs = {"rank": rank, "schema": schema, "_hidden": _hidden, "loose": loose, **more}


class Unresolved:
    def __init__(self, rank: "OnlyForTheTypeChecker") -> None:  # type: ignore[name-defined]
        self.rank = rank


def test_a_plain_class_is_checked_against_its_annotations() -> None:
    values = {"rank": 3.0, "schema": "a", "_hidden": 1, "loose": True, "other": "x"}
    knobs = build_target(Annotated, values, "estimator").knobs
    assert knobs == values
    assert type(knobs["rank"]) is int
    assert refusal({"rank": "many"}, Annotated, "estimator").startswith("estimator.rank must be a valid integer")
    assert refusal({"rank": True}, Annotated, "estimator") == "estimator.rank must be a number, got True"
    assert refusal({"rank": 1, "schema": 2}, Annotated, "estimator").endswith("got 2")
    assert build_target(Unresolved, {"rank": "any"}, "estimator").rank == "any"


def test_a_missing_knob_is_added_with_a_plus() -> None:
    assert refusal({}, Annotated, "estimator") == "estimator.rank is missing: set +estimator.rank=…"


@dataclass
class WithArray:
    """A user's dataclass with an annotation that pydantic doesn't know."""

    n_rounds: int = 3
    table: jax.Array | None = None


def test_dataclass_may_annotate_what_it_likes() -> None:
    """An estimator file needs only JAX: a field with an array type is allowed, and its knobs are checked."""
    assert build_target(WithArray, {"n_rounds": 4}, "estimator").n_rounds == 4
    assert refusal({"n_rounds": "many"}, WithArray, "estimator").startswith("estimator.n_rounds")


# What is wrong


@pytest.mark.parametrize(
    ("values", "key", "value"),
    [
        ({"width": "wide"}, "toy.width", "'wide'"),
        ({"width": 2.5}, "toy.width", "2.5"),
        ({"width": None}, "toy.width", "None"),
        ({"width": [8]}, "toy.width", "[8]"),
        ({"width": 8, "share": "half"}, "toy.share", "'half'"),
        ({"width": 8, "label": 5}, "toy.label", "5"),
        ({"width": 8, "loud": "maybe"}, "toy.loud", "'maybe'"),
        ({"width": 8, "range": 5}, "toy.range", "5"),
        ({"width": 8, "range": ["a", 2]}, "toy.range.0", "'a'"),
        ({"width": 8, "range": [1]}, "toy.range", "[1]"),
        ({"width": 8, "range": [1, 2, 3]}, "toy.range", "[1, 2, 3]"),
        ({"width": 8, "folder": 5}, "toy.folder", "5"),
    ],
)
def test_wrong_type_names_key_and_value(values: dict[str, Any], key: str, value: str) -> None:
    message = refusal(values)
    assert message.startswith(f"{key} ")
    assert message.endswith(f"got {value}")


@pytest.mark.parametrize("field", ["width", "share", "limit"])
@pytest.mark.parametrize("value", [True, False])
def test_truth_value_is_no_number(field: str, value: bool) -> None:
    """`dataset.width=true` is a mistake, not a width of 1."""
    message = refusal({"width": 8} | {field: value})
    assert f"toy.{field} " in message
    assert f"got {value}" in message


@pytest.mark.parametrize(
    ("values", "key", "bound", "value"),
    [
        ({"width": 0}, "toy.width", "1", "0"),
        ({"width": 65}, "toy.width", "64", "65"),
        ({"width": 8, "share": 0}, "toy.share", "0", "0"),
        ({"width": 8, "share": 1.5}, "toy.share", "1", "1.5"),
        ({"width": 8, "limit": -1}, "toy.limit", "0", "-1"),
        ({"width": 8, "range": [-1, 2]}, "toy.range.0", "0", "-1"),
    ],
)
def test_wrong_range_names_key_bound_and_value(values: dict[str, Any], key: str, bound: str, value: str) -> None:
    message = refusal(values)
    assert message.startswith(f"{key} must be ")
    assert bound in message.split("got")[0]
    assert message.endswith(f"got {value}")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_not_a_number_is_refused_where_a_cap_is_meant(value: float) -> None:
    assert refusal({"width": 8, "limit": value}).startswith("toy.limit must be a finite number")
    assert refusal({"width": value}).startswith("toy.width must be")
    assert refusal({"width": 8, "share": value}).startswith("toy.share must be")


def test_wrong_choice_names_key_value_and_choices() -> None:
    message = refusal({"width": 8, "colour": "mauve"})
    assert message.startswith("toy.colour must be ")
    assert all(f"'{choice}'" in message for choice in ("red", "green", "blue"))
    assert message.endswith("got 'mauve'")


@pytest.mark.parametrize(("target", "known"), [(Toy, "width"), (Plain, "n_rounds")])
def test_unknown_key_names_the_known_ones(target: type, known: str) -> None:
    message = refusal({"widht": 9}, target)
    assert message.startswith("toy.widht is not a key")
    assert target.__name__ in message
    assert known in message.split("its keys are:")[1]


def test_unknown_key_of_a_class_without_any() -> None:
    @dataclass(frozen=True)
    class Nothing:
        pass

    assert refusal({"depth": 1}, Nothing).endswith("its keys are: none")


@pytest.mark.parametrize(("target", "name"), [(Toy, "width"), (Plain, "n_rounds")])
def test_missing_key_is_named(target: type, name: str) -> None:
    message = refusal({}, target)
    assert message.startswith("toy")
    assert name in message
    assert "missing" in message


def test_missing_key_says_how_to_set_it() -> None:
    assert refusal({}) == "toy.width is missing: set toy.width=…"


def test_top_level_keys_stand_alone() -> None:
    assert refusal({"width": 0}, key="").startswith("width must be ")


def test_every_problem_is_told_at_once() -> None:
    lines = refusal({"width": 0, "colour": "mauve", "share": 2}).splitlines()
    assert [line.split()[0] for line in lines] == ["toy.width", "toy.colour", "toy.share"]


@pytest.mark.parametrize("mlp_seeds", [5, None, [-1], [1, "x"], {"a": 1}])
def test_alternatives_name_only_keys_that_exist(mlp_seeds: object) -> None:
    """The value is a list or a file's name; pydantic's names of these types must not appear in the key."""
    message = refusal({"width": 8, "depth": 2, "mlp_seeds": mlp_seeds}, SeedsDataset, "dataset")
    assert "dataset.mlp_seeds" in message
    assert "dataset.mlp_seeds.str" not in message
    assert "list[" not in message


def test_knobs_of_an_estimator_are_checked_under_its_key() -> None:
    def create(**knobs: object) -> object:
        target = {"_target_": "estimators.monte_carlo.MonteCarlo", "name": "monte_carlo", "mode": "traced"}
        return estimator_spec(target | knobs).create()

    create(budget_fraction=0.5, seed=0)
    with pytest.raises(ConfigError, match=r"estimator\.budget_fraction must be .* got 2"):
        create(budget_fraction=2, seed=0)
    with pytest.raises(ValueError, match=r"estimator\.seed is missing"):  # a notebook's own handler catches it
        create(budget_fraction=0.5)
    with pytest.raises(ConfigError, match=r"estimator\.n_samples is not a key .*budget_fraction, seed"):
        create(budget_fraction=0.5, seed=0, n_samples=9)
