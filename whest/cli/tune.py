"""`job=tune`: search an estimator's knobs with Optuna, and confirm the best on MLPs that the search never saw.

Training and held-out MLPs have roots of their own, so no suite contains them. Every trial is kept in SQLite; the same
command goes on where it was stopped, to the same trials: the sampler's seed follows from the number of finished ones.
"""

import fcntl
import hashlib
import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from whest.compare.tuning import Tried, Tuning, knob_words
from whest.config.build import build_target
from whest.config.compose import command_of, recompose
from whest.config.extras import installing
from whest.config.settings import read_settings
from whest.dataset.sources import SeedsDataset, fresh_seeds
from whest.display.answer import tell
from whest.display.console import open_console, say
from whest.display.progress import open_progress
from whest.errors import ConfigError, WhestError
from whest.experiment import AnyExperiment, build, protocol_of
from whest.files import write_atomically
from whest.notation import figure, short_path
from whest.page import save_page
from whest.scoring.paired import Paired
from whest.tasks.whitebox.task import Whitebox

FILES = ("tuning.json", "tuning.html", "trials.csv")
OLDEST = 4
"""Optuna's first version that this was written for."""
MOST_MLPS = 10_000
RESERVED = ("name", "mode", "_target_", "path", "seed")
IDLE = ("dataset.n_mlps", "dataset.range", "dataset.mlp_seeds", "dataset.seed", "dataset.path")


@dataclass(frozen=True)
class TuneOptions:
    """The `tune` part of the config."""

    knobs: dict[str, Any] | None
    n_trials: Annotated[int, Field(ge=1, le=100_000)]
    n_mlps: Annotated[int, Field(ge=1, le=MOST_MLPS)]
    confirm_mlps: Annotated[int, Field(ge=2, le=MOST_MLPS)]
    seed: Annotated[int, Field(ge=0, lt=2**31)]


def root_of(purpose: str) -> int:
    """The root seed of the MLPs of this purpose, `training` or `held out`."""
    return int.from_bytes(hashlib.sha256(f"whest tune {purpose}".encode()).digest()[:7])


