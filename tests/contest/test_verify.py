"""A small contest from opening to closing; then a byte of each kind of file is changed, and verify names the file."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import whest
from tests.support.contests import RULES, copied, fix_secret, flipped, organise, put, sealed, sealed_constant
from whest.contest.keys import Key, canonical, fingerprint, read_secret, sha256
from whest.contest.log import line_of, read_lines
from whest.contest.published import open_published
from whest.contest.rerun import chosen, compared, run_again
from whest.contest.storage import BOARD, HEAD, LOG, MANIFEST, SIGNED
from whest.contest.verify import verify, warnings
from whest.errors import ConfigError


@pytest.fixture(scope="module")
def contest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two honest entries and a refused one, scored; open_ is the same folder before the closing."""
    folder = tmp_path_factory.mktemp("contest")
    inbox = folder / "inbox"
    put(inbox, "ada/one.whest", sealed("mean_prop"), 1)
    put(inbox, "bob/one.whest", sealed_constant(0.5), 2)
    put(inbox, "eve/one.whest", b"hostile", 3)
    organise(*RULES, f"output={fix_secret(folder / 'spring')}", f"inbox={inbox}", folder=folder)
    copied(folder / "spring", folder / "open")
    organise(f"output={folder / 'spring'}", "host.do=close", folder=folder)
    return folder / "spring"


def problems(folder: Path, key: str | None = None) -> list[str]:
    return [str(problem) for problem in verify(folder, key)[1]]


def test_the_board_ranks_what_was_scored_and_shows_what_was_refused(contest: Path) -> None:
    rows = json.loads((contest / "board.json").read_text())["rows"]
    assert [(row["rank"], row["participant"], row["status"]) for row in rows] == [
        (1, "ada", "ranked"),
        (2, "bob", "ranked"),
        (None, "eve", "refused"),
    ]
    assert all(row["protection"] == "protected" for row in rows[:2])
    assert "it is no sealed program" in (contest / "board.html").read_text()


def test_a_contest_verifies_while_it_is_open_and_after_it_was_closed(contest: Path) -> None:
    assert problems(contest.with_name("open")) == []
    assert problems(contest) == []
    mark = fingerprint(json.loads((contest / MANIFEST).read_text())["public_key"])
    assert problems(contest, mark[:16]) == []
    assert "is signed by the key" in problems(contest, "0" * 16)[0]


def test_nothing_secret_is_published_before_the_closing(contest: Path) -> None:
    private = contest.with_name("open.private")
    secret = read_secret(private / "secret")
    report = json.loads((private / "runs" / "000001" / "0" / "report.json").read_text())
    kept = {secret.hex(), read_secret(private / "key").hex(), str(report["run_config"]["dataset"]["seed"])}
    kept |= {str(row["mlp_name"]) for row in report["results"]["per_mlp"]}
    published = [path for path in contest.with_name("open").rglob("*") if path.is_file()]
    assert len(published) == 10
    assert [(path.name, word) for path in published for word in kept if word in path.read_text()] == []
    assert (private / "key").stat().st_mode & 0o777 == 0o600


FILES = (MANIFEST, LOG, HEAD, SIGNED, *BOARD, "receipts/000001.json", "receipts/000003.json")
AFTER = ("entries/000002.whest", "reports/000001-0.json")


