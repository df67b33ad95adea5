"""The checks of `job=validate`: does an estimator keep the contract?

The estimator runs in the same runner as for a score, on the round's shape and on small, unusual ones. The budget of a
small shape pays for as many plain samples as the round's budget.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from whest.cases.prediction import Prediction
from whest.checks.finding import Finding
from whest.host import ESTIMATORS, page
from whest.isolation.runner import Runner
from whest.limits import Limits
from whest.mlp import MLP, draw_weights
from whest.notation import count
from whest.tasks.whitebox.baseline import flops_per_sample

Shape = tuple[int, int]
"""Width and depth."""
Open = Callable[[int, int, float], Runner]
"""(width, depth, budget) -> a runner of the estimator."""
SEED = 20260525
TINY, ODD, SHALLOW = (4, 2), (7, 3), (5, 1)
FIRST_LAYER_TOLERANCE = 0.2
"""Relative. A sampler with a thousand inputs stays below a tenth of this."""

REMEDIES = {
    "PREDICT_ERROR": "see the line of your file in the message; with isolation=none you can use a debugger",
    "BAD_SHAPE": "return one row of `width` means per layer, the first layer first: jnp.stack(rows)",
    "NON_FINITE": "look for a division by a variance that can be 0, the root or log of a negative number, or "
    "an exp that overflows; jax.config.update('jax_debug_nans', True) finds the line",
    "UNMETERABLE": f"use another operation: {page('meter.md')} lists the operations with a price",
    "SETUP_ERROR": "the import, the constructor or setup() failed: try to import the file alone",
    "SETUP_TIMEOUT": "setup, tracing or compiling takes too long: use lax.scan instead of Python loops, smaller tables",
    "WORKER_DIED": "the process ended by itself: look for exit calls and large arrays; isolation=none shows it here",
    "OUT_OF_MEMORY": f"work in chunks (lax.fori_loop over batches), as {ESTIMATORS.name}/monte_carlo.py does",
}


@dataclass(frozen=True)
class Trial:
    """One MLP and the estimator's answer or failure."""

    mlp: MLP
    prediction: Prediction
    limits: Limits

    @property
    def shape(self) -> str:
        return f"{self.mlp.width}x{self.mlp.depth}"

    @property
    def compute(self) -> float:
        return self.prediction.cost.flops + self.limits.lam * self.prediction.timing.residual_wall_time_s


def check_contract(open_runner: Open, shape: Shape, limits: Limits) -> list[Finding]:
    """All checks, in the order in which a person would fix them."""
    ours = [drawn(shape, SEED + place) for place in range(3)]
    forwards = try_out(open_runner, ours + ours[::-1] + ours[:1], limits)
    odd = [drawn(ODD, SEED), all_positive(ODD), rank_one(ODD)]
    small = scaled(limits, shape, ODD)
    awkward, again = (try_out(open_runner, odd, small) for _ in range(2))
    others = {
        f"{TINY[0]}x{TINY[1]}": try_out(open_runner, [drawn(TINY, SEED)], scaled(limits, shape, TINY)),
        "odd width, 7x3": awkward[:1],
        "depth 1, 5x1": try_out(open_runner, [drawn(SHALLOW, SEED)], scaled(limits, shape, SHALLOW)),
        "all-positive weights": awkward[1:2],
        "rank-1 weights": awkward[2:],
    }
    basics = [
        *(answers_well(name, forwards[:3]) for name in ("runs", "shape", "finite")),
        within_budget(forwards[:3]),
        within_time(forwards[:3]),
    ]
    if any(trial.prediction.means is None for trial in forwards[:3]):
        told = {_kind(trial) for trial in forwards[:3]}
        return [*basics, *(answers_all(name, trials, told) for name, trials in others.items())]
    return [
        *basics,
        same_bits("same input, same bits", forwards[0], forwards[6], "for the same MLP in the same process"),
        no_memory(forwards[:3], forwards[3:6][::-1]),
        same_bits("repeats from scratch", awkward[0], again[0], "after two separate set-ups"),
        first_layer(forwards[0]),
        *(answers_all(name, trials) for name, trials in others.items()),
    ]


