"""Bits per byte of each byte learner at one budget: the table of docs/learners.md.

python benchmarks/learners.py                                   # every bundled learner
python benchmarks/learners.py byte_mlp estimator.hidden=128     # one learner, with other knobs or another budget
"""

import sys
import tempfile
from pathlib import Path

from whest.api import score
from whest.config.compose import compose

LEARNERS = ("byte_contexts", "byte_ssm", "byte_attention", "byte_mlp", "ngram")
COLUMNS = ("learner", "bits per byte", "last tenth", "held out", "FLOPs of updates", "bytes", "s")


def main(learners: list[str], overrides: list[str]) -> None:
    print(f"| {' | '.join(COLUMNS)} |\n|{'---|' * len(COLUMNS)}")
    for learner in learners:
        print(f"| {' | '.join(row(learner, overrides))} |", flush=True)


def row(learner: str, overrides: list[str]) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        config = compose("experiment=prism", f"estimator={learner}", "tracking=none", *overrides)
        results = score(config, Path(folder)).to_json()["results"]
    return [
        " ".join([f"`{learner}`", *(word for word in overrides)]),
        f"{results['bpb']:.3f}",
        f"{results['train_bpb_converged']:.3f}",
        f"{results['val_bpb']:.3f}",
        f"{results['flops_used']:.3g}" if results["flops_used"] else "not counted",
        f"{results['covered_bytes']:,}",
        f"{sum(block['wall_time_s'] for block in results['per_case']):.0f}",
    ]


if __name__ == "__main__":
    words = sys.argv[1:]
    named = [word for word in words if "=" not in word]
    main(named or list(LEARNERS), [word for word in words if "=" in word])
