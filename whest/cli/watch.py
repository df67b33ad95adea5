"""`job=watch estimator.path=mine.py`: score the file on a few MLPs after every save, in a worker that is warm."""

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from whest.cases.prediction import Failure, Prediction
from whest.cases.whitebox import WhiteboxCase
from whest.checks.contract import REMEDIES
from whest.compare.champion import RECORD, champion_folder
from whest.config.build import build_target
from whest.dataset.suite import FOLDER as SUITES
from whest.display.console import open_console, say
from whest.display.progress import open_progress
from whest.document import case_key, case_rows, case_score, protocol_hash
from whest.errors import ConfigError
from whest.experiment import AnyExperiment, build, protocol_of
from whest.isolation.choose import refuse_among_answers
from whest.isolation.process import World
from whest.isolation.runner import NOTHING_SPENT, Runner
from whest.isolation.warm import WarmRunner
from whest.mlp import MLP
from whest.notation import count, plus_minus, printable
from whest.scoring.paired import Paired, verdict
from whest.scoring.whitebox import WhiteboxScore
from whest.tasks.whitebox.task import Whitebox
from whest.tracking.recorded import read_report
from whest.truth.cache import watched_truth

Scores = dict[tuple[int, str], float]
"""The figure of each MLP, by its place and name."""


NO_ANSWER = Prediction(None, NOTHING_SPENT)
"""Before the first save."""


@dataclass(frozen=True)
class WatchOptions:
    """The `watch` part of the config."""

    n_mlps: Annotated[int, Field(ge=1, le=1000)]
    every_s: Annotated[float, Field(ge=0.01, le=60)]
    saves: Annotated[int, Field(ge=1)] | None


@dataclass(frozen=True)
class Rival:
    """What a save is compared with."""

    name: str
    scores: Scores


