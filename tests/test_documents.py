"""The commands in the documents: each one exists, and the slow tests run them."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import whest
from tests.support.places import ROOT
from whest.starter import start_estimator

sys.path.insert(0, str(ROOT / "benchmarks"))
from first_hour import shell_commands

DOCS = ROOT / "docs"
PAGES = sorted(DOCS.glob("*.md"))
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *PAGES]
START = (DOCS / "start.md").read_text()
PORTING = (DOCS / "porting.md").read_text()
README = (ROOT / "README.md").read_text()
USE = (DOCS / "use.md").read_text()
LONGEST_README = 130
NOT_RUN = {
    "make test": "it is what runs this",
    "make peer": "an environment of its own; tests/isolation/test_peer_real.py needs it",
    "leaderboard=ari": "a board of the exams that aren't run here",
    "make run": "its command is the first of docs/start.md",
    "make ui": "a server; tests/page/test_mlflow_browser.py and docs/start.md start it",
    "DATE/TIME": "the name of a run that the reader has",
    "judge.run=": "the name of a run that the reader has",
    "round=phase2": "minutes of work; benchmarks/frontier.py runs it",
    "experiment=budget_curve": "minutes of work; tests/sweeps/test_sweep.py runs a small one",
    "experiment=frontier": "minutes of work; benchmarks/frontier.py runs them",
    "job=tune": "tests/cli/test_tune.py runs it; beside the launchers' Optuna 2 it can't run",
    "cov.whest": "tests/sealed/test_scoring.py seals, inspects and scores one",
    "my_estimator.py": "a file that the reader has; tests/isolation/test_user_estimators.py has such",
    "leaderboard.deadline": "a board of the reader's own runs",
    "--config-dir mine": "a folder that the reader has; docs/start.md makes one and uses it",
    "hydra/sweeper=tune": "it needs Optuna, which make launchers installs",
    "job=clean": "it would empty what the others have made",
    "seed=7 truth.standard_error=5e-4": "a minute of sampling",
    "experiment=prism": "minutes of training; the learners' own tests run small ones",
    "experiment=ari": "minutes of training; the exam's own tests run small ones",
    "whestbench": "it needs the peer; its own tests run it",
    "job=import": "it needs a report of the peer's",
    "make compare-base": "it needs a clone with an origin; tests/docs/test_github.py runs its script",
}
"""Commands of README and docs/use.md that aren't run here, by a part of them, and why."""


def indented_commands(markdown: str) -> list[str]:
    """Lines of indented blocks that are typed into a shell, without their comments."""
    lines = re.findall(r"^    (?:\$ )?((?:python -m whest|make) .*)$", markdown, re.MULTILINE)
    return [shlex.join(shlex.split(line, comments=True)) for line in lines]


def words_of(command: str) -> tuple[list[str], str | None]:
    """The overrides of a command, the first choice of each sweep; and its --config-dir."""
    words = shlex.split(command, comments=True)[3:]
    folder = words[words.index("--config-dir") + 1] if "--config-dir" in words else None
    swept = "-m" in words
    kept = [word for word in words if "=" in word]
    return [word.split(",")[0] if swept and "[" not in word else word for word in kept], folder


def absent_modules(text: str) -> list[str]:
    """Files and folders of ours that a text names and the checkout lacks; NAME stands for the reader's own."""
    named = re.findall(r"\b((?:whest|estimators|benchmarks|tests)/[\w/]+(?:\.py|/))", text)
    return [path for path in named if not (ROOT / path).exists() and "NAME" not in path]


def headings(markdown: str) -> set[str]:
    """The anchors that GitHub gives a page's headings."""
    prose = re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        path, _, anchor = link.partition("#")
        if link.startswith("http"):
            continue
        target = page.parent / path if path else page
        assert target.exists(), link
        assert not anchor or anchor in headings(target.read_text()), link


def test_the_index_names_every_page() -> None:
    index = (DOCS / "index.md").read_text()
    assert [page.name for page in PAGES if page.name != "index.md" and f"({page.name})" not in index] == []


@pytest.mark.parametrize("page", TEXTS, ids=lambda page: page.name)
def test_every_module_that_a_page_names_exists(page: Path) -> None:
    assert absent_modules(page.read_text()) == []