@pytest.mark.parametrize("name", [*FILES, *AFTER])
def test_one_byte_that_was_changed_is_named(contest: Path, tmp_path: Path, name: str) -> None:
    place = tmp_path / "spring"
    shutil.copytree(contest, place)
    size = (place / name).stat().st_size
    for at in {0, 1, size // 3, size // 2, 2 * size // 3, size - 2, size - 1}:
        n_line = (place / name).read_bytes()[:at].count(b"\n")
        flipped(place / name, at)
        found = problems(place)
        expected = f"{LOG}, line {n_line + 1}" if name == LOG else name
        assert found, (name, at)
        assert found[0].startswith(expected), (name, at, found)
        flipped(place / name, at)
    assert problems(place) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", [MANIFEST, LOG, HEAD, SIGNED, "receipts/000001.json", "board.csv"])
def test_each_single_byte_that_was_changed_is_named(contest: Path, tmp_path: Path, name: str) -> None:
    place = tmp_path / "spring"
    shutil.copytree(contest, place)
    content = (place / name).read_bytes()
    for at in range(len(content)):
        flipped(place / name, at)
        found = problems(place)
        expected = f"{LOG}, line {content[:at].count(10) + 1}" if name == LOG else name
        assert found, at
        assert found[0].startswith(expected), (at, found)
        (place / name).write_bytes(content)


@pytest.mark.parametrize("name", [HEAD, SIGNED, "receipts/000001.json"])
def test_a_signature_with_a_capital_or_a_space_is_named(contest: Path, tmp_path: Path, name: str) -> None:
    """`bytes.fromhex` takes both."""
    shutil.copytree(contest, tmp_path / "spring")
    content = (tmp_path / "spring" / name).read_bytes()
    start = content.index(b'"signature":"') + len(b'"signature":"')
    letter = next(at for at in range(start, len(content)) if content[at : at + 1].isalpha())
    for changed in (
        content[:letter] + content[letter : letter + 1].upper() + content[letter + 1 :],
        content[: start + 2] + b" " + content[start + 2 :],
    ):
        (tmp_path / "spring" / name).write_bytes(changed)
        assert problems(tmp_path / "spring")[0].startswith(name)


def test_what_lies_beside_the_contest_is_noted(contest: Path, tmp_path: Path) -> None:
    shutil.copytree(contest, tmp_path / "spring")
    (tmp_path / "spring" / "board2.html").write_text("eve has won")
    published, found = verify(tmp_path / "spring")
    assert (published is not None, found) == (True, [])
    assert published is not None
    assert warnings(published) == ["board2.html: it is no file of a contest, and nobody signed it"]


@pytest.mark.parametrize("name", [*FILES, *AFTER])
def test_a_file_that_is_gone_is_named(contest: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(contest, tmp_path / "spring")
    (tmp_path / "spring" / name).unlink()
    assert problems(tmp_path / "spring")[0].startswith(name)


def test_a_file_that_the_log_does_not_know_is_named(contest: Path, tmp_path: Path) -> None:
    shutil.copytree(contest, tmp_path / "spring")
    for folder in ("receipts", "entries", "reports"):
        (tmp_path / "spring" / folder / "000009.json").write_text("{}")
    assert [line.partition(":")[0] for line in problems(tmp_path / "spring")] == [
        "receipts/000009.json",
        "entries/000009.json",
        "reports/000009.json",
    ]


def rewritten(contest: Path, place: Path, change: Any) -> None:
    """What an organiser could do who has the key: change the log's lines and sign everything again."""
    shutil.copytree(contest, place)
    key = Key(read_secret(contest.with_name(f"{contest.name}.private") / "key"))
    old, _ = read_lines((contest / LOG).read_bytes())
    lines: list[dict[str, Any]] = []
    for line in old:
        body = {name: value for name, value in line.items() if name not in ("n", "before", "sha256")}
        change(body)
        lines.append(line_of(len(lines), lines[-1]["sha256"] if lines else "0" * 64, body))
    (place / LOG).write_bytes(b"".join(canonical(line) + b"\n" for line in lines))
    last = {"n": lines[-1]["n"], "sha256": lines[-1]["sha256"], "contest": "whitebox"}
    (place / HEAD).write_bytes(key.signed(last))
    files = {name: sha256((place / name).read_bytes()) for name in BOARD}
    (place / SIGNED).write_bytes(key.signed({**last, "kind": "board", "files": files}))


def test_an_organiser_who_signs_another_score_is_found_out_by_the_report(contest: Path, tmp_path: Path) -> None:
    def better(line: dict[str, Any]) -> None:
        if line["kind"] == "scored" and line["entry"] == "000002":
            line["runs"][0]["score"] = 1e-9

    rewritten(contest, tmp_path / "spring", better)
    found = problems(tmp_path / "spring")
    assert "board.json: it is signed, but it does not follow from the log" in found
    assert "reports/000002-0.json: the log says something else about its score" in found


def test_an_organiser_who_refuses_against_the_rules_is_found_out(contest: Path, tmp_path: Path) -> None:
    def unfair(line: dict[str, Any]) -> None:
        if line["kind"] == "received" and line["entry"] == "000002":
            line["refused"] = "late: I don't like it"

    rewritten(contest, tmp_path / "spring", unfair)
    found = problems(tmp_path / "spring")
    assert any("entry 000002 was refused" in line and "the rules say taken" in line for line in found)


def test_another_secret_than_the_one_committed_to_is_found_out(contest: Path, tmp_path: Path) -> None:
    def another(line: dict[str, Any]) -> None:
        if line["kind"] == "closed":
            line["secret"] = "00" * 32

    rewritten(contest, tmp_path / "spring", another)
    found = problems(tmp_path / "spring")
    assert any("the revealed secret is not the one committed to" in line for line in found)
    assert any("its data were not drawn from the secret seed" in line for line in found)


def test_a_manifest_that_names_a_strangers_class_is_refused(contest: Path, tmp_path: Path) -> None:
    shutil.copytree(contest, tmp_path / "spring")
    manifest = json.loads((contest / MANIFEST).read_text())
    manifest["rules"]["leaderboard"]["_target_"] = "os.system"
    content = canonical(manifest) + b"\n"

    def named(line: dict[str, Any]) -> None:
        if line["kind"] == "opened":
            line["manifest"] = sha256(content)

    shutil.rmtree(tmp_path / "spring")
    rewritten(contest, tmp_path / "spring", named)
    (tmp_path / "spring" / MANIFEST).write_bytes(content)
    found = problems(tmp_path / "spring")
    assert any("leaderboard._target_=os.system" in line for line in found)


def test_a_row_is_run_again_and_comes_out_the_same(contest: Path) -> None:
    published, _ = open_published(contest)
    assert published is not None
    (again,) = run_again(published, "1", whest.compose("job=verify"))
    assert (again.run, again.verdict) == ("000001-0", "same")
    assert [line["entry"] for line in chosen(published, "bob")] == ["000002"]
    with pytest.raises(ConfigError, match="rerun=eve"):
        chosen(published, "eve")


def test_a_rerun_before_the_closing_is_refused(contest: Path) -> None:
    published, _ = open_published(contest.with_name("open"))
    assert published is not None
    with pytest.raises(ConfigError, match="revealed when the contest is closed"):
        next(run_again(published, "all", whest.compose("job=verify")))


def test_figures_that_differ_are_told(contest: Path) -> None:
    before = json.loads((contest / "reports" / "000001-0.json").read_text())
    after = json.loads(json.dumps(before))
    assert compared("x", before, after).verdict == "same"
    after["results"]["per_mlp"][0]["final_layer_mse"] *= 1 + 1e-7
    assert compared("x", before, after).verdict == "near"
    after["results"]["per_mlp"][0]["final_layer_mse"] *= 1.01
    assert compared("x", before, after).verdict == "differs"
    after = json.loads(json.dumps(before))
    after["results"]["per_mlp"][1]["flops_used"] += 1
    assert "flops_used" in compared("x", before, after).words


def test_after_the_closing_nothing_is_taken(contest: Path, tmp_path: Path) -> None:
    place = copied(contest, tmp_path / "spring")
    put(tmp_path / "inbox", "ada/two.whest", b"late", 9)
    with pytest.raises(ConfigError, match="the contest is closed"):
        organise(f"output={place}", f"inbox={tmp_path / 'inbox'}", folder=tmp_path)


def test_a_verdict_is_told_as_it_is_recorded(contest: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = copied(contest, tmp_path / "spring")
    words = ["host.do=judge", "host.entry=1", "host.verdict=reviewed", "host.solution=means"]
    organise(f"output={place}", *words, folder=tmp_path)
    said = "judged   entry 000001 is reviewed: its solution was reviewed; solution: means (line 8 of the log)"
    assert said in capsys.readouterr().out
    assert json.loads((place / LOG).read_text().splitlines()[7])["verdict"] == "reviewed"


def test_verify_on_the_command_line(whest: Any, contest: Path, tmp_path: Path) -> None:
    good = whest("job=verify", f"board={contest}")
    assert good.exit_code == 0, good.err
    assert "verified whitebox: closed" in good.out
    shutil.copytree(contest, tmp_path / "bad")
    flipped(tmp_path / "bad" / "board.csv", 5)
    bad = whest("job=verify", f"board={tmp_path / 'bad'}")
    assert bad.exit_code == 1
    assert "board.csv: it is not the file that was signed" in bad.err
    assert whest("job=verify").exit_code == 2
    for place in ("nowhere", "nowhere/at/all", str(tmp_path)):
        ended = whest("job=verify", f"board={place}")
        assert (ended.exit_code, f"board={place} is no contest" in ended.err) == (2, True), ended.err
        assert "name the folder that job=host published, job=verify board=DIR" in ended.err
    assert whest("job=verify", f"board={contest}", "verify.key=short").exit_code == 2