def tune(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    options: TuneOptions = build_target(TuneOptions, config["tune"], "tune")
    optuna = import_optuna()
    words = _kept(overrides)
    base = build(recompose(words), folder)
    if not isinstance(base.task, Whitebox):
        raise ConfigError(f"job=tune is for task=whitebox, not task={base.task.name}")
    spaces = read_spaces(options.knobs, base.task.estimator.knobs)
    default = {name: base.task.estimator.knobs[name] for name in spaces}
    search = Search(base, words, folder, options, spaces, default)
    place = read_settings(config).outputs / "tune" / search.identity
    with locked(place):
        trials = search.run(optuna, place)
    best = Tuning(base.task.estimator.name, trials, default, search.lower_is_better, options.n_mlps, None).best
    confirmed = None
    if best is not None and dict(best.knobs) != default:
        say(f"confirming {knob_words(best.knobs)} on {options.confirm_mlps} held-out MLPs")
        pair = [search.scores(knobs, "held out", options.confirm_mlps) for knobs in (best.knobs, default)]
        confirmed = Paired(pair[0], pair[1], lower_is_better=search.lower_is_better)
    found = Tuning(base.task.estimator.name, trials, default, search.lower_is_better, options.n_mlps, confirmed)
    _save(found, folder, command_of(overrides), place)


def _save(found: Tuning, folder: Path, command: str, place: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    document = {**found.to_json(), "command": command, "study": str(place / "study.db")}
    write_atomically(folder / FILES[0], json.dumps(document, indent=2, allow_nan=False).encode())
    save_page(found.page(command), folder / FILES[1])
    write_atomically(folder / FILES[2], found.table().encode())
    tell(tuning=document, folder=str(folder), files=list(FILES))
    for line in found.lines():
        say(line)
    say(f"saved            {short_path(folder)}: {', '.join(FILES)}; the study is {short_path(place / 'study.db')}")


@dataclass(frozen=True)
class Space:
    """The values of a knob: an interval, or a list of choices."""

    choices: tuple[Any, ...] = ()
    low: float = 0
    high: float = 0
    is_whole: bool = False
    log: bool = False

    def has(self, value: Any) -> bool:
        if self.choices:
            return any(type(one) is type(value) and one == value for one in self.choices)
        return type(value) in (int, float) and self.low <= value <= self.high

    def suggest(self, trial: Any, name: str) -> Any:
        if self.choices:
            return trial.suggest_categorical(name, self.choices)
        if self.is_whole:
            return trial.suggest_int(name, int(self.low), int(self.high), log=self.log)
        return trial.suggest_float(name, self.low, self.high, log=self.log)


def read_spaces(knobs: Mapping[str, Any] | None, own: Mapping[str, Any]) -> dict[str, Space]:
    """`{a:[0.1,1],b:[full,lean],c:{low:1,high:100,log:true}}`. A knob that the estimator lacks is refused."""
    if not knobs:
        raise ConfigError(
            "tune.knobs is missing: give knobs with their ranges, 'tune.knobs={budget_fraction:[0.02,1]}'"
        )
    known = [name for name in own if name not in RESERVED]
    for name in knobs:
        if name not in known:
            there = ", ".join(known) or "none"
            raise ConfigError(
                f"tune.knobs.{name}: the estimator has no estimator.{name} to tune; its knobs are: {there}"
            )
    return {name: _space(name, value) for name, value in knobs.items()}


def _space(name: str, value: Any) -> Space:
    node = value if isinstance(value, Mapping) else {}
    ends = [node.get("low"), node.get("high")] if node else value
    if isinstance(ends, list) and len(ends) == 2 and all(type(end) in (int, float) for end in ends):
        low, high, log = ends[0], ends[1], bool(node.get("log", False))
        if low < high and not (log and low <= 0) and set(node) <= {"low", "high", "log"}:
            return Space(low=low, high=high, is_whole=all(type(end) is int for end in ends), log=log)
    elif isinstance(value, list) and len(value) >= 2 and all(isinstance(v, str | bool | int | float) for v in value):
        return Space(choices=tuple(value))
    raise ConfigError(
        f"tune.knobs.{name}={value} is no range: give [low,high] with low < high, {{low:1,high:100,log:true}}, or a "
        "list of two or more choices"
    )


@dataclass(frozen=True)
class Search:
    """The trials of one estimator on the training MLPs."""

    base: AnyExperiment
    words: Sequence[str]
    folder: Path
    options: TuneOptions
    spaces: Mapping[str, Space]
    default: Mapping[str, Any]

    @property
    def lower_is_better(self) -> bool:
        return bool(self.base.rule.direction == "lower")

    @property
    def identity(self) -> str:
        """The name of the study: all that its scores depend on. `tune.n_trials` is no part of it."""
        task, spec = self._on(self.base, "training", self.options.n_mlps), self.base.task.estimator
        parts: list[Any] = [spec.target, spec.source_sha256, dict(spec.knobs), repr(sorted(self.spaces.items()))]
        parts += [protocol_of(replace(self.base, task=task)), self.options.seed]
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]

    def run(self, optuna: Any, place: Path) -> list[Tried]:
        """Trials until there are `tune.n_trials`; the first is the default, if it is within the ranges."""
        study = optuna.create_study(
            storage=f"sqlite:///{place / 'study.db'}",
            study_name="whest",
            load_if_exists=True,
            direction="minimize" if self.lower_is_better else "maximize",
        )
        if not study.trials and all(space.has(self.default[name]) for name, space in self.spaces.items()):
            study.enqueue_trial(dict(self.default))
        _forget_killed(optuna, study)
        begun = len(_finished(study))
        if begun:
            say(f"continuing {short_path(place / 'study.db')}: {begun} trials are there")
        for number in range(begun, self.options.n_trials):
            study.sampler = optuna.samplers.TPESampler(seed=self._seed(number))
            self._try(optuna, study, number)
        found = []
        for number, trial in enumerate(_finished(study)[: self.options.n_trials]):
            found.append(Tried(number, dict(trial.params), trial.value, trial.user_attrs.get("failure")))
        return found

    def _seed(self, number: int) -> int:
        return int(np.random.SeedSequence([self.options.seed, number]).generate_state(1)[0])

    def _try(self, optuna: Any, study: Any, number: int) -> None:
        trial = study.ask()
        knobs = {name: space.suggest(trial, name) for name, space in self.spaces.items()}
        try:
            score = float(np.mean(self.scores(knobs, "training", self.options.n_mlps)))
        except WhestError as error:
            trial.set_user_attr("failure", str(error).splitlines()[0][:300])
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
            say(f"  trial {number}: failed, {knob_words(knobs)}")
        else:
            study.tell(trial, score)
            say(f"  trial {number}: {figure(score)}  {knob_words(knobs)}")

    def scores(self, knobs: Mapping[str, Any], purpose: str, n_mlps: int) -> np.ndarray:
        """The score of every MLP. A failed one is scored as the rule says, so it costs the trial."""
        words = [f"estimator.{name}={json.dumps(value)}" for name, value in knobs.items()]
        experiment = build(recompose([*self.words, *words]), self.folder)
        task = self._on(experiment, purpose, n_mlps)
        with open_progress(open_console()) as progress:
            score = task.score(experiment.rule, list(task.cases(progress)))
        return np.array([getattr(case, score.by_case.field) for case in score.cases], np.float64)

    def _on(self, experiment: AnyExperiment, purpose: str, n_mlps: int) -> Whitebox:
        assert isinstance(experiment.task, Whitebox)
        own = experiment.task.dataset
        seeds = fresh_seeds(root_of(purpose), n_mlps)
        return replace(experiment.task, dataset=SeedsDataset(own.width, own.depth, seeds).load())


def _finished(study: Any) -> list[Any]:
    return [one for one in study.trials if one.state.is_finished() and "killed" not in one.user_attrs]


def _forget_killed(optuna: Any, study: Any) -> None:
    """A trial that was running when its process ended: it is tried again."""
    for one in study.trials:
        if one.state == optuna.trial.TrialState.RUNNING:
            study._storage.set_trial_user_attr(one._trial_id, "killed", True)
            study.tell(one.number, state=optuna.trial.TrialState.FAIL)
            if one.params:
                study.enqueue_trial(one.params)


def import_optuna() -> Any:
    """Optuna, or an error with the command that installs it."""
    needs = f"job=tune needs Optuna {OLDEST} or newer: {installing('tune')}"
    try:
        import optuna
    except ImportError:
        raise ConfigError(needs) from None
    if int(optuna.__version__.split(".")[0]) < OLDEST:
        raise ConfigError(
            f"{needs}. Installed is {optuna.__version__}, which the plug-in of hydra/sweeper=tune wants: the two can't "
            "share an environment"
        )
    optuna.logging.set_verbosity(logging.WARNING)
    return optuna


@contextmanager
def locked(place: Path) -> Iterator[None]:
    """One process at a time works on a study. The lock ends with its process."""
    place.mkdir(parents=True, exist_ok=True)
    with (place / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ConfigError(f"{place}: another process works on this study; wait for it, or end it") from None
        yield


def _kept(overrides: Sequence[str]) -> list[str]:
    """The words that a trial has too, with a dataset that draws its truth."""
    kept = []
    for word in overrides:
        key = word.lstrip("+~").partition("=")[0]
        if key == "dataset" or key in IDLE:
            raise ConfigError(f"{word} has no effect on job=tune: it draws MLPs of its own, tune.n_mlps of them")
        if key != "job" and not key.startswith("tune."):
            kept.append(word)
    return [*kept, "dataset=fresh", "dataset.seed=0"]
