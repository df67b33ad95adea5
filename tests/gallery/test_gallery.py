"""The gallery: its index reads only what is new, damaged files are rows, and a run brings it up to date."""

import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.many_runs import Outputs
from tests.support.recorded_store import TINY, Store
from whest.api import score
from whest.config.compose import compose
from whest.document import GALLERY
from whest.gallery import index as indexing
from whest.gallery.choose import protocols_of, so_far
from whest.gallery.entry import Entry
from whest.gallery.index import INDEX, read_index, update_index
from whest.gallery.page import MOST_BYTES, Links, gallery_page, save_gallery
from whest.gallery.refresh import refresh
from whest.gallery.store import store_entries
from whest.page import render
from whest.tracking.runs import MlflowTracking

Whest = Callable[..., Any]
ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m\u202e"


@pytest.fixture
def made(outputs: Path) -> Outputs:
    return Outputs(outputs)


def page_of(outputs: Path) -> str:
    return render(gallery_page(update_index(outputs).all(), Links(outputs, outputs / GALLERY), "x"))


def data_of(page: str) -> dict[str, Any]:
    (found,) = re.findall(r'<div class="records".*?<script type="application/json">(.*?)</script>', page, re.DOTALL)
    data: dict[str, Any] = json.loads(found)
    return data


def test_only_new_and_changed_files_are_read(made: Outputs) -> None:
    first, second = made.add(), made.add("other", 0.5)
    assert update_index(made.folder).n_read == 2
    assert update_index(made.folder).n_read == 0
    made.add("third")
    assert update_index(made.folder).n_read == 1
    (first / "report.json").write_text((second / "report.json").read_text() + " ")
    index = update_index(made.folder)
    assert (index.n_read, len(index.entries)) == (1, 3)
    (second / "report.json").unlink()
    assert sorted(entry.name for entry in update_index(made.folder).all()) == ["other", "third"]


def test_the_runs_of_a_closed_folder_can_be_listed(made: Outputs) -> None:
    with tempfile.TemporaryDirectory() as place:
        closed = Path(place, "outputs")
        shutil.copytree(made.add(), closed / "runs" / "a")
        for folder in (Path(place), closed):
            folder.chmod(0o555)
        is_root = os.geteuid() == 0
        try:
            if is_root:  # root may write anywhere
                os.seteuid(65534)
            index = update_index(closed)
        finally:
            if is_root:
                os.seteuid(0)
            for folder in (Path(place), closed):
                folder.chmod(0o755)
        assert [entry.name for entry in index.all()] == ["zeros"]
        assert sorted(path.name for path in closed.iterdir()) == ["runs"]


def test_a_run_of_another_shape_is_not_of_the_round(made: Outputs) -> None:
    made.add(run_config={"round": "warmup", "width": 16, "depth": 3})
    made.add(run_config={"round": "warmup", "width": 256, "depth": 8})
    made.add(run_config={"round": "of my own", "width": 16, "depth": 3})
    entries = update_index(made.folder).all()
    assert all(re.search(r" · \d+ MLPs? · ", one.words) for one in protocols_of(entries)), (
        "a part of a suite is another"
    )
    rounds = [entry.round for entry in entries]
    assert rounds == ["of my own", "warmup", "custom 16x3"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"version": 1}', '{"version": 0, "name": "x"}'])
def test_a_damaged_index_is_made_again(made: Outputs, content: str) -> None:
    made.add()
    name = update_index(made.folder).name
    assert read_index(made.folder).name == name, "stars and notes are kept under it"
    (made.folder / INDEX).write_text(content)
    assert update_index(made.folder).n_read == 1


def test_every_kind_has_a_row_with_a_link(made: Outputs) -> None:
    made.add("cov_prop", 0.5)
    made.add_sweep(0.4, 0.3)
    made.add_comparison("zeros is better")
    made.add_board()
    entries = update_index(made.folder).all()
    kinds = {entry.kind: entry for entry in entries if not entry.part_of}
    assert sorted(kinds) == ["board", "comparison", "run", "sweep"]
    assert all((made.folder / entry.page).is_file() for entry in entries)
    assert kinds["sweep"].words == "2 jobs; best zeros"
    assert kinds["comparison"].words == "zeros is better"
    assert kinds["board"].words == "ada leads; 1 row"
    jobs = [entry for entry in entries if entry.part_of]
    assert {entry.part_of for entry in jobs} == {kinds["sweep"].path}
    assert kinds["sweep"].score == min(entry.score for entry in jobs)


