"""The Python API: quick to import, every example of docs/api.md, the notebook, and what a notebook shows."""

import ast
import doctest
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

import whest
from tests.support.places import ROOT
from whest.errors import ConfigError, UnmeterableError
from whest.notation import html_table

NOTEBOOK = ROOT / "docs" / "notebook.ipynb"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
SETTINGS = ("jax_compilation_cache_dir", "jax_default_matmul_precision")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A temporary folder; JAX's settings are restored afterwards."""
    monkeypatch.chdir(tmp_path)
    settings = {name: getattr(jax.config, name) for name in SETTINGS}
    yield
    for name, value in settings.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_importing_it_loads_nothing_heavy() -> None:
    heavy = ("jax", "mlflow", "hydra", "numpy", "pandas", "matplotlib", "rich")
    program = f"import sys, whest; dir(whest); print([m for m in {heavy} if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True).stdout
    assert said.strip() == "[]"


def test_its_names_are_there_and_others_are_told() -> None:
    assert {"compose", "run", "load_dataset", "meter", "Report", "Cost"} <= set(dir(whest))
    assert all(getattr(whest, name) is not None for name in whest.__all__)
    with pytest.raises(AttributeError, match=r"it has .*load_dataset"):
        _ = whest.nonsense


def test_every_example_of_the_page_holds() -> None:
    results = doctest.testfile(str(ROOT / "docs" / "api.md"), module_relative=False, optionflags=FLAGS)
    assert results.attempted > 20
    assert results.failed == 0


def cells() -> list[str]:
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["metadata"]["kernelspec"]["language"]) == (4, "python")
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]


@pytest.mark.slow
def test_the_notebook_runs_in_ten_lines_and_every_cell_shows_something() -> None:
    """Its cells, one after the other in one namespace; the last expression of each as a notebook would display it."""
    sources = cells()
    assert sum(len(source.splitlines()) for source in sources) <= 10
    namespace: dict[str, object] = {}
    shown = []
    for source in sources:
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "cell", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
            shown.append(value._repr_html_())
    assert len(shown) >= 3
    assert "lower is better" in shown[0]
    assert any("data:image/png;base64," in html for html in shown)
    assert all(html.count("<table") == html.count("</table>") for html in shown)


def test_what_is_not_a_run_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="job=list gives no report"):
        whest.run("job=list")
    with pytest.raises(ConfigError, match="command-line words, or one composed config"):
        whest.run(whest.compose("debug=tiny"), "budget=3")
    with pytest.raises(ConfigError, match="give Mine"):
        whest.run("debug=tiny", estimator=dict)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="isolation=process"):
        whest.run("debug=tiny", "isolation=process", estimator=_Broken())
    with pytest.raises(ConfigError, match="bugdet is not a key of this config"):
        whest.run("bugdet=3")
    with pytest.raises(ConfigError, match="Did you mean estimator=cov_prop"):
        whest.compose("estimator=covprop")
    assert not list(Path.cwd().glob("outputs/runs/*/*"))


class _Broken:
    def predict(self, mlp: object, budget: int) -> None:
        raise ValueError("no <answer>")


def test_a_failing_estimator_gives_a_report_that_says_so() -> None:
    report = whest.run("debug=tiny", "truth=plain", estimator=_Broken(), folder="here")  # type: ignore[arg-type]
    assert report.has_errors
    assert "2 of 2 MLPs failed" in str(report)
    assert "ValueError: no &lt;answer&gt;" in report._repr_html_()
    assert (Path("here") / "report.json").exists()
    assert list(report.table()["failed"]) == [True, True]


def test_a_config_of_ones_own_composes() -> None:
    Path("mine/estimator").mkdir(parents=True)
    Path("mine/own.py").write_text("class Estimator: pass\n")
    Path("mine/estimator/own.yaml").write_text("path: ${beside:own.py}\n")
    config = whest.compose("estimator=own", config_dir="mine")
    assert config["estimator"] == {"name": "own", "mode": "traced", "path": str(Path("mine/own.py").absolute())}


def test_a_number_that_is_not_static_is_told_how_to_be() -> None:
    with pytest.raises(TypeError) as caught:
        whest.meter(lambda x, n: x @ jnp.ones((3, n)))(jnp.ones((3, 3)), 4)
    assert any("static_argnums" in note for note in caught.value.__notes__)


def test_static_arguments_by_place_and_by_name_agree() -> None:
    def ones(x: jax.Array, n: int, kind: str = "sum") -> jax.Array:
        y = x @ jnp.ones((3, n))
        return y.sum() if kind == "sum" else y

    x = jax.ShapeDtypeStruct((5, 3), jnp.float32)
    by_place = whest.meter(ones, static_argnums=-2)(x, 4, "none")
    by_name = whest.meter(ones, static_argnames=["n"])(x, n=4, kind="none")
    jitted = whest.meter(jax.jit(ones, static_argnums=(1, 2)))(x, 4, "none")
    assert by_place == by_name == jitted
    assert by_place.flops == 2 * 5 * 3 * 4
    assert whest.meter(ones, static_argnums=1)(x, 4).flops == by_place.flops + 5 * 4 - 1


def test_a_cost_is_shown_by_its_dearest_and_adds_up() -> None:
    cost = whest.meter(lambda x: [jnp.sin(x) * k for k in range(2, 30)])(jnp.ones(7))
    assert sum(cost.by_operation.values()) == sum(cost.by_namespace.values()) == cost.flops
    assert list(cost.by_operation.values()) == sorted(cost.by_operation.values(), reverse=True)
    assert cost._repr_html_().count("<tr>") == len(cost.by_operation) + 1
    with pytest.raises(UnmeterableError):
        whest.meter(lambda x: jax.lax.while_loop(lambda y: y.sum() < 9, lambda y: y + 1, x))(jnp.ones(3))


def test_a_table_escapes_what_it_is_given() -> None:
    assert "<b>" not in html_table(("<b>",), [("<b>&",)])
