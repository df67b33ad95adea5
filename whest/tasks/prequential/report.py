"""A prequential report: one row per block, the loss of every batch, and predictions on held-out text."""

import math
from dataclasses import asdict, dataclass
from typing import cast

from whest.cases.prequential import Block
from whest.report import Report, estimator_breakdown, timing_json, total_xla
from whest.results import GuessJson, PrequentialFindings
from whest.scoring.prism import NATS_OF_UNIFORM, PrismScore


@dataclass(frozen=True)
class PrequentialReport(Report[Block, PrismScore]):
    """One pass over a stream."""

    @property
    def has_errors(self) -> bool:
        """Whether a finished run has no valid score. An interrupted run is no error."""
        return self.score.failure is not None and self.meta.status == "finished"

    @property
    def blocks(self) -> list[Block]:
        """The cases that were finished."""
        from whest.tasks.prequential.stream import finished

        return finished(self.cases)

    @property
    def online_loss(self) -> list[float | None]:
        from whest.tasks.prequential.stream import online_run

        return list(online_run(self.cases).online_loss)

    def block_bpb(self, case: Block) -> float:
        rate = self.config["scoring"]["bad_batch_charge"] * NATS_OF_UNIFORM
        losses = [loss if math.isfinite(loss) else rate for loss in case.row_losses]
        return math.fsum(losses) / len(losses) / math.log(2)

    def results(self) -> PrequentialFindings:
        blocks = self.blocks
        timings = [case.timing for case in blocks]
        closing = blocks[-1].closing if blocks else None
        first = blocks[0] if blocks else None
        return {
            "compile_time_s": sum(case.compile_time_s for case in blocks),
            "breakdowns": {"estimator": estimator_breakdown([case.charges for case in blocks], timings)},
            "program_bytes": self.cases[-1].origin.program_bytes if self.cases else None,
            "constant_bytes": self.cases[-1].origin.constant_bytes if self.cases else None,
            "flops_xla": total_xla([case.flops_xla for case in blocks]),
            "harness_flops": sum(case.forward_flops for case in blocks),
            "n_failed_cases": 0,
            "failure_breakdown": {"error": int(self.has_errors)},
            "online": {
                "loss": self.online_loss,
                "batch_bytes": first.rows_per_step * first.row_length if first else 0,
                "rows_per_step": first.rows_per_step if first else 0,
                "is_whole": closing is not None,
            },
            "examples": [cast(GuessJson, asdict(guess)) for guess in closing.guesses] if closing else [],
            "per_case": [
                {
                    "case_index": case.index,
                    "case_name": case.name,
                    "bpb": self.block_bpb(case),
                    "n_bytes": case.n_bytes,
                    "flops_used": case.flops,
                    "flops_xla": case.flops_xla,
                    **timing_json(case.timing),
                }
                for case in blocks
            ],
        }
