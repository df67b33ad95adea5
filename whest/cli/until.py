"""`job=compare compare.until=0.95`: fresh MLPs, both estimators on each, until the interval leaves out zero."""

import math
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, cast

from whest.cases.whitebox import WhiteboxCase
from whest.compare.comparison import CompareOptions
from whest.compare.until import Decision, Spent, is_over, is_told, look
from whest.errors import ConfigError, JobFailedError
from whest.experiment import AnyExperiment
from whest.progress import Progress
from whest.scoring.sequential import Sequence as Growing
from whest.tasks.whitebox.task import Whitebox

Say = Callable[[str], None]


class Gathered:
    """A task whose cases are there already. Everything else is the task's own."""

    def __init__(self, task: Any, cases: Sequence[WhiteboxCase]) -> None:
        self._task, self._cases = task, cases

    def cases(self, progress: Progress) -> Iterator[WhiteboxCase]:
        return iter(self._cases)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)


def fresh_words(options: CompareOptions, overrides: Sequence[str]) -> list[str]:
    """The words that draw fresh MLPs, the same for both estimators."""
    keys = {word.lstrip("+~").partition("=")[0]: word for word in overrides}
    chosen = keys.get("dataset", "dataset=fresh")
    if chosen != "dataset=fresh":
        raise ConfigError(f"{chosen}: compare.until draws fresh MLPs, leave it out (or compare without compare.until)")
    for key in ("dataset.n_mlps", "dataset.range", "dataset.mlp_seeds"):
        if key in keys:
            raise ConfigError(f"{keys[key]} has no effect with compare.until: compare.max_mlps is the largest number")
    for key, value in {"compare.metric": options.metric, "compare.seeds": options.seeds}.items():
        if value is not None:
            raise ConfigError(f"{key}={value} can't be used with compare.until: leave one of the two out")
    seeded = any(key in keys for key in ("seed", "dataset.seed"))
    seed = [] if seeded else [f"dataset.seed={secrets.randbits(31)}"]
    return ["dataset=fresh", f"dataset.n_mlps={options.max_mlps}", *seed]


def decide(
    options: CompareOptions, names: tuple[str, str], experiments: Sequence[AnyExperiment], progress: Progress, say: Say
) -> tuple[Decision, list[AnyExperiment]]:
    """Run both on one MLP after another until it is decided. The experiments that come back hold these cases."""
    if any(one.task.name != "whitebox" for one in experiments):
        raise ConfigError(f"compare.until works for task=whitebox, not for task={experiments[0].task.name}")
    assert options.until is not None
    sequence = Growing(options.until, options.scale, experiments[0].rule.direction == "lower")
    gathered: list[list[WhiteboxCase]] = [[], []]
    is_interrupted = False
    streams = [one.task.cases(progress) for one in experiments]
    with closing(streams[0]), closing(streams[1]):  # type: ignore[type-var]
        try:
            for pair in zip(*streams, strict=True):
                _take(pair, experiments, sequence, gathered, names)
                over = is_over(sequence, options.max_mlps)
                if over or is_told(sequence.n):
                    say(look(sequence, *names))
                if over:
                    break
        except KeyboardInterrupt:
            if sequence.n < 2:
                raise
            is_interrupted = True
    ended = [_ended(one, cases) for one, cases in zip(experiments, gathered, strict=True)]
    return _decision(options, names, sequence, gathered, is_interrupted), ended


def _take(
    pair: tuple[WhiteboxCase, ...],
    experiments: Sequence[AnyExperiment],
    sequence: Growing,
    gathered: Sequence[list[WhiteboxCase]],
    names: tuple[str, str],
) -> None:
    """Score the two answers on one MLP, and add them."""
    scores = []
    for case, experiment, name in zip(pair, experiments, names, strict=True):
        failure = case.prediction.failure
        if failure is not None and failure.code == "SETUP_ERROR":
            raise JobFailedError("\n".join([f"{name} could not be set up, so nothing was compared", *failure.lines]))
        scored = experiment.task.score(experiment.rule, [case])
        score = getattr(scored.cases[0], scored.by_case.field)
        if score is None or not math.isfinite(score) or (sequence.scale == "log" and score <= 0):
            raise JobFailedError(
                f"{name} scores {score} on {case.name}, which has no place on compare.scale={sequence.scale}: "
                "compare on a dataset, without compare.until"
            )
        scores.append(float(score))
    sequence.add(*scores)
    for cases, case in zip(gathered, pair, strict=True):
        cases.append(case)


def _ended(experiment: AnyExperiment, cases: Sequence[WhiteboxCase]) -> AnyExperiment:
    """The experiment on exactly the MLPs that were used, as if they had been asked for."""
    n, task = len(cases), cast(Whitebox, experiment.task)
    task = replace(task, dataset=replace(task.dataset, rows=task.dataset.rows[:n]))
    config = {**experiment.config, "dataset": {**experiment.config["dataset"], "n_mlps": n}}
    return replace(experiment, task=Gathered(task, cases), config=config)  # type: ignore[arg-type]


def _decision(
    options: CompareOptions,
    names: tuple[str, str],
    sequence: Growing,
    gathered: Sequence[Sequence[WhiteboxCase]],
    is_interrupted: bool,
) -> Decision:
    drawn = [case for case in gathered[0] if case.sampling_time_s is not None]
    spent = [
        Spent(
            sum(case.prediction.cost.flops for case in cases),
            sum(case.prediction.timing.wall_time_s for case in cases),
        )
        for cases in gathered
    ]
    return Decision(
        *names,
        sequence,
        options.max_mlps,
        (spent[0], spent[1]),
        len(drawn),
        sum(case.truth.n_samples for case in drawn),
        sum(case.sampling_time_s or 0.0 for case in drawn),
        is_interrupted,
    )
