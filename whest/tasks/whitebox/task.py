"""White-box estimation: predict every neuron's mean from the weights alone."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from whest.cache import TruthCache
from whest.case import Limits, WhiteboxCase
from whest.child import WorkerLimits
from whest.dataset import Dataset
from whest.estimator import EstimatorSpec, SetupContext
from whest.isolation import Isolation, open_runner
from whest.meter import METER_VERSION
from whest.mlp import MLP
from whest.progress import Progress, watched_truth
from whest.report import Json, RunMeta
from whest.rows import Row
from whest.runner import Runner
from whest.sampling import flops_per_sample
from whest.scoring.score import Score
from whest.scoring.whitebox import WhiteboxRule, WhiteboxScore
from whest.suite import FOLDER as SUITES
from whest.tasks.whitebox.report import WhiteboxReport
from whest.truth import Truth, TruthSampler, describe_sampler


@dataclass(frozen=True)
class Whitebox:
    """`task=whitebox`: MLPs, their truth, and a metered prediction for each."""

    name: ClassVar[str] = "whitebox"
    version: ClassVar[int] = 1

    dataset: Dataset
    sampler: TruthSampler
    estimator: EstimatorSpec
    limits: Limits
    context: SetupContext
    isolation: Isolation
    worker_limits: WorkerLimits
    cache: TruthCache
    outputs: Path

    def cases(self, progress: Progress) -> Iterator[WhiteboxCase]:
        """One case an MLP, as each is finished."""
        with self._runner() as runner:
            for row in progress.each(self.dataset.rows, f"{self.estimator.name} on {self.dataset.name}"):
                mlp = self.dataset.mlp(row)
                truth, drawn_in_s = self._truth(row, mlp, progress)
                prediction = runner.predict(mlp)
                yield WhiteboxCase(row.index, row.name, truth, prediction, drawn_in_s, runner.protections)

    def score(self, rule: WhiteboxRule, cases: Sequence[WhiteboxCase]) -> WhiteboxScore:
        return rule.score(cases, self.limits, self.sample_price)

    @property
    def sample_price(self) -> float:
        """FLOPs that plain sampling spends on one input."""
        return flops_per_sample(self.context.width, self.context.depth)

    def protocol(self) -> Json:
        sampled = not self.dataset.has_truth or self.sampler.resample
        return {
            "dataset": self.dataset.sha256,
            "truth": describe_sampler(self.sampler) if sampled else "baked",
            "meter": {"name": "xla-traced", "version": METER_VERSION},
        }

    def describe(self, cases: Sequence[WhiteboxCase]) -> Json:
        return {
            "n_mlps": self.dataset.n_mlps,
            "width": self.dataset.width,
            "depth": self.dataset.depth,
            "isolation": {
                "kind": self.isolation.kind,
                "worker": self.isolation.is_process(self.estimator),
                "fresh": self.isolation.fresh,
                "protections": dict(cases[0].protections) if cases else {},
            },
            "dataset": self.dataset.describe(),
            "truth": {**describe_sampler(self.sampler), "resample": self.sampler.resample},
        }

    def determinants(self) -> Json:
        return {
            "isolation": asdict(self.isolation),
            "limits": asdict(self.worker_limits),
            "seed": self.context.seed,
        }

    def report(self, meta: RunMeta, config: Json, cases: tuple[WhiteboxCase, ...], score: Score) -> WhiteboxReport:
        assert isinstance(score, WhiteboxScore)
        return WhiteboxReport("score", meta, config, self.limits, cases, score, self.sample_price)

    def _runner(self) -> Runner:
        hidden = [self.outputs, SUITES, *self.dataset.hidden]
        compiled = self.outputs / "cache" / "xla"
        return open_runner(self.isolation, self.estimator, self.context, self.worker_limits, hidden, compiled)

    def _truth(self, row: Row, mlp: MLP, progress: Progress) -> tuple[Truth, float | None]:
        """The dataset's own truth where it brings one and it isn't to be drawn anew, else the cache's."""
        if row.truth is not None and not self.sampler.resample:
            return row.truth, None
        found = self.cache.find(self.sampler, mlp)
        if found is not None:
            return found, None
        started = time.perf_counter()
        drawn = watched_truth(self.cache, self.sampler, mlp, progress)
        return drawn, time.perf_counter() - started
