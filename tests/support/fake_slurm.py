"""SLURM's commands as far as submitit uses them: sbatch runs the tasks of an array on this machine, one after another.

Copies of this file bear the names of the commands, `sbatch`, `srun` or `sacct`, and keep their notes beside them.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

JOB, RUN, TASKS = "4711", "--run-tasks", "tasks"


def sbatch(script: str, notes: Path) -> None:
    """Say the job's number, and run the tasks meanwhile: submitit puts their files in place once it knows it."""
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    subprocess.Popen([sys.argv[0], RUN, script], start_new_session=True, **quiet)
    sys.stdout.write(f"Submitted batch job {JOB}\n")


def run_tasks(script: Path, notes: Path) -> None:
    """Each task of the script as SLURM would run it, with a note that it ended."""
    tasks = re.search(r"#SBATCH --array=0-(\d+)", script.read_text())
    for number in range(int(tasks[1]) + 1) if tasks else [0]:
        told = {"SLURM_JOB_ID": f"{int(JOB) + number}", "SLURM_ARRAY_JOB_ID": JOB, "SLURM_ARRAY_TASK_ID": str(number)}
        told |= {"SLURM_NTASKS": "1", "SLURM_JOB_NUM_NODES": "1", "SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "here"}
        told |= {"SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
        note(notes, number, "RUNNING")
        ended = subprocess.run(["bash", str(script)], env={**os.environ, **told})
        note(notes, number, "FAILED" if ended.returncode else "COMPLETED")


def note(notes: Path, number: int, state: str) -> None:
    with (notes / TASKS).open("a") as file:
        file.write(f"{JOB}_{number}|{state}|here\n")


def srun(words: list[str]) -> None:
    """The command alone, without srun's own words, which name files for its output."""
    command = words[next(place for place, word in enumerate(words) if Path(word).name.startswith("python")) :]
    os.execv(command[0], command)


def main() -> None:
    name, notes = Path(sys.argv[0]).name, Path(sys.argv[0]).parent
    if name == "sbatch" and sys.argv[1] == RUN:
        run_tasks(Path(sys.argv[2]), notes)
    elif name == "sbatch":
        sbatch(sys.argv[-1], notes)
    elif name == "srun":
        srun(sys.argv[1:])
    else:
        tasks = notes / TASKS
        sys.stdout.write("JobID|State|NodeList\n" + (tasks.read_text() if tasks.exists() else ""))


if __name__ == "__main__":
    main()
