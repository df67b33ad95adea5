"""A comparison: runs on the same cases, each against the first, with a verdict in words."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Float
from pydantic import Field

from whest.compare.entrants import Entrant, refuse_other_protocols
from whest.compare.until import Decision
from whest.document import Json, has_failed
from whest.errors import ConfigError
from whest.notation import failed_words
from whest.scoring.paired import Interval, Paired, verdict
from whest.scoring.seeds import ErrorSplit, split_error
from whest.scoring.sequential import FIRST, Scale
from whest.scoring.serial import SERIAL, group_means, n_groups

Case = tuple[int, str]


@dataclass(frozen=True)
class CompareOptions:
    """The `compare` part of the config."""

    runs: list[str] | None
    seeds: list[int] | None
    by: Literal["run", "estimator"]
    metric: str | None
    confidence: Annotated[float, Field(gt=0, lt=1)]
    resamples: Annotated[int, Field(ge=100, le=1_000_000)]
    bootstrap_seed: Annotated[int, Field(ge=0)]
    until: Annotated[float, Field(ge=0.5, lt=1)] | None = None
    max_mlps: Annotated[int, Field(ge=FIRST, le=1_000_000)] = 2000
    scale: Scale = "difference"


@dataclass(frozen=True)
class Side:
    """The scores of one run, or the means over the seeds of one estimator."""

    name: str
    scores: Float[np.ndarray, " mlp"]
    n_runs: int
    n_failed: int
    is_serial: bool = False

    @property
    def all_failed(self) -> bool:
        """Whether no case has an answer that counts: the scores are those of no answer at all."""
        return self.n_failed >= len(self.scores) * self.n_runs

    @property
    def mean(self) -> float:
        return float(self.scores.mean())

    @property
    def standard_error(self) -> float | None:
        scores = group_means(self.scores, n_groups(len(self.scores))) if self.is_serial else self.scores
        return float(scores.std(ddof=1)) / len(scores) ** 0.5 if len(scores) > 1 else None


@dataclass(frozen=True)
class Pair:
    a: Side
    b: Side
    paired: Paired
    unit: str = "MLP"
    decision: Decision | None = None
    """Of a comparison that went on until it was decided. Its interval holds at every look, and takes t's place."""

    @property
    def verdict(self) -> str:
        if self.has_failed:
            names = " and ".join(side.name for side in (self.a, self.b) if side.all_failed)
            return f"{names} {failed_words(self.paired.n_cases, self.unit)}: there is nothing to compare"
        if self.decision is not None:
            return self.decision.verdict
        return verdict(self.paired, self.a.name, self.b.name, self.unit)

    @property
    def is_resolved(self) -> bool:
        decided = self.paired.is_resolved if self.decision is None else self.decision.is_decided
        return decided and not self.has_failed

    @property
    def has_failed(self) -> bool:
        """Whether a side has no answer that counts."""
        return self.a.all_failed or self.b.all_failed

    @property
    def fixed(self) -> Paired | None:
        """The statistics of a fixed number of cases; None where the scores themselves decided the number, or failed."""
        return self.paired if self.decision is None and not self.has_failed else None

    def to_json(self) -> Json:
        paired, fixed = self.paired, self.fixed
        return {
            "a": self.a.name,
            "b": self.b.name,
            "verdict": self.verdict,
            "is_resolved": self.is_resolved,
            f"n_{self.unit.lower()}s": paired.n_cases,
            "confidence": paired.confidence,
            "difference": paired.difference,
            "difference_se": paired.standard_error,
            "t_interval": _ends(fixed.t_interval if fixed else None),
            "bootstrap_interval": _ends(fixed.bootstrap_interval if fixed else None),
            "p_value": fixed.p_value if fixed else None,
            "sign_flip_p": fixed.sign_flip_p if fixed else None,
            "rests_on_normality": fixed is not None and fixed.rests_on_normality,
            "smallest_ratio": fixed.smallest_ratio if fixed else None,
            "n_groups": paired.n_units if paired.is_serial else None,
            "ratio": paired.ratio,
            "ratio_interval": _ends(fixed.ratio_interval if fixed else None),
            "wins": paired.wins,
            "ties": paired.ties,
            f"n_{self.unit.lower()}s_needed": fixed.n_needed if fixed else None,
            **({"sequence": self.decision.to_json()} if self.decision is not None else {}),
        }


@dataclass(frozen=True)
class Split:
    """Bias and noise of one estimator, over its seeds."""

    name: str
    error: ErrorSplit


@dataclass(frozen=True)
class Comparison:
    metric: str
    protocol_hash: str
    title: str
    unit: str
    """The name of a case: MLP, question, block."""
    cases: tuple[str, ...]
    sides: tuple[Side, ...]
    pairs: tuple[Pair, ...]
    splits: tuple[Split, ...]
    notes: tuple[str, ...]
    sources: tuple[str, ...]
    confidence: float
    """The probability that all intervals hold together."""

    def to_json(self) -> Json:
        return {
            "schema_version": "1.0",
            "metric": self.metric,
            "protocol_hash": self.protocol_hash,
            "title": self.title,
            "confidence": self.confidence,
            "notes": list(self.notes),
            "sources": list(self.sources),
            f"{self.unit.lower()}s": list(self.cases),
            "sides": [
                {
                    "name": side.name,
                    "mean": side.mean,
                    "standard_error": side.standard_error,
                    "n_runs": side.n_runs,
                    f"n_failed_{self.unit.lower()}s": side.n_failed,
                    "scores": side.scores.tolist(),
                }
                for side in self.sides
            ],
            "comparisons": [pair.to_json() for pair in self.pairs],
            "bias_and_noise": [
                {"estimator": split.name, **asdict(split.error), "noise_share": split.error.noise_share}
                for split in self.splits
            ],
        }


