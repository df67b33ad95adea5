"""PRISM's rule: the code length of the stream under the learner while it was still learning; higher is better.

    bpb   = Σ nats / ln 2 / bytes covered
    score = (base·pen + tie) · (0 if the first batch was impossibly cheap else 1),  base = 1/(1 + bpb)
    tie   = min(cap·pen, ½·pen·(base(bpb) − base(bpb + window))) · tanh(heldout_delta)

`pen` halves the score of a learner that memorises: its held-out text costs far more bits than the text it saw last. The
tie-break is worth less than `window` bits per byte, so it only orders scores that are nearly equal. A batch whose loss
isn't finite is charged at a fixed rate. A run fails and has no score if it covered no bytes, was stopped early, has no
batch with a finite loss, or has a bpb outside (0, 64].
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar

from pydantic import Field

from whest.cases.prequential import HeldOut
from whest.scoring.score import CaseFigure, Direction, Front, Score

NATS_OF_UNIFORM = math.log(256)
MOST_BPB = 64.0
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]


@dataclass(frozen=True)
class OnlineRun:
    """The values of a run that the rule uses."""

    online_loss: Sequence[float | None]
    """Mean nats per byte of each batch, measured before the learner saw it; None if it isn't finite."""
    batch_bytes: int
    held_out: HeldOut | None
    is_whole: bool = True
    """Whether it ran until the end of the budget or of the stream."""
    flops_used: int = 0
    stopped: str | None = None
    """Why the learner was stopped, where it was."""


@dataclass(frozen=True, kw_only=True)
class PrismScore(Score):
    """The score of a run; its rows are consecutive blocks of the stream."""

    by_case: ClassVar[CaseFigure] = CaseFigure("bpb", "bits per byte", unit="block", direction="lower")

    bpb: float | None
    base: float | None
    tie_break: float | None
    penalty: float
    heldout_delta: float | None
    gap: float | None
    val_bpb: float | None
    val_bpb_random_init: float | None
    train_bpb_converged: float | None
    covered_bytes: int
    n_batches: int
    n_charged_batches: int
    """Batches whose loss was not finite."""
    step0_loss: float | None
    step0_anomaly: bool
    memorised: bool
    flops_used: int
    failure: str | None
    """Why there is no score."""

    @property
    def front(self) -> Front:
        return Front("bits per byte", self.bpb, None, float(self.flops_used))


