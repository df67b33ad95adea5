"""The prequential task: a byte learner reads a stream once. Each batch is charged before it is learnt."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from whest.cases.prequential import Block, Closing, HeldOut
from whest.cost import Charge, Cost
from whest.document import Json
from whest.errors import ConfigError
from whest.estimator.spec import EstimatorSpec
from whest.isolation.choose import Isolation
from whest.isolation.learner import trace_in_worker
from whest.learner.contract import LearnerContext, create_learner
from whest.learner.programs import flatten_learner, trace_programs
from whest.limits import Limits, WorkerLimits
from whest.metering.meter import METER_VERSION
from whest.progress import Progress
from whest.report import RunMeta
from whest.scoring.prism import PrismRule, PrismScore
from whest.tasks.prequential.engine import Engine, HostEngine, TracedEngine
from whest.tasks.prequential.probe import probe
from whest.tasks.prequential.report import PrequentialReport
from whest.tasks.prequential.stream import Span, batches_of, guesses, mean_bpb, online_run, run_span, spans
from whest.tasks.prequential.text import Text
from whest.tasks.prequential.view import VIEW

PASSES = 2
"""The harness runs each batch twice: for the loss, and for the check that later bytes don't change it."""


@dataclass(frozen=True)
class Prequential:
    """`task=prequential`: one pass over a stream of bytes."""

    name: ClassVar[str] = "prequential"
    version: ClassVar[int] = 1

    text: Text
    estimator: EstimatorSpec
    limits: Limits
    context: LearnerContext
    isolation: Isolation
    worker_limits: WorkerLimits
    bad_batch_charge: float
    outputs: Path

    def cases(self, progress: Progress) -> Iterator[Block]:
        """One case per block of the stream. After the last one, the held-out text is read."""
        engine = self._engine()
        rows = self.text.train[: self.n_rows * self.context.row_length].reshape(self.n_rows, -1)
        n_steps = self._affordable(engine)
        val = batches_of(self.text.val, engine.rows_per_step, self.context.row_length)
        engine.begin(self.context.seed)
        first = rows[: engine.rows_per_step]
        if isinstance(engine, TracedEngine):
            engine.compile(first)
            probe(engine, first, self.context.seed, with_noise=True)
        twin_bpb = mean_bpb(engine, val, self.bad_batch_charge) if len(val) else None
        todo = spans(self.n_rows, n_steps, engine.rows_per_step)
        kept: list[float] = []
        started = time.perf_counter()
        for span in progress.each(todo, f"{self.estimator.name} on {self.text.name}"):
            timing = run_span(engine, rows, span, kept)
            block = self._block(engine, span, kept)
            is_over = self._is_over_time(time.perf_counter() - started)
            closing = None
            if span is todo[-1]:
                closing = self._close(engine, val, twin_bpb, rows[: engine.rows_per_step])
            yield replace(block, timing=timing, closing=closing)
            if is_over:
                return

    def score(self, rule: PrismRule, cases: Sequence[Block]) -> PrismScore:
        return rule.score(online_run(cases))

    @property
    def n_rows(self) -> int:
        return len(self.text.train) // self.context.row_length

    def protocol(self) -> Json:
        return {
            "dataset": self.text.sha256,
            "row_length": self.context.row_length,
            "seed": self.context.seed,  # part of the protocol, so that nobody can try seeds until one is lucky
            "meter": {"name": "xla-traced", "version": METER_VERSION},
        }

    def describe(self, cases: Sequence[Block]) -> Json:
        return {
            "row_length": self.context.row_length,
            "n_blocks": len(spans(self.n_rows, self.n_rows, 1)),
            "is_reference": is_reference(self.estimator),
            "isolation": {
                "kind": self.isolation.kind,
                "worker": self.isolation.is_process(self.estimator),
                "protections": self._protections,
            },
            "dataset": self.text.describe(),
        }

    def determinants(self) -> Json:
        return {"isolation": asdict(self.isolation), "limits": asdict(self.worker_limits), "seed": self.context.seed}

    def report(self, meta: RunMeta, config: Json, cases: tuple[Block, ...], score: PrismScore) -> PrequentialReport:
        return PrequentialReport("score", meta, config, self.limits, cases, score, VIEW)

    @property
    def _protections(self) -> dict[str, bool]:
        """The worker only traces, and it has ended before the first byte is read."""
        return {"traced_apart": True} if self.isolation.is_process(self.estimator) else {}

    def _engine(self) -> Engine:
        if self.isolation.is_process(self.estimator):
            hidden = [self.outputs, *([Path(self.text.path)] if self.text.path else [])]
            cache = self.outputs / "cache" / "xla"
            programs, _ = trace_in_worker(self.estimator, self.context, self.worker_limits, hidden, cache)
            return TracedEngine(programs)
        if is_reference(self.estimator):
            return HostEngine(self.estimator.create())
        return TracedEngine(trace_programs(flatten_learner(create_learner(self.estimator, self.context)), self.context))

    def _affordable(self, engine: Engine) -> int:
        flops, in_stream = engine.update_cost.flops, self.n_rows // engine.rows_per_step
        if in_stream < 1:
            raise ConfigError(
                f"data={self.text.name} has {self.n_rows} rows of {self.context.row_length} bytes, but one step needs "
                f"{engine.rows_per_step}: give it more text, or lower task.row_length or estimator.rows_per_step"
            )
        if flops > self.limits.budget:
            raise ConfigError(
                f"budget={self.limits.budget:.4g} is too small: one update costs {flops:.4g} FLOPs, raise the budget"
            )
        return min(int(self.limits.budget // flops), in_stream) if flops else in_stream

    def _is_over_time(self, elapsed_s: float) -> bool:
        """Time does not change the score; the limit only stops a run that would never end."""
        cap = self.limits.wall_time_limit_s
        return cap is not None and elapsed_s > cap

    def _block(self, engine: Engine, span: Span, kept: Sequence[float]) -> Block:
        steps, length = span.end_step - span.first_step, self.context.row_length
        return Block(
            index=span.index,
            name=f"bytes {span.first_row * length}–{span.end_row * length - 1}",
            first_row=span.first_row,
            row_losses=tuple(kept[span.first_row : span.end_row]),
            rows_per_step=engine.rows_per_step,
            row_length=length,
            charges=_times(engine.update_cost, steps),
            flops_xla=None if engine.update_cost.flops_xla is None else engine.update_cost.flops_xla * steps,
            forward_flops=PASSES * engine.forward_cost.flops * steps,
            compile_time_s=engine.compile_time_s if span.first_step == 0 else 0.0,
        )

    def _close(self, engine: Engine, val: np.ndarray, twin_bpb: float | None, first: np.ndarray) -> Closing:
        if isinstance(engine, TracedEngine):
            probe(engine, first, self.context.seed + 1, with_noise=False)
        if twin_bpb is None:
            return Closing(None)
        trained = mean_bpb(engine, val, self.bad_batch_charge)
        return Closing(HeldOut(trained, twin_bpb), tuple(guesses(engine, val)))


def is_reference(spec: EstimatorSpec) -> bool:
    """Whether this is a bundled reference: it runs on the host, and its work is not counted."""
    made: Any = spec.create() if spec.is_bundled else None
    return bool(getattr(made, "is_reference", False))


def _times(cost: Cost, n: int) -> tuple[Charge, ...]:
    return tuple(replace(charge, flops=charge.flops * n, calls=charge.calls * n) for charge in cost.charges)