def compare(entrants: Sequence[Entrant], options: CompareOptions, decision: Decision | None = None) -> Comparison:
    """Compare every side with the first. The k comparisons share the error, so that all intervals hold together."""
    refuse_other_protocols([(one.name, one.report["run_meta"]["protocol"]) for one in entrants])
    default = entrants[0].case_score
    metric, unit = options.metric or default["field"], default["unit"]
    shared, notes = shared_cases(entrants)
    sides = [_side(name, group, shared, metric) for name, group in _groups(entrants, options.by)]
    if len(sides) < 2:
        raise ConfigError(
            "compare.by=estimator leaves one estimator: add another to compare.runs, or use compare.by=run"
        )
    together = options.confidence if options.until is None else options.until
    level = 1 - (1 - together) / (len(sides) - 1)
    lower = default["direction"] == "lower" if metric == default["field"] else metric != "accuracy"
    first, *others = sides
    pairs = [
        Pair(
            first,
            b,
            Paired(first.scores, b.scores, lower, level, options.resamples, options.bootstrap_seed, first.is_serial),
            unit,
            decision,
        )
        for b in others
    ]
    config = entrants[0].report["run_config"]
    splits, missing = split_errors(entrants, shared)
    return Comparison(
        metric=metric,
        protocol_hash=entrants[0].protocol_hash,
        title=f"{config['dataset']['name']}: {len(shared)} {unit}s{_shape(config)}, "
        f"budget {config['flop_budget']:.3g} FLOPs",
        unit=unit,
        cases=tuple(name for _, name in shared),
        sides=tuple(sides),
        pairs=tuple(pairs),
        splits=splits,
        notes=(*notes, *missing, *([f"it cost {decision.cost}"] if decision is not None else [])),
        sources=tuple(one.source for one in entrants),
        confidence=together,
    )


def shared_cases(entrants: Sequence[Entrant]) -> tuple[list[Case], tuple[str, ...]]:
    """The cases that every run finished, and a note if an interrupted run has fewer."""
    shared = set.intersection(*(set(one.cases) for one in entrants))
    if not shared:
        unit = entrants[0].case_score["unit"]
        raise ConfigError(f"compare.runs: no {unit} is finished in all of these runs; leave out the interrupted ones")
    most = max(len(one.cases) for one in entrants)
    unit = entrants[0].case_score["unit"]
    note = f"{len(shared)} of {most} {unit}s are in every run; only those are compared"
    return sorted(shared), (note,) if len(shared) < most else ()


def _shape(config: Json) -> str:
    return f" of {config['width']}x{config['depth']}" if "width" in config else ""


def _groups(entrants: Sequence[Entrant], by: str) -> list[tuple[str, list[Entrant]]]:
    if by == "run":
        return [(one.name, [one]) for one in entrants]
    families: dict[str, list[Entrant]] = {}
    for one in entrants:
        families.setdefault(one.family, []).append(one)
    names = [family_name(group) for group in families.values()]
    unique = [name if names.count(name) == 1 else f"{name} ({i})" for i, name in enumerate(names, start=1)]
    return list(zip(unique, families.values(), strict=True))


def family_name(group: Sequence[Entrant]) -> str:
    """The common name of the members, without their seed and number."""
    words = [word for word in group[0].name.split() if not word.startswith(("seed=", "("))]
    return " ".join(words)


def _side(name: str, group: Sequence[Entrant], shared: Sequence[Case], metric: str) -> Side:
    scores = np.mean([_scores(one, shared, metric) for one in group], axis=0)
    failed = sum(has_failed(one.cases[case]) for one in group for case in shared)
    return Side(name, scores, len(group), failed, group[0].case_score["unit"] in SERIAL)


def _scores(one: Entrant, shared: Sequence[Case], metric: str) -> Float[np.ndarray, " mlp"]:
    known = sorted(key for key, value in one.cases[shared[0]].items() if isinstance(value, int | float))
    if metric not in known:
        raise ConfigError(
            f"compare.metric={metric} is not a figure of {one.name}'s report: choose one of {', '.join(known)}"
        )
    scores = [one.cases[case].get(metric) for case in shared]
    if any(score is None for score in scores):
        raise ConfigError(
            f"compare.metric={metric} is missing for some {one.case_score['unit']}s of {one.name} ({one.source}): "
            "choose another figure"
        )
    return np.array(scores, dtype=np.float64)


def split_errors(entrants: Sequence[Entrant], shared: Sequence[Case]) -> tuple[tuple[Split, ...], list[str]]:
    """Bias and noise of every estimator with two or more seeds, and notes why some can't be split."""
    splits, notes = [], []
    for name, group in _groups(entrants, "estimator"):
        by_seed = list({str(one.seed): one for one in group}.values())
        if len(by_seed) < 2 or "final_layer_mse" not in by_seed[0].cases[shared[0]]:
            continue
        if any(one.answers is None for one in by_seed):
            notes.append(f"{name}: to separate bias and noise, every report needs predictions.npz beside it")
            continue
        kept = [case for case in shared if all(case[0] in (one.answers or {}) for one in by_seed)]
        if not kept:
            continue
        answers = np.array([[(one.answers or {})[index] for index, _ in kept] for one in by_seed])
        mses = np.array([_scores(one, kept, "final_layer_mse") for one in by_seed])
        floors = [by_seed[0].cases[case]["truth_floor_mse"] for case in kept]
        if None in floors:
            notes.append(f"{name}: the truth's noise is not known, so it counts as bias")
        splits.append(Split(name, split_error(mses, answers, np.array([floor or 0.0 for floor in floors]))))
    return tuple(splits), notes


def _ends(interval: Interval | None) -> list[float] | None:
    return None if interval is None else [interval.low, interval.high]
