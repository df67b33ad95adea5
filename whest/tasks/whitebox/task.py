"""The white-box task: predict the mean of every neuron from the weights."""

import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import ClassVar

from whest.cases.prediction import Failure
from whest.cases.whitebox import WhiteboxCase
from whest.dataset.dataset import Dataset
from whest.dataset.row import KEPT, Row
from whest.dataset.suite import FOLDER as SUITES
from whest.document import Json
from whest.errors import JobFailedError
from whest.estimator.contract import SetupContext
from whest.estimator.spec import EstimatorSpec
from whest.isolation.choose import Isolation, describe_protection, open_runner
from whest.isolation.messages import Traced
from whest.isolation.runner import Runner
from whest.limits import Limits, WorkerLimits
from whest.metering.lists import BESIDE, DEFAULT, PriceList, list_meter
from whest.mlp import MLP
from whest.progress import Progress
from whest.report import RunMeta
from whest.scoring.whitebox import WhiteboxRule, WhiteboxScore
from whest.tasks.whitebox.baseline import flops_per_sample, peer_flops_per_sample
from whest.tasks.whitebox.neurons import classes_of
from whest.tasks.whitebox.report import WhiteboxReport
from whest.tasks.whitebox.view import VIEW
from whest.truth.cache import TruthCache, asked_moments, watched_truth
from whest.truth.moments import LayerMoments
from whest.truth.truth import Truth, TruthSampler, describe_sampler

NOT_IMPORTED = ("SyntaxError", "IndentationError", "TabError", "ImportError", "ModuleNotFoundError")
"""An estimator's errors that end the run before truth is drawn. Others are scored, as zeros, which needs the truth."""


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
    sealed: Traced | None = None
    """The program of a sealed estimator."""
    prices: PriceList = DEFAULT
    has_peer_figure: bool = False
    """Whether the estimator's cost also says what the peer's price list asks."""
    profile: Path | None = None
    """The folder for a trace of JAX's profiler; None: no trace."""

    @property
    def require(self) -> tuple[str, ...]:
        return self.isolation.require

    def cases(self, progress: Progress) -> Iterator[WhiteboxCase]:
        """One case per MLP, as each is finished. The estimator is traced before any truth is drawn."""
        compiling = progress.stage(f"compiling {self.estimator.name}")
        with self._runner() as runner:
            with progress.stage(f"tracing {self.estimator.name}"):
                failure = runner.prepare()
            for row in progress.each(self.dataset.rows, f"{self.estimator.name} on {self.dataset.name}"):
                mlp = self.dataset.mlp(row)
                truth, drawn_in_s = self._truth(row, mlp, failure, progress)
                asked = asked_moments(self.sampler)
                if asked is not None:
                    truth = replace(truth, moments=self.moments(row, mlp, asked))
                with compiling:
                    prediction = runner.predict(mlp)
                compiling = nullcontext()
                kinds = KEPT.made_of(mlp.weights, truth.means, classes_of)
                yield WhiteboxCase(row.index, row.name, truth, prediction, drawn_in_s, runner.protections, kinds)
            if self.profile is not None and failure is None:
                with progress.stage("profiling"):
                    self._trace(runner, self.dataset.mlp(self.dataset.rows[0]))

    def moments(self, row: Row, mlp: MLP, n_samples: int) -> LayerMoments:
        """The layers' moments: from the dataset if it has them, from the cache, or drawn now."""
        return self.dataset.source.moments(row) or self.cache.moments(mlp, n_samples)

    def score(self, rule: WhiteboxRule, cases: Sequence[WhiteboxCase]) -> WhiteboxScore:
        return rule.score(cases, self.limits, self.sample_price)

    @property
    def sample_price(self) -> float:
        """The FLOPs of plain sampling per input, by the same meter as the estimator's."""
        if self.estimator.peer is not None:
            return peer_flops_per_sample(self.context.width, self.context.depth)
        return flops_per_sample(self.context.width, self.context.depth, self.prices)

    def protocol(self) -> Json:
        sampled = not self.dataset.has_truth or self.sampler.resample
        return {
            "dataset": self.dataset.sha256,
            "truth": describe_sampler(self.sampler) if sampled else "baked",
            "meter": self.estimator.meter if self.prices == DEFAULT else list_meter(self.prices),
        }

    def describe(self, cases: Sequence[WhiteboxCase]) -> Json:
        return {
            **({"meter": self.prices} if self.prices != DEFAULT else {}),
            "n_mlps": self.dataset.n_mlps,
            "width": self.dataset.width,
            "depth": self.dataset.depth,
            "isolation": {
                "kind": self.isolation.kind,
                "worker": self.isolation.is_process(self.estimator),
                "fresh": self.isolation.fresh,
                **describe_protection(self.isolation.require, self.estimator, cases[0].protections if cases else {}),
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

    def report(
        self, meta: RunMeta, config: Json, cases: tuple[WhiteboxCase, ...], score: WhiteboxScore
    ) -> WhiteboxReport:
        return WhiteboxReport("score", meta, config, self.limits, cases, score, VIEW, self.sample_price)

    def _trace(self, runner: Runner, mlp: MLP) -> None:
        """One more prediction under JAX's profiler: the trace slows it down, so none that is scored is traced."""
        import jax

        with jax.profiler.trace(str(self.profile), create_perfetto_trace=True):
            runner.predict(mlp)

    def _runner(self) -> Runner:
        hidden = [self.outputs, SUITES, *self.dataset.hidden]
        compiled = self.outputs / "cache" / "xla"
        return open_runner(
            self.isolation,
            self.estimator,
            self.context,
            self.worker_limits,
            hidden,
            compiled,
            self.sealed,
            f"{self.prices}{BESIDE}" if self.has_peer_figure else self.prices,
        )

    def _truth(self, row: Row, mlp: MLP, failure: Failure | None, progress: Progress) -> tuple[Truth, float | None]:
        """The truth and the seconds it took: from the dataset, from the cache (both None), or drawn now."""
        if row.truth is not None and not self.sampler.resample:
            return row.truth, None
        found = self.cache.find(self.sampler, mlp)
        if found is not None:
            return found, None
        if failure is not None and failure.message.startswith(NOT_IMPORTED):
            sentence = f"estimator={self.estimator.name} can't be imported, so no truth was drawn"
            raise JobFailedError("\n".join([sentence, *failure.lines]))
        started = time.perf_counter()
        drawn = watched_truth(self.cache, self.sampler, mlp, progress)
        return drawn, time.perf_counter() - started
