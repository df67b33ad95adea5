"""`job=explain`: run the estimator and say where its error comes from."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from whest.cases.whitebox import WhiteboxCase
from whest.cli.watch import find_champion
from whest.config.build import build_target
from whest.config.compose import command_of, recompose
from whest.display.answer import tell
from whest.display.console import open_console, say
from whest.display.progress import open_progress
from whest.errors import ConfigError, JobFailedError
from whest.experiment import AnyExperiment, build
from whest.files import write_atomically
from whest.notation import short_path
from whest.page import save_page
from whest.scoring.seeds import ErrorSplit, split_error
from whest.scoring.whitebox import WhiteboxScore
from whest.tasks.whitebox.explanation import Explanation
from whest.tasks.whitebox.marginal import Bought, buy
from whest.tasks.whitebox.oracle import FromMoments, Replaced, what_is_left
from whest.tasks.whitebox.origin import explain_mlp
from whest.tasks.whitebox.task import Whitebox
from whest.truth.moments import keeps_covariances

MOMENT_SAMPLES = 2**18
"""For a sampler of somebody else's, which has no setting for them."""
FILES = ("explanation.json", "explanation.html")


@dataclass(frozen=True)
class ExplainOptions:
    """The `explain` part of the config."""

    seeds: list[int] | None
    moments: bool
    """Whether to put the truth's moments into the estimator."""
    compute: list[Annotated[float, Field(ge=0.01, le=100)]] | None
    """Multiples of the compute to score too."""


