"""Score estimators at a base commit and as they are now, on the same MLPs, and compare them.

    python .github/actions/compare-base/compare_base.py --base origin/main --estimator cov_prop,mean_prop --n-mlps 20

Prints a table in Markdown. Exit code 1: an estimator became worse and the difference is resolved, or it fails now.
2: something can't be compared, for example because the protocol changed. It needs git and an installed whest; in a
checkout of whest itself each side runs its own code.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HEAD = ("| estimator | base | now | FLOPs | verdict |", "|---|---|---|---|---|")
REGRESSION, UNKNOWN = 1, 2


@dataclass(frozen=True)
class Row:
    """One estimator's line of the table, and the exit code that it asks for."""

    estimator: str
    base: str
    now: str
    flops: str
    verdict: str
    code: int = 0

    def __str__(self) -> str:
        cells = (f"`{self.estimator}`", self.base, self.now, self.flops, self.verdict)
        return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", required=True, help="a commit, branch or tag")
    parser.add_argument(
        "--estimator", required=True, help="one or more, with commas: names, or files of the repository"
    )
    parser.add_argument("--n-mlps", type=int, default=20)
    parser.add_argument("--words", nargs="*", default=[], help="more words for both sides, such as round=phase1")
    parser.add_argument("--output", type=Path, help="a file that the table is added to")
    options = parser.parse_args()
    words = [*options.words, f"dataset.n_mlps={options.n_mlps}", "tracking=none", "page=false", "console=json"]
    tree = Path(git("rev-parse", "--show-toplevel", where=Path.cwd()))
    commit = git("rev-parse", "--verify", "--end-of-options", f"{options.base}^{{commit}}", where=tree)
    with tempfile.TemporaryDirectory() as folder, checkout(tree, commit, Path(folder) / "base") as base:
        rows = [
            examine(name, base, tree, words, Path(folder) / f"runs{i}")
            for i, name in enumerate(options.estimator.split(","))
        ]
    title = f"{options.n_mlps} MLPs, base {commit[:12]}"
    text = "\n".join([f"### whest: {title}", "", *HEAD, *map(str, rows), ""])
    print(text)
    if options.output is not None:
        with options.output.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
    codes = {row.code for row in rows}
    sys.exit(REGRESSION if REGRESSION in codes else max(codes))


def git(*words: str, where: Path) -> str:
    ended = subprocess.run(["git", *words], cwd=where, capture_output=True, text=True)
    if ended.returncode:
        print(f"git {' '.join(words)} failed: {ended.stderr.strip()}", file=sys.stderr)
        sys.exit(UNKNOWN)
    return ended.stdout.strip()


@contextmanager
def checkout(tree: Path, commit: str, folder: Path) -> Iterator[Path]:
    """The files of a commit in a folder of their own, which is removed again."""
    git("worktree", "add", "--quiet", "--detach", str(folder), commit, where=tree)
    try:
        yield folder
    finally:
        git("worktree", "remove", "--force", str(folder), where=tree)


def examine(name: str, base: Path, tree: Path, words: Sequence[str], folder: Path) -> Row:
    """Score both sides, then compare the two reports."""
    now = ask(tree, tree, f"estimator={name}", *words, f"hydra.run.dir={folder / 'now'}", f"outputs_dir={folder}")
    if now["exit_code"]:
        return Row(name, "", "failed", "", str(now["error"]), REGRESSION)
    then = ask(base, base, f"estimator={name}", *words, f"hydra.run.dir={folder / 'base'}", f"outputs_dir={folder}")
    if then["exit_code"]:
        return Row(name, "none", shown(now), "", "new, or it failed before")
    runs = f"compare.runs=[{folder / 'now'},{folder / 'base'}]"
    answer = ask(tree, folder, "job=compare", runs, "tracking=none", "console=json", f"outputs_dir={folder}")
    if answer["exit_code"]:
        return Row(name, shown(then), shown(now), spent(then, now), f"not comparable: {answer['error']}", UNKNOWN)
    found = json.loads((Path(answer["folder"]) / "comparison.json").read_text(encoding="utf-8"))
    pair = found["comparisons"][0]
    verdict, is_worse = judge(pair, now["direction"])
    return Row(name, shown(then), shown(now), spent(then, now), verdict, REGRESSION if is_worse else 0)


def judge(pair: dict[str, Any], direction: str) -> tuple[str, bool]:
    """The verdict, and whether it is a resolved regression. `now` comes first in the pair."""
    is_worse = (pair["difference"] > 0) == (direction == "lower") and pair["difference"] != 0
    if not pair["is_resolved"]:
        return str(pair["verdict"]), False
    return f"**{'worse' if is_worse else 'better'}**: {pair['verdict']}", is_worse


def ask(code: Path, folder: Path, *words: str) -> dict[str, Any]:
    """The answer of a whest command as JSON, run with the code of `code` if that is a checkout of whest."""
    environment = dict(os.environ)
    if (code / "whest" / "__main__.py").exists():
        environment["PYTHONPATH"] = str(code)
    command = [sys.executable, "-m", "whest", *words]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    try:
        answer: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"exit_code": ended.returncode or 1, "error": (ended.stderr.strip().splitlines() or ["no answer"])[-1]}
    return answer


def shown(answer: dict[str, Any]) -> str:
    error = answer["score_se"]
    return f"{answer['score']:.4g}" + (f" ± {error:.2g}" if error is not None else "")


def spent(then: dict[str, Any], now: dict[str, Any]) -> str:
    before, after = (answer["metrics"].get("mean_flops_used") for answer in (then, now))
    if before is None or after is None:
        return ""
    return f"{after:.3g}" if before == after else f"{before:.3g} → {after:.3g}"


if __name__ == "__main__":
    main()
