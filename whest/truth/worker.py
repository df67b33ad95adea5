"""A process that draws truth with one thread: jobs come on standard input, progress goes to standard output.

`whest.truth.crew` starts it as `python -m whest.truth.worker CACHE XLA_CACHE`. A job is a pickled sampler and MLP, made
by whest itself. An answer is a line of JSON per block. The truth goes to the cache, which the parent reads.
"""

import json
import os
import pickle
import signal
import sys
import time
from pathlib import Path

from whest.config.devices import prepare_precision
from whest.truth.cache import TruthCache
from whest.truth.truth import expected_samples


def serve(cache: TruthCache) -> None:
    while True:
        try:
            sampler, mlp = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        started = time.perf_counter()
        for running in cache.stream(sampler, mlp):
            _tell(n_samples=running.n_samples, expected=expected_samples(sampler, running))
        _tell(seconds=time.perf_counter() - started)


def _tell(**words: float | None) -> None:
    """Without a reader this ends the process, so a killed parent leaves no worker behind."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its workers
    assert os.environ.get("NPROC") == "1", "the crew sets NPROC: XLA reads it when it starts"
    prepare_precision(sys.argv[2] or None)
    serve(TruthCache(Path(sys.argv[1])))