def explain(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    options: ExplainOptions = build_target(ExplainOptions, config["explain"], "explain")
    if options.seeds is not None and len(set(options.seeds)) < 2:
        raise ConfigError(f"explain.seeds={options.seeds}: bias and noise need two seeds or more, as in [0,1,2]")
    experiment = build(config, folder, overrides)
    others = [_seeded(seed, folder, overrides) for seed in options.seeds or []]
    if not isinstance(experiment.task, Whitebox):
        raise ConfigError(f"job=explain is for task=whitebox, not task={experiment.task.name}")
    task = replace(experiment.task, has_peer_figure=experiment.task.estimator.mode == "traced")
    cases, score = _run(replace(experiment, task=task))
    mlps = _explained(task, cases)
    explanation = Explanation(
        title=f"{task.estimator.name} on {task.dataset.name}",
        score=score,
        mlps=mlps,
        split=_split([_run(other) for other in others]) if others else None,
        champion=_against_champion(experiment, score, cases, config),
        replaced=_replaced(task, cases, [mlp.mse for mlp in mlps], options, config),
        bought=_bought(experiment, cases, score, options),
        cost=cases[0].prediction.cost if task.has_peer_figure else None,
    )
    folder.mkdir(parents=True, exist_ok=True)
    command = command_of(overrides)
    document = {**explanation.to_json(), "command": command}
    write_atomically(folder / FILES[0], json.dumps(document, indent=2, allow_nan=False).encode())
    save_page(explanation.page(command), folder / FILES[1])
    tell(explanation=document, folder=str(folder), files=list(FILES))
    for line in explanation.lines():
        say(line)
    say(f"saved            {short_path(folder)}: {', '.join(FILES)}")


def _seeded(seed: int, folder: Path, overrides: Sequence[str]) -> AnyExperiment:
    """The same with another seed of the estimator."""
    keys = {word: word.lstrip("+~").partition("=")[0] for word in overrides}
    kept = [
        word for word, key in keys.items() if key not in ("job", "estimator.seed") and not key.startswith("explain")
    ]
    return build(recompose([*kept, f"estimator.seed={seed}"]), folder)


def _run(experiment: AnyExperiment) -> tuple[list[WhiteboxCase], WhiteboxScore]:
    with open_progress(open_console()) as progress:
        cases = list(experiment.task.cases(progress))
    score: WhiteboxScore = experiment.task.score(experiment.rule, cases)
    for case, scored in zip(cases, score.cases, strict=True):
        if scored.failed:
            failure = case.prediction.failure
            why = failure.lines if failure is not None else ["  it went over a limit: job=validate says which"]
            raise JobFailedError("\n".join([f"{case.name} has no answer that counts, so there is no error", *why]))
    return cases, score


def _explained(task: Whitebox, cases: Sequence[WhiteboxCase]) -> list[Any]:
    rows = {row.index: row for row in task.dataset.rows}
    found = []
    for case in cases:
        assert case.prediction.means is not None
        weights = np.asarray(task.dataset.mlp(rows[case.index]).weights)
        truth = case.truth
        found.append(explain_mlp(case.name, weights, case.prediction.means, truth.means, truth.floor_mse))
    return found


def _replaced(
    task: Whitebox,
    cases: Sequence[WhiteboxCase],
    mses: Sequence[float],
    options: ExplainOptions,
    config: Mapping[str, Any],
) -> Replaced | str:
    """What is left with the true moments of each layer. A stranger's code never gets them: they are the answers."""
    if not options.moments:
        return "not asked for (explain.moments=false)"
    if task.isolation.is_process(task.estimator) or task.estimator.mode != "traced":
        return "only for a traced estimator that runs in this process: these moments are the answers"
    estimator = task.estimator.create()
    if not isinstance(estimator, FromMoments):
        return "the estimator has no predict_from(weights, mean, covariance): see docs/write.md"
    if not keeps_covariances(task.dataset.width, task.dataset.depth) or task.dataset.depth < 2:
        return f"no covariances are kept at {task.dataset.width}x{task.dataset.depth}: docs/truth.md says why"
    rows = {row.index: row for row in task.dataset.rows}
    networks = []
    with open_progress(open_console()) as progress:
        for case in progress.each(cases, "moments"):
            mlp = task.dataset.mlp(rows[case.index])
            n_samples = int(config["truth"].get("moment_samples", MOMENT_SAMPLES))
            moments = case.truth.moments or task.moments(rows[case.index], mlp, n_samples)
            networks.append((np.asarray(mlp.weights), replace(case.truth, moments=moments)))
    return what_is_left(estimator, networks, mses)


def _bought(
    experiment: AnyExperiment, cases: Sequence[WhiteboxCase], score: WhiteboxScore, options: ExplainOptions
) -> list[Bought]:
    task = experiment.task
    if not options.compute or task.estimator.is_sealed or not isinstance(task, Whitebox):
        return []
    bought: list[Bought] = []
    for factor in options.compute:
        with open_progress(open_console()) as progress:
            bought.append(buy(task, experiment.rule, cases, score, factor, progress))
    return bought


def _split(runs: Sequence[tuple[list[WhiteboxCase], WhiteboxScore]]) -> ErrorSplit:
    mses = np.array([[scored.final_layer_mse for scored in score.cases] for _, score in runs])
    answers = np.array([[_final(case) for case in cases] for cases, _ in runs])
    return split_error(mses, answers, np.array([scored.truth_floor_mse for scored in runs[0][1].cases]))


def _final(case: WhiteboxCase) -> np.ndarray:
    assert case.prediction.means is not None
    return case.prediction.means[-1]


def _against_champion(
    experiment: AnyExperiment, score: WhiteboxScore, cases: Sequence[WhiteboxCase], config: Mapping[str, Any]
) -> tuple[str, float] | None:
    """The champion's name and the ratio of the mean scores on the same MLPs."""
    champion = find_champion(experiment, config)
    if champion is None:
        return None
    ours = [getattr(scored, score.by_case.field) for scored in score.cases]
    theirs = [champion.scores.get((case.index, case.name)) for case in cases]
    if any(one is None for one in theirs) or not sum(one or 0.0 for one in theirs):
        return None
    return champion.name, sum(ours) / sum(one or 0.0 for one in theirs)
