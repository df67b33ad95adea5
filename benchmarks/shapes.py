"""Large shapes: CPU seconds and peak memory of baking truth and of scoring, against width and depth.

    NPROC=1 python benchmarks/shapes.py            # 256x8 to 4096x8, on one core; prints Markdown
    python benchmarks/shapes.py 4096x8 1024x64     # some of them

Each row is one MLP: `job=bake` with a few plain samples, then a score of mean_prop and of cov_prop on the baked file.
`truth=fast` takes 2·width samples per replicate at the least, and two replicates: 16,384 samples at a width of 4096.
Seconds are CPU seconds of the command, with start-up and compiling; memory is that of its largest process. The weights
alone take 4·width²·depth bytes.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SHAPES = ("256x8", "256x64", "1024x8", "1024x16", "1024x64", "4096x2", "4096x8")
N_SAMPLES = 4096
ESTIMATORS = ("mean_prop", "cov_prop")


def spend(*words: str) -> tuple[float, float]:
    """CPU seconds and peak megabytes of one command of whest."""
    process = subprocess.Popen([sys.executable, "-m", "whest", *words], stdout=subprocess.DEVNULL, stderr=sys.stderr)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"python -m whest {' '.join(words)} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measure(shape: str, folder: Path) -> list[str]:
    width, depth = map(int, shape.split("x"))
    data, outputs = folder / shape, f"outputs_dir={folder / 'outputs'}"
    fresh = (f"dataset.width={width}", f"dataset.depth={depth}", "dataset=fresh", "seed=7", "dataset.n_mlps=1")
    bake = spend("job=bake", *fresh, "truth=plain", f"truth.n_samples={N_SAMPLES}", f"output={data}", outputs)
    stored = ("dataset=file", f"dataset.path={data}", "budget=1e16", "tracking=none", "page=false", outputs)
    scores = [spend(f"estimator={name}", *stored) for name in ESTIMATORS]
    cells = [f"{seconds:.0f} | {megabytes:,.0f}" for seconds, megabytes in (bake, *scores)]
    return [shape, f"{4 * width**2 * depth / 2**20:,.0f}", *cells]


def main() -> None:
    heads = " | ".join(f"{name}, s | MB" for name in ("bake", *ESTIMATORS))
    print(f"{N_SAMPLES:,} plain samples, one MLP, CPU seconds\n\n| shape | weights, MB | {heads} |\n|{'---|' * 8}")
    for shape in sys.argv[1:] or SHAPES:
        with tempfile.TemporaryDirectory(prefix="whest-shapes-") as folder:
            print(f"| {' | '.join(measure(shape, Path(folder)))} |", flush=True)


if __name__ == "__main__":
    main()
