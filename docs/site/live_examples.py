"""Live example pages: small real runs, made when the site is built."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

FOLDER = "live"
SMALL = ("dataset.n_mlps=5",)
COMMANDS = {
    "A run": (*SMALL, "estimator=cov_prop"),
    "A sweep": ("-m", *SMALL, "estimator=mean_prop,cov_prop", "budget=1e9,6.8e10"),
    "A comparison": ("job=compare", "compare.runs=[cov_prop,mean_prop]", *SMALL),
    "A board": ("job=leaderboard",),
    "The gallery": ("job=gallery",),
}
"""What each page shows, and the words that make it; the later ones read the runs of the earlier ones."""


def make_pages(source: Path) -> None:
    """Run the commands in `source`, and keep only the pages that they leave in `source`/live."""
    environment = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "PYTHONPATH": os.pathsep.join(sys.path[1:])}
    lines = [
        "# Live examples",
        "",
        "These pages were made by the commands beside them when this site was built. Each is one file that loads "
        "nothing else: sort the tables, point at the charts, open the folds.",
        "",
        "| page | command |",
        "|---|---|",
    ]
    seen: set[Path] = set()
    for title, words in COMMANDS.items():
        command = [sys.executable, "-m", "whest", *words, f"outputs_dir={FOLDER}"]
        ended = subprocess.run(command, cwd=source, env=environment, capture_output=True, text=True)
        if ended.returncode:
            raise SystemExit(f"{' '.join(words)} failed:\n{ended.stdout[-2000:]}{ended.stderr[-2000:]}")
        new = sorted(path for path in (source / FOLDER).rglob("*.html") if path not in seen)
        new = [path for path in new if "mlartifacts" not in path.parts]
        new = [path for path in new if path.name != "gallery.html" or "job=gallery" in words]
        seen.update(new)
        typed = " ".join(f"'{word}'" if "[" in word else word for word in words)
        links = [_link(title, path, source) for path in _main_first(new, title)]
        lines.append(f"| {', '.join(links)} | `python -m whest {typed}` |")
    shutil.rmtree(source / FOLDER / "mlartifacts")  # MLflow's copies of the same pages
    _keep_pages(source / FOLDER)
    (source / "live_examples.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _main_first(pages: list[Path], title: str) -> list[Path]:
    """The page that the title names comes before those of single runs."""
    if not pages:
        raise SystemExit(f"{title}: its command left no page")
    return sorted(pages, key=lambda path: (path.name == "report.html", str(path)))


def _link(title: str, path: Path, source: Path) -> str:
    name = title if path.name != "report.html" or title == "A run" else f"run {path.parent.name[-6:]}"
    return f'<a href="{path.relative_to(source / FOLDER)}">{name}</a>'


def _keep_pages(folder: Path) -> None:
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_symlink() or (path.is_file() and path.suffix != ".html"):
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            shutil.rmtree(path)
