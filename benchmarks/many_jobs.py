"""A sweep of many cheap jobs: the share of all CPU time that is scoring, and what a run costs in calls to MLflow.

    NPROC=1 python benchmarks/many_jobs.py 1000                        # one after the other, tracking=none
    NPROC=1 python benchmarks/many_jobs.py 1000 tracking=mlflow hydra/launcher=cores

A job is covariance propagation on all MLPs of the warmup suite, with a page and a report, as `python -m whest` runs it;
jobs differ in the budget. *Scoring* is a job's own work: to load the dataset, to trace, compile and meter the program,
to predict each MLP and to score. All the rest is overhead: imports, Hydra, the report, the page, MLflow, the table.
*Per core* is the number of jobs per second of CPU time, what a quiet machine's core does in a second of wall time.
CPU time is user + system of all processes and threads, so other work on the machine hardly matters. Calls are counted
from a process's first scored job on.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
WATCH = """
import atexit, functools, json, os, sys, time, uuid
from collections import Counter

SPENT, CALLS = Counter(), Counter()
SCORING = {"whest.experiment": ["gather"], "whest.tasks.task": ["task_builder"]}
RULES = {"whest.tasks.whitebox.task": "Whitebox"}


def timed(function):
    @functools.wraps(function)
    def watched(*given, **named):
        started = time.process_time()
        try:
            found = function(*given, **named)
        finally:
            SPENT["scoring"] += time.process_time() - started
            if function.__name__ == "gather" and not SPENT["jobs"]:
                CALLS.update({name: -number for name, number in CALLS.items()})  # what made the store is no run's cost
            SPENT["jobs"] += function.__name__ == "gather"
        return timed(found) if function.__name__ == "task_builder" else found  # the builder loads the dataset
    return watched


def counted(name, function):
    @functools.wraps(function)
    def watched(*given, **named):
        CALLS[name] += 1
        return function(*given, **named)
    return watched


class Finder:
    def find_spec(self, name, path=None, target=None):
        for module, names in SCORING.items():
            for one in names:
                found = getattr(sys.modules.get(module), one, None)
                if found is not None and not hasattr(found, "__wrapped__"):
                    setattr(sys.modules[module], one, timed(found))
        for module, name in RULES.items():
            kind = getattr(sys.modules.get(module), name, None)
            if kind is not None and not hasattr(kind.score, "__wrapped__"):
                kind.score = timed(kind.score)
        self.count("mlflow.tracking.client", "MlflowClient", lambda one: not one.startswith("_"), "")
        self.count("sqlalchemy.engine.default", "DefaultDialect", lambda one: one.startswith("do_execute"), "SQL: ")
        return None

    def count(self, module, kind, is_meant, prefix):
        owner = getattr(sys.modules.get(module), kind, None)
        if owner is None or kind in CALLS:
            return
        CALLS[kind] = 0
        for one, function in list(vars(owner).items()):
            if is_meant(one) and callable(function) and not isinstance(function, type):
                setattr(owner, one, counted(prefix + one, function))


sys.meta_path.insert(0, Finder())


def tell():
    place = os.path.join(os.environ["MANY_JOBS"], uuid.uuid4().hex)
    with open(place, "w") as file:
        calls = CALLS if SPENT["jobs"] else {}
        json.dump({"scoring": SPENT["scoring"], "cpu": time.process_time(), "calls": calls}, file)


atexit.register(tell)
"""
"""A sitecustomize for every process of the sweep."""


def main() -> None:
    n_jobs, words = int(sys.argv[1]) if len(sys.argv) > 1 else 100, sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder) / "told"
        told.mkdir()
        (Path(folder) / "sitecustomize.py").write_text(WATCH)
        budgets = ",".join(str(6.8e10 + number) for number in range(n_jobs))
        given = words or ["tracking=none"]
        command = [
            "-m",
            "whest",
            "-m",
            "estimator=cov_prop",
            f"budget={budgets}",
            f"outputs_dir={folder}/outputs",
            *given,
        ]
        paths = {"PYTHONPATH": f"{folder}:{ROOT}", "MANY_JOBS": str(told), "MLFLOW_DISABLE_TELEMETRY": "true"}
        started = time.monotonic()
        subprocess.run(
            [sys.executable, *command], check=True, cwd=folder, env=os.environ | paths, stdout=subprocess.DEVNULL
        )
        wall_s, used = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        records = [json.loads(path.read_text()) for path in told.iterdir()]
    scoring = sum(record["scoring"] for record in records)
    everything = max(used.ru_utime + used.ru_stime, sum(record["cpu"] for record in records))
    rest = everything - scoring
    print(
        f"{n_jobs} jobs, {' '.join(given)}: {scoring:.1f} of {everything:.1f} CPU s, {scoring / everything:.1%} scoring"
    )
    print(f"per job {scoring / n_jobs * 1e3:.0f} ms of scoring and {rest / n_jobs * 1e3:.0f} ms of all else")
    print(f"{n_jobs / everything:.2f} jobs per second per core; {wall_s:.0f} s of wall time on this machine, as it was")
    calls: dict[str, int] = {}
    for record in records:
        for name, number in record["calls"].items():
            calls[name] = calls.get(name, 0) + number
    for name, number in sorted(calls.items()):
        if number:
            print(f"  {name:32} {number / n_jobs:8.2f} per job")


if __name__ == "__main__":
    main()
