"""The first hour of a new user: every command of docs/start.md, from a fresh clone, timed.

    python benchmarks/first_hour.py [--installed] [--folder FOLDER]

It clones this checkout's last commit into a temporary folder and runs only the commands of the tutorial. `make ui` is
started, asked for the runs, photographed if Chromium is installed, and ended. `--installed` skips `make setup` and uses
the present environment.
"""

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).parent.parent
TUTORIAL = ROOT / "docs" / "start.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SERVER, INSTALL = "make ui", ("make setup", ". .venv/bin/activate")
PATIENCE_S = 300


def shell_commands(markdown: str) -> list[str]:
    """The lines of a page's shell blocks."""
    return [line for block in BLOCK.findall(markdown) for line in block.splitlines() if line.strip()]


def follow(commands: list[str], folder: Path, installed: bool) -> list[tuple[str, float]]:
    """Run the commands in one shell, which stops at the first failure. Returns the seconds of each."""
    marked = ["set -e", f"export REPOSITORY={ROOT}"]
    for number, command in enumerate(commands):
        skipped = installed and command in INSTALL
        marked += [f"echo @@ {number} $(date +%s.%N)", "true" if skipped else command]
    marked.append(f"echo @@ {len(commands)} $(date +%s.%N)")
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    if installed:
        environment |= {"PATH": f"{sys.prefix}/bin:{environment['PATH']}", "PYTHONPATH": str(folder / "whest")}
    script = folder / "commands.sh"
    script.write_text("\n".join(marked) + "\n")
    times = []
    with subprocess.Popen(
        ["bash", script], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as shell:
        assert shell.stdout is not None
        for line in shell.stdout:
            if line.startswith("@@ "):
                times.append(float(line.split()[2]))
                if len(times) <= len(commands):
                    print(f"$ {commands[len(times) - 1]}", flush=True)
            else:
                print(line, end="", flush=True)
    if shell.returncode:
        raise SystemExit(f"exit code {shell.returncode} after: {commands[len(times) - 1]}")
    return [(command, times[i + 1] - times[i]) for i, command in enumerate(commands)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def look_at_server(clone: Path, installed: bool, picture: Path) -> tuple[list[str], float]:
    """Start `make ui`, wait until it answers, and read the names of the runs. Returns the seconds until it answered."""
    port, started = free_port(), time.monotonic()
    command = ["make", "ui", f"PORT={port}"]
    if installed:
        command = [sys.executable, "-m", "whest", "job=ui", f"port={port}"]
    with subprocess.Popen(command, cwd=clone, start_new_session=True) as server:
        try:
            names = _ask(f"http://127.0.0.1:{port}", started)
            took = time.monotonic() - started
            _photograph(port, picture)
        finally:
            os.killpg(server.pid, signal.SIGTERM)
    return names, took


def _ask(base: str, started: float) -> list[str]:
    question = json.dumps({"experiment_ids": ["1"], "max_results": 100}).encode()
    request = urllib.request.Request(
        f"{base}/api/2.0/mlflow/runs/search", question, {"Content-Type": "application/json"}
    )
    while True:
        try:
            with urllib.request.urlopen(base) as page, urllib.request.urlopen(request) as answer:
                assert page.status == 200
                return [run["info"]["run_name"] for run in json.load(answer)["runs"]]
        except OSError:
            if time.monotonic() - started > PATIENCE_S:
                raise
            time.sleep(1)


def _photograph(port: int, picture: Path) -> None:
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        return
    address = f"http://127.0.0.1:{port}/#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey=whest"
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1600,900", "--virtual-time-budget=30000"]
    subprocess.run([browser, *flags, f"--screenshot={picture}", address], capture_output=True, timeout=PATIENCE_S)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--installed", action="store_true")
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="whest-first-hour-"))
    folder.mkdir(parents=True, exist_ok=True)
    commands = shell_commands(TUTORIAL.read_text())
    times = follow([command for command in commands if command != SERVER], folder, options.installed)
    names, took = look_at_server(folder / "whest", options.installed, folder / "mlflow.png")
    times.append((SERVER, took))
    print("\n| command | s |\n|---|---|")
    for command, seconds in times:
        print(f"| `{command}` | {seconds:.0f} |")
    print(f"| all of it | {sum(seconds for _, seconds in times):.0f} |")
    print(f"\nMLflow's server names {len(names)} runs: {', '.join(sorted(set(names)))}")
    print(f"load of the machine {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores; files in {folder}")


if __name__ == "__main__":
    main()
