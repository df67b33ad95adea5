"""The CPU time of everyday commands against the floor: what the libraries alone cost.

    python benchmarks/everyday.py

CPU is user + system of the process and all its children. The floor is one process that imports jax and hydra, composes
the config, jits x+1 and draws the suite's weights; it imports no more of whest than that needs. Each figure is the
least of `REPEATS` runs, since other work on the machine only adds to it. The runs that are compared take turns, so that
other work falls on all of them. The first round fills the caches and is not counted.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
REPEATS = 5
STAGES = {
    "import hydra": "import hydra",
    "compose": "import whest; whest.compose()",
    "import jax": "import jax",
    "jit x + 1": "jax.jit(lambda x: x + 1)(jax.numpy.ones(3)).block_until_ready()",
    "draw the suite's weights": (
        "from numpy.random import SeedSequence; from whest.mlp import draw_weights\n"
        "for seed in range(50): draw_weights(SeedSequence(seed), width=256, depth=8)"
    ),
    "import mlflow": "import mlflow",
}
FLOOR = [code for name, code in STAGES.items() if name != "import mlflow"]
RUN = ("-m", "whest", "budget=6.8e10", "estimator=cov_prop")
SWEEP = ("-m", "whest", "-m", "estimator=zeros,mean_prop,cov_prop", "budget=1e10,2e10,4e10,6.8e10", "page=false")
COMMANDS = {
    "floor": ("-c", "\n".join(FLOOR)),
    "floor + import mlflow": ("-c", "\n".join([*FLOOR, STAGES["import mlflow"]])),
    "cov_prop, tracking=none page=false": (*RUN, "tracking=none", "page=false"),
    "cov_prop, tracking=none": (*RUN, "tracking=none"),
    "cov_prop, page=false": (*RUN, "page=false"),
    "cov_prop": RUN,
    "--help": ("-m", "whest", "--help"),
    "job=list": ("-m", "whest", "job=list"),
    "--cfg job": ("-m", "whest", "--cfg", "job"),
}
FLOOR_OF_THE_GOAL_S = 2.3
"""The floor where the sweep's goal of 15 s was set."""


@dataclass(frozen=True)
class Spent:
    cpu_s: float
    wall_s: float
    score_after_s: float
    """Wall time until the score stood on the terminal; of a command that prints none, the whole wall time."""


def spend(arguments: tuple[str, ...], folder: str) -> Spent:
    """Run Python with these arguments, and read its standard output as it comes."""
    before, started, shown = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic(), None
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "MLFLOW_DISABLE_TELEMETRY": "true"}
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if shown is None and line.startswith("score "):
                shown = time.monotonic() - started
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    wall_s, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Spent(cpu_s, wall_s, wall_s if shown is None else shown)


def least(folder: str, commands: dict[str, tuple[str, ...]], repeats: int) -> dict[str, Spent]:
    """The least of each figure of each command. One round runs them all; the first round is not counted."""
    rounds = [{name: spend(words, folder) for name, words in commands.items()} for _ in range(repeats + 1)][1:]
    return {
        name: Spent(
            min(one[name].cpu_s for one in rounds),
            min(one[name].wall_s for one in rounds),
            min(one[name].score_after_s for one in rounds),
        )
        for name in commands
    }


def stage_times(folder: str) -> dict[str, float]:
    """CPU seconds of each stage, one after the other in one process."""
    code = "import time\n" + "".join(
        f"t = time.process_time()\n{code}\nprint({name!r}, time.process_time() - t, sep='\\t')\n"
        for name, code in STAGES.items()
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT), "MLFLOW_DISABLE_TELEMETRY": "true"}
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return {name: float(seconds) for name, seconds in (line.split("\t") for line in ended.stdout.splitlines())}


def report(name: str, seconds: float, base_s: float | None = None, goal: str = "") -> None:
    ratio = "" if base_s is None else f"{seconds / base_s:6.2f} x"
    print(f"{name:44s}{seconds:7.2f} s {ratio:9s} {goal}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, seconds in stage_times(folder).items():
            report(f"  {name}", seconds)
        spent = least(folder, COMMANDS, REPEATS)
        floor, floor_mlflow = spent["floor"], spent["floor + import mlflow"]
        report("floor", floor.cpu_s)
        report("floor + import mlflow", floor_mlflow.cpu_s)
        for name in ("cov_prop, tracking=none page=false", "cov_prop, tracking=none"):
            report(name, spent[name].cpu_s, floor.cpu_s, "goal 1.35 x floor")
        for name in ("cov_prop, page=false", "cov_prop"):
            report(name, spent[name].cpu_s, floor_mlflow.cpu_s, "goal 1.3 x (floor + import mlflow)")
        shown = spent["cov_prop"].score_after_s
        report("cov_prop: the score is printed after, wall", shown, floor.wall_s, "goal 1.25 x the floor's wall")
        for name in ("--help", "job=list", "--cfg job"):
            report(name, spent[name].cpu_s, goal="goal 1 s")
        sweep, goal = least(folder, {"sweep": SWEEP}, 2)["sweep"], 15 * floor.cpu_s / FLOOR_OF_THE_GOAL_S
        report("sweep of 12 jobs", sweep.cpu_s, floor.cpu_s, f"goal {goal:.1f} s")
        print("load of the machine, last minute and quarter of an hour: {0:.1f}, {2:.1f}".format(*os.getloadavg()))


if __name__ == "__main__":
    main()
