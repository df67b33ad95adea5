"""What each test costs in CPU seconds, those of its child processes included.

    python benchmarks/test_costs.py                          the fast tests, as `make test` runs them
    python benchmarks/test_costs.py -m slow tests/page       any arguments of pytest

Wall time says little on a busy machine; CPU time is nearly the same each time. The setting up of a fixture counts for
the first test that uses it. A test process that ends with children still running leaves their time out.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = "WHEST_TEST_COSTS"
"""The variable that names the folder in which each test process writes its costs."""
N_SHOWN = 50


def _cpu_s() -> tuple[float, float]:
    """CPU seconds of this process, and of its children that have ended."""
    spent = os.times()
    return spent.user + spent.system, spent.children_user + spent.children_system


class Costs:
    """A plug-in of pytest: one line of JSON per phase of a test."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / f"{os.getpid()}.jsonl").open("a")

    def _write(self, test: str, phase: str, before: tuple[float, float]) -> None:
        here, children = (after - earlier for after, earlier in zip(_cpu_s(), before, strict=True))
        print(json.dumps({"test": test, "phase": phase, "here": here, "children": children}), file=self._file)
        self._file.flush()

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        result = yield
        self._write("", "start and collection", (0.0, 0.0))
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Iterator[None]:
        report: Any = yield
        if report.when == "call" or report.outcome != "passed":
            reason = str(report.longrepr[2]) if isinstance(report.longrepr, tuple) else ""
            print(json.dumps({"test": item.nodeid, "outcome": report.outcome, "reason": reason}), file=self._file)
        return report

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        before = _cpu_s()
        try:
            return (yield)
        finally:
            self._write(item.nodeid, "setup", before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        before = _cpu_s()
        try:
            return (yield)
        finally:
            self._write(item.nodeid, "call", before)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        before = _cpu_s()
        try:
            return (yield)
        finally:
            self._write(item.nodeid, "teardown", before)


def pytest_configure(config: pytest.Config) -> None:
    """Register the plug-in: pytest calls this in the first process and in each of xdist's."""
    if folder := os.environ.get(FOLDER):
        config.pluginmanager.register(Costs(Path(folder)), "whest_test_costs")


def report(folder: Path) -> None:
    """Print the costs per process, per file and of the dearest tests, and why tests were skipped."""
    lines: list[dict[str, Any]] = []
    for written in sorted(folder.glob("*.jsonl")):
        lines += [json.loads(line) | {"process": written.stem} for line in written.read_text().splitlines()]
    by_file: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    by_test: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    by_process: dict[str, float] = defaultdict(float)
    outcomes: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        test = line["test"]
        file = test.partition("::")[0] or line["phase"]
        if "outcome" in line:
            outcomes[file][line["outcome"]] += 1
            continue
        cost = line["here"] + line["children"]
        by_process[line["process"]] += cost
        by_file[file][0] += line["here"]
        by_file[file][1] += line["children"]
        if test:
            by_test[test][0] += line["here"]
            by_test[test][1] += line["children"]
            by_test[test][2] += cost if line["phase"] == "setup" else 0.0
    print(f"\n{sum(by_process.values()):.1f} CPU s, {len(by_test)} tests, in {len(by_process)} processes:")
    for process, cost in by_process.items():
        print(f"{cost:9.1f} process {process}")
    print("\n    CPU s      here  children  passed failed skipped  file")
    for file, (here, children) in sorted(by_file.items(), key=lambda one: -sum(one[1])):
        ended = "".join(f"{outcomes[file][how]:7d}" for how in ("passed", "failed", "skipped"))
        print(f"{here + children:9.1f} {here:9.1f} {children:9.1f} {ended}  {file}")
    print("\n    CPU s      here  children  setup  test")
    for test, (here, children, setup) in sorted(by_test.items(), key=lambda one: -sum(one[1][:2]))[:N_SHOWN]:
        print(f"{here + children:9.2f} {here:9.2f} {children:9.2f} {setup:6.2f}  {test}")
    for line in lines:
        if line.get("outcome") == "skipped":
            print(f"skipped: {line['test']}: {line['reason']}")


def main() -> int:
    """Run pytest with the plug-in, then print what the tests cost."""
    arguments = sys.argv[1:] or ["-n", "2", "--dist", "loadfile"]
    with tempfile.TemporaryDirectory() as kept:
        folder = Path(os.environ.get(FOLDER) or kept)
        folder.mkdir(parents=True, exist_ok=True)
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "benchmarks.test_costs", *arguments],
            cwd=ROOT,
            env=os.environ | {FOLDER: str(folder)},
        )
        report(folder)
    return ended.returncode


if __name__ == "__main__":
    raise SystemExit(main())
