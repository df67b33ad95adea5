"""How large pages are and how much CPU they take to write.

    python benchmarks/pages.py

CPU is user + system of this process: at the first time, which imports and compiles templates as an ordinary run does,
and the least of `REPEATS` later times.
The run has the 50 MLPs of the warmup suite; the sweep is this run as a hundred jobs; the gallery has a thousand of it.
"""

import copy
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

import whest
from whest.document import GALLERY, PAGE, Json
from whest.experiment import save_run_page
from whest.gallery.index import update_index
from whest.gallery.page import save_gallery
from whest.page import save_page
from whest.report import AnyReport
from whest.sweeps.page import sweep_page
from whest.sweeps.table import label_rows, mark_best, mark_front, row_of
from whest.tasks.whitebox.explore import explorer_page
from whest.tasks.whitebox.network import Answer, Network

REPEATS = 3
N_JOBS, N_RUNS = 100, 1000
LIMITS = {"run, 50 MLPs": (600, 0.3), "sweep, 100 jobs": (1000, None), "gallery, 1,000 runs": (None, 10.0)}
"""kB and seconds of CPU."""


def measure(work: Callable[[], Path]) -> tuple[float, float, float]:
    """kB of the file that the work writes, and the seconds of CPU at the first time and at best."""
    spent = []
    for _ in range(1 + REPEATS):
        started = time.process_time()
        path = work()
        spent.append(time.process_time() - started)
    return path.stat().st_size / 1000, spent[0], min(spent[1:])


def run_page(report: AnyReport, folder: Path) -> Path:
    save_run_page(report, folder)
    return folder / PAGE


def write_sweep(document: Json, folder: Path) -> Path:
    rows = []
    for job in range(N_JOBS):
        one = copy.deepcopy(document)
        one["results"]["score"] *= 1 + job / N_JOBS
        rows.append(row_of(job, f"estimator.k={job}", one))
    return save_page(sweep_page(mark_front(mark_best(label_rows(rows))), "sweep", "the command"), folder / "sweep.html")


def write_runs(document: Json, outputs: Path) -> None:
    text = json.dumps(document)
    for i in range(N_RUNS):
        folder = outputs / "runs" / "2026-06-01" / f"{i:06}"
        folder.mkdir(parents=True)
        (folder / "report.json").write_text(text)


def write_gallery(outputs: Path) -> Path:
    """From nothing: the index of an earlier time is removed."""
    shutil.rmtree(outputs / "cache", ignore_errors=True)
    index = update_index(outputs)
    assert index.n_read == N_RUNS, f"{index.n_read} of {N_RUNS} were read anew"
    return save_gallery(index.all(), outputs, index.name, outputs / GALLERY)


def networks() -> Iterator[tuple[str, Network]]:
    """The first MLP of each round, with two made-up answers."""
    for name in ("warmup", "phase1", "phase2"):
        mlp, truth = next(iter(whest.load_dataset(f"round={name}", "dataset.n_mlps=1")))
        assert truth is not None
        noise = np.random.default_rng(0)
        answers = []
        for scale in (0.001, 0.01):
            means = truth.means + scale * noise.normal(size=truth.means.shape)
            mses = np.square(means - truth.means).mean(axis=1).tolist()
            row = {"mlp_index": 0, "per_layer_mse": mses, "final_layer_mse": mses[-1]}
            answers.append(Answer(f"off by {scale}", row, means))
        yield f"explorer, {mlp.width}x{mlp.depth}, two runs", Network(mlp, truth, tuple(answers))


@contextmanager
def prepared() -> Iterator[tuple[AnyReport, Path]]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        words = ("estimator=mean_prop", "tracking=none", "page=false", f"outputs_dir={folder / 'own'}")
        yield whest.run(*words, folder=folder / "run"), folder


def main() -> int:
    found: dict[str, tuple[float, float, float]] = {}
    with prepared() as (report, folder):
        document = report.to_json()
        found["run, 50 MLPs"] = measure(lambda: run_page(report, folder / "run"))
        found["sweep, 100 jobs"] = measure(lambda: write_sweep(document, folder))
        write_runs(document, folder / "outputs")
        found["gallery, 1,000 runs"] = measure(lambda: write_gallery(folder / "outputs"))
        for name, network in networks():
            found[name] = measure(
                lambda network=network: save_page(  # type: ignore[misc]
                    explorer_page(network, document, [], "the command"), folder / "explore.html"
                )
            )
    print(f"{'page':32} {'kB':>6} {'CPU s':>7} {'again':>7}  limit")
    is_kept = True
    for name, (size, cpu_s, again_s) in found.items():
        most_kb, most_s = LIMITS.get(name, (None, None))
        is_kept &= (most_kb is None or size <= most_kb) and (most_s is None or cpu_s <= most_s)
        limit = ", ".join(f"{most} {unit}" for most, unit in ((most_kb, "kB"), (most_s, "s")) if most is not None)
        print(f"{name:32} {size:6.0f} {cpu_s:7.2f} {again_s:7.2f}  {limit}")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
