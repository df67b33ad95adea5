"""Coverage of 95 % intervals for the mean difference of two learners on one stream, by the way its blocks are grouped.

    python benchmarks/blocks.py              # simulated streams, some seconds
    python benchmarks/blocks.py --learners   # and two real n-grams on 30 generated streams of 32 kB, about a minute

64 blocks as `task=prequential` makes them. Simulated: the differences follow x_t = φ·x_{t−1} + noise, normal or skewed,
and "trend" adds a difference that fades as both learn. An interval covers if it holds the mean of all such streams.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np

import whest
from whest.document import case_rows
from whest.scoring.paired import Paired
from whest.scoring.serial import MOST_GROUPS, group_means

N_BLOCKS, N_STREAMS, WARM_UP = 64, 2000, 200
GROUPS = (64, 16, MOST_GROUPS, 4)
N_REAL, STREAM_BYTES = 30, 32_768


def simulated(rng: np.random.Generator, phi: float, is_skewed: bool, trend: float) -> np.ndarray:
    """Streams by blocks. Their mean over all streams is that of the trend."""
    shape = (N_STREAMS, WARM_UP + N_BLOCKS)
    noise = rng.exponential(1, shape) - 1 if is_skewed else rng.normal(0, 1, shape)
    for t in range(1, shape[1]):
        noise[:, t] += phi * noise[:, t - 1]
    return noise[:, WARM_UP:] + trend * np.exp(-np.arange(N_BLOCKS) / 8)


def coverage(streams: np.ndarray, mean: float, groups: int) -> tuple[float, float]:
    """The share of intervals that hold the mean, and their median half-width."""
    held, reach = [], []
    for stream in streams:
        means = group_means(stream, groups)
        interval = Paired(means, np.zeros(groups)).t_interval
        assert interval is not None
        held.append(mean in interval)
        reach.append((interval.high - interval.low) / 2)
    return float(np.mean(held)), float(np.median(reach))


def row(label: str, streams: np.ndarray, mean: float) -> str:
    cells = (coverage(streams, mean, groups) for groups in GROUPS)
    return f"| {label} | " + " | ".join(f"{100 * held:.1f} % ± {reach:.2g}" for held, reach in cells) + " |"


def learners() -> np.ndarray:
    """Differences in bits per byte of two n-grams, stream by stream."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        for seed in range(N_REAL):
            words = ("experiment=prism", "data=generated", f"data.seed={seed}", f"data.max_bytes={STREAM_BYTES}")
            sides = [
                whest.run(
                    *words, "estimator=ngram", f"estimator.order={order}", "tracking=none", "page=false",
                    f"outputs_dir={place}", folder=Path(place) / f"{seed}-{order}",
                )
                for order in (5, 3)
            ]  # fmt: skip
            a, b = ([case["bpb"] for case in case_rows(side.to_json()["results"])] for side in sides)
            found.append(np.array(a) - np.array(b))
    return np.array(found)


def main() -> None:
    rng = np.random.default_rng(20260525)
    print("| differences | " + " | ".join(f"{groups} groups" for groups in GROUPS) + " |")
    print("|---" * (len(GROUPS) + 1) + "|")
    for is_skewed in (False, True):
        for phi in (0.0, 0.3, 0.5, 0.7):
            streams = simulated(rng, phi, is_skewed, 0.0)
            print(row(f"{'skewed' if is_skewed else 'normal'}, φ = {phi}", streams, 0.0))
    trend = simulated(rng, 0.3, False, 2.0)
    print(row("normal, φ = 0.3, trend", trend, float(2.0 * np.exp(-np.arange(N_BLOCKS) / 8).mean())))
    if "--learners" in sys.argv[1:]:
        real = learners()
        rest = real - real.mean(axis=0)
        phi = float((rest[:, 1:] * rest[:, :-1]).mean() / (rest**2).mean())
        print(row(f"n-grams of order 5 and 3, φ = {phi:.2f}", real, float(real.mean())))


if __name__ == "__main__":
    main()