def test_every_module_that_a_reason_names_exists() -> None:
    assert absent_modules(" ".join(NOT_RUN.values())) == []


def test_a_module_that_is_not_there_is_noticed() -> None:
    assert absent_modules("see whest/mlp.py, tests/test_gone.py and whest/tasks/NAME/") == ["tests/test_gone.py"]


def test_the_readme_is_short() -> None:
    assert len(README.splitlines()) <= LONGEST_README


def test_every_row_of_the_readmes_results_is_in_the_whole_table() -> None:
    """The README leaves out the score before its correction; every other figure is the whole table's."""
    rows = re.findall(r"^\| (?:warmup|phase\d) .*$", README, re.MULTILINE)
    whole = re.findall(r"^\| (?:warmup|phase\d) .*$", (DOCS / "results.md").read_text(), re.MULTILINE)
    cells = [[cell for i, cell in enumerate(row.split(" | ")) if i != 3] for row in whole]
    assert len(rows) == 10
    assert [row for row in rows if row.split(" | ") not in cells] == []


def test_every_command_of_the_first_hour_and_the_porting_guide_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    start_estimator(Path("mine"), [], tmp_path / "outputs")
    commands = [c for c in shell_commands(START) if c.startswith("python -m whest")] + indented_commands(PORTING)[:1]
    assert len(commands) >= 10
    for command in dict.fromkeys(commands):
        words, folder = words_of(command)
        assert whest.compose(*words, config_dir=folder)["job"]


def test_the_patch_is_what_the_page_shows_and_fits_the_starter(tmp_path: Path) -> None:
    start_estimator(tmp_path / "mine", [], tmp_path / "outputs")
    named = (tmp_path / "mine" / "mine.py").read_text().replace(str(tmp_path) + "/", "")
    (tmp_path / "mine" / "mine.py").write_text(named)
    config = tmp_path / "mine" / "estimator" / "mine.yaml"
    config.write_text(config.read_text().replace(str(tmp_path) + "/", ""))
    patch = ROOT / "docs" / "examples" / "whitened.patch"
    subprocess.run(["git", "apply", patch], cwd=tmp_path, check=True, capture_output=True)
    (shown,) = re.findall(r"^```diff\n(.*?)^```", START, re.MULTILINE | re.DOTALL)
    assert shown in patch.read_text()
    source = (tmp_path / "mine" / "mine.py").read_text()
    assert all(line[1:] in source for line in shown.splitlines() if line.startswith("+"))
    assert "share: float = 0.085" in source
    assert "share: 0.085" in config.read_text()


def test_every_command_that_is_not_run_is_still_on_a_page() -> None:
    assert [part for part in NOT_RUN if part not in README + USE] == []


def test_the_readme_keeps_its_two_commands() -> None:
    assert {"make run", "make test"} <= set(indented_commands(README))


@pytest.mark.slow
def test_the_commands_of_readme_and_use_run(tmp_path: Path, environment: dict[str, str]) -> None:
    """In one folder and in order, because some read the files of an earlier one."""
    typed = dict.fromkeys(indented_commands(README) + indented_commands(USE))
    commands = [command for command in typed if not any(part in command for part in NOT_RUN)]
    assert len(commands) >= 18
    failed = []
    for command in commands:
        words = [sys.executable, *shlex.split(command)[1:]]
        ended = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True)
        if ended.returncode:
            failed.append(f"{command}\n{ended.stdout[-500:]}{ended.stderr[-500:]}")
    assert not failed, "\n\n".join(failed)


@pytest.mark.slow
def test_the_first_hour_from_a_fresh_clone(tmp_path: Path) -> None:
    """Every command except the install, with MLflow's server; the last estimator is better than cov_prop."""
    command = [sys.executable, "benchmarks/first_hour.py", "--installed", "--folder", tmp_path / "hour"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout[-3000:] + ended.stderr[-3000:]
    verdict = re.search(r"mine is ([\d.]+)× better than cov_prop, 95 % ([\d.]+)–", ended.stdout)
    assert verdict is not None, ended.stdout[-3000:]
    assert float(verdict[2]) > 2
    assert re.search(r"MLflow's server names \d+ runs: .*cov_prop warmup.*mine warmup", ended.stdout)
