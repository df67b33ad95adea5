"""Does an exam's training come out the same on other processors? `python benchmarks/exam_machines.py` prints a table.

Other machines are imitated. XLA's flags choose the vector instructions that compiled code uses, and how wide it prefers
its vectors; NPROC is its number of threads. Equal bits of the trained parameters are the proof.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import psutil

MACHINES = {
    "as it is": ("", None, None),
    "one core": ("", 1, None),
    "AVX2": ("--xla_cpu_max_isa=AVX2", None, None),
    "one thread": ("", None, 1),
    "AVX-512 with 512 bits": ("--xla_cpu_max_isa=AVX512 --xla_cpu_prefer_vector_width=512", None, None),
    "AVX, no fused multiply-add": ("--xla_cpu_max_isa=AVX", None, None),
}
"""Flags, cores that the run may use and XLA's threads; None leaves it to the machine and to whest."""

PIN = "--xla_cpu_max_isa=AVX2 --xla_cpu_prefer_vector_width=256"
"""What whest sets itself, and one's own flags replace: added after them it holds again."""


def train(
    flags: str, n_cores: int | None, n_threads: int | None, seed: int, budget: float, folder: Path
) -> tuple[float, str, float]:
    """The score, a digest of the promoted parameters, and CPU seconds."""
    words = [f"seed={seed}", f"budget={budget:g}", "tracking=none", "page=false", "provenance=false", "console=json"]
    command = [
        sys.executable,
        "-m",
        "whest",
        "experiment=ari",
        *words,
        f"hydra.run.dir={folder}",
        f"outputs_dir={folder}",
    ]
    if n_cores is not None:
        cores = ",".join(map(str, sorted(os.sched_getaffinity(0))[:n_cores]))
        command = ["taskset", "-c", cores, *command]
    environment = {**os.environ, "XLA_FLAGS": flags}
    if n_threads is not None:
        environment["NPROC"] = str(n_threads)
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as run:
        seconds = _watch(run)
        assert run.stdout is not None
        answer = json.loads(run.stdout.read())
    if answer["score"] is None or answer["exit_code"]:
        raise SystemExit(f"experiment=ari with XLA_FLAGS='{flags}' failed: {answer['error']}")
    with np.load(folder / "promoted.npz", allow_pickle=False) as bundle:
        digest = hashlib.sha256(b"".join(bundle[name].tobytes() for name in sorted(bundle.files))).hexdigest()
    return float(answer["score"]), digest[:8], seconds


def _watch(run: "subprocess.Popen[str]") -> float:
    """CPU seconds of a process and its descendants, looked at until it ends: a worker's aren't its parent's."""
    spent: dict[int, float] = {}
    while run.poll() is None:
        try:
            family = [psutil.Process(run.pid), *psutil.Process(run.pid).children(recursive=True)]
        except psutil.NoSuchProcess:
            break
        for process in family:
            try:
                times = process.cpu_times()
                spent[process.pid] = times.user + times.system
            except psutil.NoSuchProcess:
                continue
        time.sleep(0.05)
    return sum(spent.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--budget", type=float, default=6e11)
    parser.add_argument("--machines", nargs="+", choices=list(MACHINES), default=list(MACHINES))
    parser.add_argument("--pinned", action="store_true", help=f"add {PIN} to each machine")
    options = parser.parse_args()
    print("| machine | " + " | ".join(f"seed {seed}" for seed in options.seeds) + " | CPU s |")
    print("|---|" + "---|" * (len(options.seeds) + 1))
    for name in options.machines:
        flags, n_cores, n_threads = MACHINES[name]
        cells, spent = [], 0.0
        for seed in options.seeds:
            with tempfile.TemporaryDirectory() as folder:
                # the last of two equal flags counts
                chosen = f"{flags} {PIN}" if options.pinned else flags
                score, digest, seconds = train(
                    chosen.strip(), n_cores, n_threads, seed, options.budget, Path(folder) / "run"
                )
            cells.append(f"{score:g} ({digest})")
            spent += seconds
        print(f"| {name} | " + " | ".join(cells) + f" | {spent:.0f} |", flush=True)


if __name__ == "__main__":
    main()