def try_out(open_runner: Open, mlps: Sequence[MLP], limits: Limits) -> list[Trial]:
    with open_runner(mlps[0].width, mlps[0].depth, limits.budget) as runner:
        return [Trial(mlp, runner.predict(mlp), limits) for mlp in mlps]


def scaled(limits: Limits, shape: Shape, to: Shape) -> Limits:
    """The budget that pays for as many plain samples at another shape."""
    share = flops_per_sample(*to) / flops_per_sample(*shape)
    return replace(limits, budget=max(1.0, limits.budget * share))


def drawn(shape: Shape, seed: int) -> MLP:
    stream = np.random.SeedSequence(seed)
    return MLP(draw_weights(stream, *shape), seed % 2**32, f"validate-{seed}", stream)


def all_positive(shape: Shape) -> MLP:
    """Each first-layer neuron is active for half of the inputs, deeper ones almost always; all move together."""
    mlp = drawn(shape, SEED + 1)
    return replace(mlp, weights=np.abs(mlp.weights))


def rank_one(shape: Shape) -> MLP:
    """All neurons of a layer see only one direction: covariances are singular, and some neurons are always 0."""
    mlp = drawn(shape, SEED + 2)
    flat: Float[np.ndarray, "depth width width"] = np.stack(
        [np.outer(w[:, 0], w[0]) / np.linalg.norm(w[0]) for w in mlp.weights]
    )
    return replace(mlp, weights=flat.astype(np.float32))


def answers_well(name: str, trials: Sequence[Trial]) -> Finding:
    """Look for failures of one kind: exceptions, wrong shapes, or values that aren't finite."""
    kinds = {"shape": ("BAD_SHAPE",), "finite": ("NON_FINITE",)}
    wanted = kinds.get(name, tuple(set(REMEDIES) - {"BAD_SHAPE", "NON_FINITE"}))
    for trial in trials:
        failure = trial.prediction.failure
        if failure is not None and failure.code in wanted:
            return _failed(name, trial)
    if trials[0].prediction.means is None:
        return _unknown(name)
    mlp = trials[0].mlp
    details = {"shape": f"({mlp.depth}, {mlp.width}) means", "finite": "all values"}
    return Finding(name, "ok", details.get(name, f"{count(len(trials), 'MLP')} of {trials[0].shape} without an error"))


def answers_all(name: str, trials: Sequence[Trial], told: Collection[object] = ()) -> Finding:
    """Check unusual shapes or weights: any failure fails the check. `told` are failures that need no second telling."""
    for trial in trials:
        if trial.prediction.failure is not None:
            return _failed(name, trial) if _kind(trial) not in told else _failed_again(name, trial)
        for check in (within_budget([trial]), within_time([trial])):
            if check.status == "fail":
                return replace(check, name=name)
    return Finding(name, "ok", f"answered in {trials[0].prediction.cost.flops:.3g} FLOPs")


def _failed(name: str, trial: Trial) -> Finding:
    failure = trial.prediction.failure
    assert failure is not None
    said = (failure.message.splitlines() or [""])[0]
    detail = f"{failure.code} at {trial.shape}: {said}" + (f" ({failure.where})" if failure.where else "")
    return Finding(name, "fail", detail, "; ".join([*failure.hints, REMEDIES[failure.code]]))


def _failed_again(name: str, trial: Trial) -> Finding:
    failure = trial.prediction.failure
    assert failure is not None
    return Finding(name, "fail", f"the same {failure.code} at {trial.shape}", "see the first check that failed")


def _kind(trial: Trial) -> object:
    """What two failures with one cause have in common. Messages can name the shape."""
    failure = trial.prediction.failure
    return None if failure is None else (failure.code, failure.exception, failure.where)


def _unknown(name: str) -> Finding:
    return Finding(name, "warn", "not known: there was no answer to check", "fix the failed check first")