DAMAGES = {
    "cut off": lambda text: text[: len(text) // 2],
    "not JSON": lambda text: "hello",
    "another document": lambda text: json.dumps({"pairs": 3}),
    "wrong types": lambda text: json.dumps(
        {"run_meta": {"protocol_hash": 1}, "run_config": [], "results": {"score": {}}}
    ),
    "a changed score": lambda text: json.dumps(_with_score(json.loads(text), 1e-30)),
}


def _with_score(document: dict[str, Any], value: float) -> dict[str, Any]:
    document["results"]["score"] = value
    return document


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_report_is_a_row_that_says_so(made: Outputs, damage: str) -> None:
    whole, broken = made.add(), made.add() / "report.json"
    broken.write_text(DAMAGES[damage](broken.read_text()))
    entries = update_index(made.folder).all()
    (problem,) = [entry.problem for entry in entries if entry.problem]
    assert problem.startswith("its score is" if damage == "a changed score" else "damaged: ")
    (protocol,) = protocols_of(entries)
    assert protocol.best.path == whole.relative_to(made.folder).as_posix(), "it is never the best"
    assert "with a problem" in page_of(made.folder)


@pytest.mark.parametrize("content", ["[", '{"comparisons": 5}', '{"comparisons": [{}]}', '{"rows": [], "track": 3}'])
def test_a_damaged_comparison_or_board_is_a_row_too(made: Outputs, content: str) -> None:
    (made.add_comparison("x") / "comparison.json").write_text(content)
    (made.add_board() / "board.json").write_text(content)
    assert {entry.status for entry in update_index(made.folder).all()} == {"damaged"}


def test_links_and_pipes_are_not_followed(made: Outputs, tmp_path: Path) -> None:
    elsewhere = Outputs(tmp_path / "elsewhere").add()
    (made.folder / "runs").mkdir(parents=True)
    (made.folder / "runs" / "link").symlink_to(elsewhere)
    (made.folder / "runs" / "linked").mkdir()
    (made.folder / "runs" / "linked" / "report.json").symlink_to(elsewhere / "report.json")
    (made.folder / "runs" / "pipe").mkdir()
    os.mkfifo(made.folder / "runs" / "pipe" / "report.json")
    (entry,) = update_index(made.folder).all()
    assert (entry.path, entry.status) == ("runs/pipe", "damaged")


def test_best_and_best_so_far() -> None:
    def run(score: float, path: str, **more: Any) -> Entry:
        return Entry(path, "run", "e", f"2026-06-01T0{path}", protocol="p", score=score, status="finished", **more)

    runs = [run(3.0, "0"), run(5.0, "1"), run(2.0, "2"), run(2.5, "3"), run(1.0, "4", problem="changed")]
    (protocol,) = protocols_of(runs[::-1])
    assert (protocol.best.path, [step.path for step in so_far(protocol.runs)]) == ("2", ["0", "2"])
    higher = [replace(entry, is_lower_better=False) for entry in runs]
    assert protocols_of(higher[::-1])[0].best.path == "1"


def test_hostile_words_stay_words(made: Outputs, tmp_path: Path) -> None:
    folder = made.add(ATTACK, run_config={"round": ATTACK, "notes": ATTACK, "tags": {"x": ATTACK}})
    made.add("x" * 5000)
    made.add_comparison(ATTACK)
    odd = folder.rename(folder.parent / "javascript:alert(1)'\"<b>")
    page = page_of(made.folder)
    harmless = Outputs(tmp_path / "harmless")
    harmless.add()
    assert page.count("<script>") == page_of(harmless.folder).count("<script>")
    assert not [mark for mark in ("<img", "\x1b", "\u202e", "x" * 400) if mark in page]
    links = re.findall(r'"h":"([^"]*)"', page)
    assert any(odd.name.partition(":")[0] in link for link in links)
    assert not [link for link in links if re.search(r"[<>\"' :]", link)]


def test_the_page_is_bounded() -> None:
    entries = [
        Entry(f"runs/{i}", "run", "n" * 120, "2026-06-01", words="w" * 300, tags=["t" * 60] * 12) for i in range(5000)
    ]
    page = render(gallery_page(entries, Links(Path("/o"), Path("/o/gallery.html")), "x"))
    assert 0.5 * MOST_BYTES < len(page.encode()) < 1.2 * MOST_BYTES
    assert "of 5,000; job=runs lists all" in page
    assert len(data_of(page)["rows"]) < 5000


def test_a_run_brings_the_gallery_up_to_date(made: Outputs, monkeypatch: pytest.MonkeyPatch) -> None:
    made.add("before")
    config = compose(*TINY, "estimator=zeros", f"outputs_dir={made.folder}", "tracking=none")
    score(config, made.folder / "runs" / "quiet")
    assert not (made.folder / GALLERY).exists(), "no gallery was asked for"

    index = update_index(made.folder)
    save_gallery(index.all(), made.folder, index.name, made.folder / GALLERY)
    read: list[str] = []
    monkeypatch.setattr(indexing, "read_entry", lambda *place: (read.append(place[1]), read_entry(*place))[1])
    score(config, made.folder / "runs" / "mine")
    assert read == ["runs/mine"], "nothing else is read"
    rows = data_of((made.folder / GALLERY).read_text())["rows"]
    assert {row[0] for row in rows} >= {"runs/mine", "runs/quiet"}
    assert index.name in (made.folder / GALLERY).read_text()


read_entry = indexing.read_entry


def test_a_broken_gallery_never_fails_a_run(made: Outputs, caplog: pytest.LogCaptureFixture) -> None:
    folder = made.add()
    (made.folder / GALLERY).write_text("old")
    (made.folder / "cache").write_text("in the way")
    with caplog.at_level(logging.WARNING):
        refresh(made.folder, folder)
    assert "job=gallery makes it again" in caplog.text
    assert (made.folder / GALLERY).read_text() == "old"
    refresh(made.folder, made.folder.parent / "elsewhere")


def test_the_job_and_the_terminal(whest: Whest, made: Outputs) -> None:
    made.add("cov_prop", 0.5)
    made.add("mean_prop", 0.7, run_config={"tags": {"why": "[bold]x"}})
    made.add("cov_prop", 0.9, budget=1e9)
    (made.add("later") / "report.json").write_text("{")
    made.add_sweep(0.6)
    ended = whest("gallery", "tracking=none")
    assert (ended.exit_code, "6 rows, 5 read now" in ended.out) == (0, True), (ended.out, ended.err)
    assert len(data_of((made.folder / GALLERY).read_text())["rows"]) == 6

    listed = whest("runs", "tracking=none").out.splitlines()
    assert "damaged" in "\n".join(listed)
    assert "why=[bold]x" in "\n".join(listed)
    best = next(i for i, line in enumerate(listed) if line.split()[:2] == ["best", "of"])
    assert len(listed[best + 1 :]) == 2
    assert "cov_prop" in listed[best + 1]

    def names(*words: str) -> list[str]:
        out = whest("runs", "tracking=none", *words).out.splitlines()
        end = next(i for i, line in enumerate(out) if " of 6 rows" in line)
        return [line.split()[2] for line in out[1:end]]

    assert names("runs.estimator=cov_prop") == ["cov_prop", "cov_prop"]
    assert names("runs.tag=why") == ["mean_prop"]
    assert names("runs.tag='why=[bold]x'") == ["mean_prop"]
    assert len(names("runs.last=2")) == 2
    assert names("runs.kind=sweep") == ["sweep"]
    assert names("runs.since=2026-06-01", "runs.round='custom 16x3'", "runs.estimator=mean_prop") == ["mean_prop"]
    assert "none of 6 rows matches" in whest("runs", "tracking=none", "runs.round=phase9").out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("runs", "tracking=none"), "has no run: score an estimator"),
        (("gallery", "tracking=none"), "has no run: score an estimator"),
        (("runs", "runs.last=0"), "runs.last must be greater than or equal to 1"),
        (("runs", "runs.since=yesterday"), "runs.since"),
        (("gallery", "runs.last=3"), "has no effect on job=gallery"),
    ],
)
def test_mistakes(whest: Whest, words: tuple[str, ...], said: str) -> None:
    ended = whest(*words)
    assert ended.exit_code == 2
    assert said in ended.err
    assert ended.files == []


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated:DeprecationWarning")  # MLflow's
@pytest.mark.filterwarnings("ignore:For backward compatibility, 'str' dtypes:DeprecationWarning")  # MLflow's
def test_ids_and_tags_of_mlflow(tmp_path: Path) -> None:
    """The folder is joined with the store; without the folder, the store alone gives the same scores."""
    store = Store(tmp_path / "outputs")
    run_id = store.add("zeros")
    store.client.set_tag(run_id, "plan", "b")
    (entry,) = update_index(store.outputs).all()
    assert (entry.run_id, list(entry.tags)) == (run_id, ["plan=b"])
    (alone,) = store_entries(MlflowTracking(None, "whest", store.outputs))
    same = ("name", "round", "protocol", "score", "score_se", "budget", "run_id", "status", "n_failed")
    assert [getattr(alone, name) for name in same] == [getattr(entry, name) for name in same]
    assert list(alone.tags) == ["plan=b"]
    store.client.delete_run(run_id)
    assert update_index(store.outputs).all()[0].run_id == ""