def watch(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    options: WatchOptions = build_target(WatchOptions, config["watch"], "watch")
    experiment = build(config, folder, overrides)
    task, path = experiment.task, experiment.task.estimator.path
    if not isinstance(task, Whitebox) or path is None or task.estimator.mode != "traced":
        raise ConfigError("job=watch follows one traced file of task=whitebox: add estimator.path=mine.py")
    if not path.is_file():
        raise ConfigError(f"estimator.path={path}: no such file; job=init path=DIR makes one to start from")
    champion = find_champion(experiment, config)
    with ExitStack() as stack:
        cases = draw_cases(task, options.n_mlps)
        runner = stack.enter_context(warm_runner(task))
        runner.start_ahead()
        against = f", champion {champion.name}" if champion else ""
        say(f"watching {path} on {count(len(cases), 'MLP')} of {task.dataset.name}{against}; Ctrl-C ends it")
        try:
            follow(experiment, options, runner, cases, champion)
        except KeyboardInterrupt:
            say("stopped")


def follow(
    experiment: AnyExperiment,
    options: WatchOptions,
    runner: WarmRunner,
    cases: Sequence[tuple[MLP, WhiteboxCase]],
    champion: Rival | None,
) -> None:
    """Score each version of the file, until there were as many as `watch.saves` says."""
    path, last = experiment.task.estimator.path, None
    assert path is not None
    for number, _ in enumerate(versions(path, options.every_s), start=1):
        started = time.monotonic()
        runner.renew()
        found = score_once(experiment, runner, cases)
        took = f"{time.monotonic() - started:.2g} s"
        if isinstance(found, list):
            say("\n".join([f"save {number}: failed", *map(printable, found), "waiting for the next save"]))
        else:
            score, scores = found
            say(f"save {number}: score {plus_minus(score.score, score.score_se)} ({took})")
            field = score.by_case
            rivals = [*([Rival("the last save", last)] if last else []), *([champion] if champion else [])]
            for rival in rivals:
                say(f"  {difference(scores, rival, field.direction == 'lower')}")
            last = scores
        runner.start_ahead()
        if options.saves is not None and number >= options.saves:
            return


def versions(path: Path, every_s: float) -> Iterator[str]:
    """The file's hash, now and after every change. Time and size are looked at first: reading is for changes only."""
    stamp, digest = None, None
    while True:
        try:
            status = path.stat()
            now = (status.st_mtime_ns, status.st_size, status.st_ino)
            if now != stamp:
                stamp, found = now, hashlib.sha256(path.read_bytes()).hexdigest()
                if found != digest:
                    digest = found
                    yield digest
                    continue
        except OSError:
            pass  # an editor moves the new file into place: look again
        time.sleep(every_s)


def score_once(
    experiment: AnyExperiment, runner: Runner, cases: Sequence[tuple[MLP, WhiteboxCase]]
) -> list[str] | tuple[WhiteboxScore, Scores]:
    """The score of this version, or what is wrong with it in lines: it raised, or its answer would not count."""
    failure = runner.prepare()
    if failure is not None:
        return told(failure)
    answered = []
    for mlp, case in cases:
        prediction = runner.predict(mlp)
        if prediction.failure is not None:
            return told(prediction.failure)
        answered.append(replace(case, prediction=prediction))
    score: WhiteboxScore = experiment.task.score(experiment.rule, answered)
    flags = [name for name, n in vars(score.failure_breakdown).items() if n]
    if flags:
        return [f"  {', '.join(flags).replace('_', ' ')}: it would count as failed, python -m whest validate says why"]
    figures = [getattr(one, score.by_case.field) for one in score.cases]
    return score, {(case.index, case.name): value for case, value in zip(answered, figures, strict=True)}


def told(failure: Failure) -> list[str]:
    """A failure with the line of the file, and what to do about it."""
    hints = failure.hints or ((REMEDIES[failure.code],) if failure.code in REMEDIES else ())
    return [*failure.lines, *(f"  hint: {hint}" for hint in hints)]


def difference(scores: Scores, rival: Rival, is_lower_better: bool) -> str:
    """The paired verdict on the MLPs that both have."""
    shared = [case for case in scores if case in rival.scores]
    if not shared:
        return f"{rival.name}: no MLP in common"
    a, b = (np.array([one[case] for case in shared], dtype=np.float64) for one in (scores, rival.scores))
    paired = Paired(a, b, is_lower_better)
    ratio = "" if paired.ratio is None else f"{paired.ratio:.4g}× of {rival.name}; "
    return ratio + verdict(paired, "this save", rival.name)


def find_champion(experiment: AnyExperiment, config: Mapping[str, Any]) -> Rival | None:
    """The champion of the run's protocol, if there is one."""
    outputs = Path(config["outputs_dir"]).absolute()
    place = champion_folder(outputs, protocol_hash(protocol_of(experiment)))
    if not (place / RECORD).exists():
        return None
    report = read_report(place).report
    field = case_score(report["results"])["field"]
    rows = {case_key(row): row[field] for row in case_rows(report["results"]) if row.get(field) is not None}
    return Rival(str(report["run_config"]["estimator"]["name"]), rows)


def draw_cases(task: Whitebox, n_mlps: int) -> list[tuple[MLP, WhiteboxCase]]:
    """The first MLPs with their truth. It is drawn now if it isn't in the dataset or the cache."""
    found: list[tuple[MLP, WhiteboxCase]] = []
    with open_progress(open_console()) as progress:
        for row in progress.each(task.dataset.rows[:n_mlps], "truth"):
            mlp = task.dataset.mlp(row)
            truth = None if task.sampler.resample else row.truth
            truth = truth or task.cache.find(task.sampler, mlp)
            truth = truth or watched_truth(task.cache, task.sampler, mlp, progress)
            found.append((mlp, WhiteboxCase(row.index, row.name, truth, NO_ANSWER, None)))
    return found


def warm_runner(task: Whitebox) -> WarmRunner:
    hidden = [task.outputs, SUITES, *task.dataset.hidden]
    refuse_among_answers(hidden, task.estimator)
    names = tuple(str(path) for path in hidden)
    require = task.isolation.required_of(task.estimator)
    compiled = task.outputs / "cache" / "xla"
    return WarmRunner(World(task.estimator, task.context, task.worker_limits, names, compiled, require))