def _ran(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that spent something: an estimator that raised before its first operation has kept no limit."""
    return [trial for trial in trials if trial.prediction.failure is None or trial.compute > 0]


def within_budget(trials: Sequence[Trial]) -> Finding:
    trials = _ran(trials)
    if not trials:
        return _unknown("budget")
    dearest = max(trials, key=lambda trial: trial.compute)
    budget = dearest.limits.budget
    detail = f"{dearest.compute:.4g} of {budget:.4g} FLOPs at {dearest.shape} ({dearest.compute / budget:.2%})"
    if dearest.compute > budget:
        remedy = "choose sizes by `budget`: whest.meter(f)(*args).flops counts a function's FLOPs before it runs"
        if dearest.prediction.timing.residual_wall_time_s * dearest.limits.lam > dearest.prediction.cost.flops:
            remedy = "most of it is Python's time, which costs λ: use fewer, larger operations or estimator.mode=traced"
        return Finding("budget", "fail", detail, remedy)
    return Finding("budget", "ok", detail)


def within_time(trials: Sequence[Trial]) -> Finding:
    trials = _ran(trials)
    if not trials:
        return _unknown("time")
    slowest = max(trials, key=lambda trial: trial.prediction.timing.wall_time_s)
    timing, limits = slowest.prediction.timing, slowest.limits
    cap = f" of {limits.wall_time_limit_s:g} s" if limits.wall_time_limit_s is not None else ""
    detail = f"{timing.wall_time_s:.3g} s{cap} per MLP at {slowest.shape}"
    if _over(timing.wall_time_s, limits.wall_time_limit_s):
        return Finding(
            "time", "fail", detail, "do less work, or use larger operations; the round sets wall_time_limit_s"
        )
    if _over(timing.residual_wall_time_s, limits.residual_wall_time_limit_s):
        detail = (
            f"{timing.residual_wall_time_s:.3g} s between operations, the limit is "
            f"{limits.residual_wall_time_limit_s} s"
        )
        return Finding("time", "fail", detail, "use fewer Python steps between operations, or estimator.mode=traced")
    return Finding("time", "ok", detail)


def _over(value: float, cap: float | None) -> bool:
    return cap is not None and value > cap


def same_bits(name: str, one: Trial, other: Trial, which: str) -> Finding:
    if one.prediction.means is None and other.prediction.means is None:
        return Finding(name, "warn", "not known: there was no answer to compare", "fix the failed check first")
    if _equal(one.prediction.means, other.prediction.means):
        return Finding(name, "ok", f"two answers {which}")
    return Finding(
        name,
        "fail",
        f"two answers {which} differ by up to {_distance(one, other)}",
        "take random numbers only from mlp.key (not from NumPy or the clock), and store nothing on self in predict",
    )


def no_memory(forwards: Iterable[Trial], backwards: Iterable[Trial]) -> Finding:
    name = "order doesn't matter"
    for one, other in zip(forwards, backwards, strict=True):
        if not _equal(one.prediction.means, other.prediction.means):
            detail = f"the answer to {one.mlp.name} differs after other MLPs, by up to {_distance(one, other)}"
            return Finding(name, "fail", detail, "predict must not remember: no counters, caches or fits on self")
    return Finding(name, "ok", "three MLPs, forwards and backwards")


def _equal(one: np.ndarray | None, other: np.ndarray | None) -> bool:
    return one is not None and other is not None and one.tobytes() == other.tobytes()


def _distance(one: Trial, other: Trial) -> str:
    if one.prediction.means is None or other.prediction.means is None:
        return "everything: one of the two failed"
    return f"{np.abs(one.prediction.means - other.prediction.means).max():.3g}"


def first_layer(trial: Trial) -> Finding:
    """The first layer's mean is |w|/√(2π). A large error is probably a mistake, but could be on purpose: it warns."""
    assert trial.prediction.means is not None
    exact = np.linalg.norm(trial.mlp.weights[0], axis=0) / np.sqrt(2 * np.pi)
    error = float(np.linalg.norm(trial.prediction.means[0] - exact) / np.linalg.norm(exact))
    detail = f"{error:.2%} away from the exact mean |w|/√(2π)"
    if error <= FIRST_LAYER_TOLERANCE:
        return Finding("first layer", "ok", detail)
    remedy = "use h @ w, not w @ h: column j of mlp.weights[l] belongs to neuron j; only the last layer is scored"
    return Finding("first layer", "warn", detail, remedy)
