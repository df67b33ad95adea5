"""Price lists: F by XLA's own count, in runs, in budgets and inside predict."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import whest
from whest.boards.board import Track, choose_track
from whest.boards.entries import ASIDE, meter_name
from whest.document import protocol_hash
from whest.errors import ConfigError, WhestError
from whest.experiment import build, protocol_of
from whest.metering import meter
from whest.metering.lists import PEER_NAME, XLA_NAME, chosen, list_meter, priced_by
from whest.metering.xla import xla_cost
from whest.tasks.whitebox.baseline import flops_per_sample

X = jax.ShapeDtypeStruct((16, 16), np.float32)


def program(x: jax.Array) -> jax.Array:
    return jnp.linalg.cholesky(x @ x.T + jnp.eye(len(x))).sum()


def test_meter_counts_by_the_list_in_force() -> None:
    ours = meter(program)(X).flops
    theirs = round(xla_cost(jax.make_jaxpr(program)(X)).flops)
    assert ours != theirs, "XLA has no figure for LAPACK"
    with priced_by("xla"):
        cost = meter(program)(X)
        assert chosen() == "xla"
    assert cost.flops == theirs == round(cost.flops_xla or 0)
    assert meter(program)(X).flops == ours
    assert flops_per_sample(16, 3, "xla") != flops_per_sample(16, 3)


def test_a_run_is_ranked_by_the_list_and_is_a_track_of_its_own(tmp_path) -> None:  # type: ignore[no-untyped-def]
    seen: list[int] = []

    class Sized:
        def predict(self, mlp, budget):  # type: ignore[no-untyped-def]
            seen.append(whest.meter(program)(X).flops)
            return jnp.zeros((mlp.depth, mlp.width)) + program(mlp.weights[0]) * 0

    words = ("debug=tiny", "truth=plain", "dataset.n_mlps=1", "seed=1", "tracking=none", "page=false")
    place = f"outputs_dir={tmp_path}"
    reports = [
        whest.run(*words, place, f"meter={prices}", estimator=Sized(), folder=tmp_path / prices).to_json()
        for prices in ("whest", "xla")
    ]
    rows = [report["results"]["per_mlp"][0] for report in reports]
    assert rows[0]["flops_xla"] == rows[1]["flops_xla"]
    assert rows[1]["flops_used"] == pytest.approx(rows[1]["flops_xla"], abs=3), "each charge is a whole number"
    assert rows[0]["flops_used"] != rows[1]["flops_used"]
    assert len(set(seen)) == 2, "meter() inside predict uses the run's list"
    assert "meter" not in reports[0]["run_config"]
    assert reports[1]["run_config"]["meter"] == "xla"
    hashes = {report["run_meta"]["protocol_hash"] for report in reports}
    assert len(hashes) == 2
    assert [meter_name(report) in ASIDE for report in reports] == [False, True]


def test_the_protocol_names_list_and_jaxlib(tmp_path) -> None:  # type: ignore[no-untyped-def]
    config = whest.compose("meter=xla", "tracking=none", f"outputs_dir={tmp_path}")
    protocol = protocol_of(build(config, tmp_path))
    assert protocol["meter"] == list_meter()
    assert protocol["meter"]["name"] == XLA_NAME
    assert {XLA_NAME, PEER_NAME} == ASIDE
    default = protocol_of(build({**config, "meter": "whest"}, tmp_path))
    assert protocol_hash(default) != protocol_hash(protocol)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("estimator.mode=eager",), "meter=xla needs estimator.mode=traced"),
        (("experiment=prism", "data=generated"), "meter=xla works for task=whitebox"),
    ],
)
def test_what_has_no_such_price_is_refused(tmp_path, words: tuple[str, ...], expected: str) -> None:  # type: ignore[no-untyped-def]
    config = whest.compose("meter=xla", "tracking=none", f"outputs_dir={tmp_path}", *words)
    with pytest.raises(ConfigError, match=expected):
        build(config, tmp_path)


def test_no_board_shows_another_list_unless_it_is_asked_for() -> None:
    ours, theirs = Track("aa" * 8, "whest", "", 1, None), Track("bb" * 8, "whest", "", 9, None, is_aside=True)
    assert choose_track(_policy(None), [theirs, ours])[0] is ours
    assert choose_track(_policy("bb"), [theirs, ours])[0] is theirs
    with pytest.raises(WhestError, match="other price lists"):
        choose_track(_policy(None), [theirs])


def _policy(protocol: str | None):  # type: ignore[no-untyped-def]
    return type("Policy", (), {"rule": "whest", "protocol": protocol})()