@dataclass(frozen=True)
class PrismRule:
    """`scoring=prism`."""

    name: ClassVar[str] = "prism"
    version: ClassVar[int] = 2
    """2: a run without a single finite loss has failed. Version 1 charged all its batches."""
    direction: ClassVar[Direction] = "higher"

    tie_cap: Positive
    tie_window: Positive
    """In bits per byte: runs that lie further apart are never reordered."""
    gap_limit: Positive
    """In bits per byte: the largest allowed gap between held-out text and the text learnt last."""
    gap_penalty: Share
    anomaly_share: Share
    """Share of ln 256: random weights can't give a first batch a loss below it."""
    bad_batch_charge: Positive
    """Charge for a batch whose loss isn't finite, in units of ln 256 per byte."""
    converged_share: Share
    """The share of the batches, counted from the end, that measure the trained learner."""

    def score(self, run: OnlineRun) -> PrismScore:
        return self.scored(run, self.version)

    def scored(self, run: OnlineRun, version: int) -> PrismScore:
        """The score under a version of the rule: older runs are checked by the rule that they ran under."""
        losses = self.charged(run.online_loss)
        bpb = _bits(losses)
        failure = _failure(bpb, run)
        if failure is None and version > 1 and not any(map(_is_finite, run.online_loss)):
            failure = "no batch had a finite loss"
        converged = _bits(losses[-max(1, int(len(losses) * self.converged_share)) :])
        held_out = run.held_out
        delta = held_out.twin_bpb - held_out.trained_bpb if held_out else None
        gap = held_out.trained_bpb - converged if held_out and converged is not None else None
        anomaly = bool(losses) and losses[0] < self.anomaly_share * NATS_OF_UNIFORM
        valid = bpb if failure is None else None
        return PrismScore(
            score=None if valid is None else self.formula(valid, delta, gap, anomaly),
            score_se=None,
            direction=self.direction,
            bpb=bpb,
            base=None if valid is None else base(valid),
            tie_break=None if valid is None else self.tie_break(valid, delta, gap),
            penalty=self.penalty(gap),
            heldout_delta=delta,
            gap=gap,
            val_bpb=held_out.trained_bpb if held_out else None,
            val_bpb_random_init=held_out.twin_bpb if held_out else None,
            train_bpb_converged=converged,
            covered_bytes=len(losses) * run.batch_bytes,
            n_batches=len(losses),
            n_charged_batches=sum(not _is_finite(loss) for loss in run.online_loss),
            step0_loss=losses[0] if losses else None,
            step0_anomaly=anomaly,
            memorised=self.penalty(gap) < 1,
            flops_used=run.flops_used,
            failure=failure,
        )

    def formula(self, bpb: float, delta: float | None, gap: float | None, anomaly: bool = False) -> float:
        return 0.0 if anomaly else base(bpb) * self.penalty(gap) + self.tie_break(bpb, delta, gap)

    def penalty(self, gap: float | None) -> float:
        return self.gap_penalty if gap is not None and gap > self.gap_limit else 1.0

    def tie_break(self, bpb: float, delta: float | None, gap: float | None) -> float:
        if delta is None:
            return 0.0
        penalty = self.penalty(gap)
        room = 0.5 * penalty * max(0.0, base(bpb) - base(bpb + self.tie_window))
        return min(self.tie_cap * penalty, room) * math.tanh(delta)

    def charged(self, losses: Sequence[float | None]) -> list[float]:
        """Mean nats per byte of each batch; a loss that isn't finite is replaced by the fixed rate."""
        rate = self.bad_batch_charge * NATS_OF_UNIFORM
        return [loss if loss is not None and math.isfinite(loss) else rate for loss in losses]


def base(bpb: float) -> float:
    return 1 / (1 + max(0.0, bpb))


def recompute(config: Mapping[str, Any], results: Mapping[str, Any]) -> float | None:
    """The score, computed again from a report's losses. It checks a report; it never ranks."""
    return rescored(config, results).score


def rescored(config: Mapping[str, Any], results: Mapping[str, Any]) -> PrismScore:
    """All figures of the score again, by the version of the rule that the report ran under."""
    online = results["online"]
    return _rescored(config["scoring"], _run(online["loss"], online, results))


def recompute_manifest(manifest: Mapping[str, Any]) -> float | None:
    """The score, computed again from the run's manifest alone."""
    metrics = manifest["metrics"]
    return _rescored(manifest["score"]["rule"], _run(metrics["online_loss"], manifest["compute"], metrics)).score


def _rescored(constants: Mapping[str, Any], run: OnlineRun) -> PrismScore:
    return _rule(constants).scored(run, int(constants.get("version", PrismRule.version)))


def _rule(constants: Mapping[str, Any]) -> PrismRule:
    return PrismRule(**{field.name: constants[field.name] for field in fields(PrismRule)})


def _run(losses: Sequence[float | None], counts: Mapping[str, Any], figures: Mapping[str, Any]) -> OnlineRun:
    trained, twin = figures["val_bpb"], figures["val_bpb_random_init"]
    held_out = None if trained is None or twin is None else HeldOut(trained, twin)
    return OnlineRun(losses, counts["batch_bytes"], held_out, counts["is_whole"])


def _bits(losses: Sequence[float]) -> float | None:
    """Bits per byte of the stream: all batches have the same size, so the mean over batches is exact."""
    return math.fsum(losses) / len(losses) / math.log(2) if losses else None


def _failure(bpb: float | None, run: OnlineRun) -> str | None:
    if run.stopped is not None:
        return run.stopped
    if bpb is None or run.batch_bytes < 1:
        return "no byte was covered"
    if not run.is_whole:
        return "it was stopped before the end of the budget or of the stream"
    if not 0 < bpb <= MOST_BPB:
        return f"{bpb:.4g} bits per byte are not between 0 and {MOST_BPB:g}"
    return None


def _is_finite(loss: float | None) -> bool:
    return loss is not None and math.isfinite(loss)
