"""A contest's folder is a stranger's data; and a private folder is of one contest alone."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.contests import RULES, copied, organise
from tests.support.forgeries import Json, closed_contest, forged, problems
from whest.contest.keys import Key, canonical, read_secret
from whest.contest.log import line_of, read_lines
from whest.contest.scoring import Scorer
from whest.contest.storage import HEAD, LOG, MANIFEST, place_of
from whest.errors import ConfigError
from whest.notation import plus_minus


@pytest.fixture(scope="module")
def contest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return closed_contest(tmp_path_factory.mktemp("forged"))


def unreadable_data(manifest: Json) -> None:
    manifest["rules"]["contest"]["n_mlps"] = None
    manifest["rules"]["dataset"] = {"_target_": "whest.dataset.stored.FileDataset", "path": "/etc", "n_mlps": None}


def file_of_mlps(manifest: Json) -> None:
    manifest["rules"]["dataset"] |= {"_target_": "whest.dataset.stored.FileDataset", "path": "/etc"}


def no_key(manifest: Json) -> None:
    manifest["public_key"] = "no hex"


def key_of_lists(manifest: Json) -> None:
    manifest["public_key"] = []


@pytest.mark.parametrize("change", [unreadable_data, file_of_mlps, no_key, key_of_lists])
def test_a_manifest_of_a_stranger_is_named_and_opens_no_file(contest: Path, tmp_path: Path, change: Any) -> None:
    found = problems(forged(contest, tmp_path / "forged", rules=change))
    assert found
    if change in (unreadable_data, file_of_mlps):
        assert any("contest.n_mlps=None" in line or "dataset=fresh" in line for line in found)


@pytest.mark.parametrize(
    ("name", "value"), [("entry", []), ("entry", {}), ("received_at", "0001-01-01T00:00:00+23:59"), ("file", None)]
)
def test_a_malformed_line_is_a_problem_and_no_crash(contest: Path, tmp_path: Path, name: str, value: Any) -> None:
    place = shutil.copytree(contest, tmp_path / "forged")
    lines = read_lines((place / LOG).read_bytes())[0]
    body = {key: each for key, each in lines[1].items() if key not in ("n", "before", "sha256")}
    lines[1] = line_of(1, lines[0]["sha256"], {**body, name: value})
    for n in range(2, len(lines)):
        body = {key: each for key, each in lines[n].items() if key not in ("n", "before", "sha256")}
        lines[n] = line_of(n, lines[n - 1]["sha256"], body)
    (place / LOG).write_bytes(b"".join(canonical(line) + b"\n" for line in lines))
    assert any(line.startswith((LOG, "receipts")) for line in problems(place))


def test_the_smallest_score_can_be_shown() -> None:
    assert plus_minus(5e-324, 1e-3) == "4.94e-324 ± 0.001"
    assert plus_minus(3.69e-6, 2.1e-7) == "3.69e-06 ± 0.21e-06"


def test_a_used_private_folder_opens_no_other_contest(contest: Path, tmp_path: Path) -> None:
    place = copied(contest, tmp_path / "spring")
    words = [*RULES, f"output={tmp_path / 'autumn'}", f"host.private={place.with_name('spring.private')}"]
    with pytest.raises(ConfigError, match="its secret may be known"):
        organise(*words, folder=tmp_path)
    assert not (tmp_path / "autumn").exists()


@pytest.mark.parametrize("name", ["secret", "key"])
def test_a_lost_secret_is_never_drawn_anew(contest: Path, tmp_path: Path, name: str) -> None:
    place = copied(contest, tmp_path / "spring")
    lost = place.with_name("spring.private") / name
    lost.unlink()
    with pytest.raises(ConfigError, match="is missing, and the contest is open"):
        organise(f"output={place}", folder=tmp_path)
    assert not lost.exists()


def test_a_published_folder_from_a_backup_is_refused(contest: Path, tmp_path: Path) -> None:
    place = copied(contest, tmp_path / "spring")
    key = Key(read_secret(place.with_name("spring.private") / "key"))
    first = (place / LOG).read_bytes().splitlines(keepends=True)[:2]
    (place / LOG).write_bytes(b"".join(first))
    line = json.loads(first[-1])
    (place / HEAD).write_bytes(key.signed({"n": 1, "sha256": line["sha256"], "contest": "whitebox"}))
    with pytest.raises(ConfigError, match="bring the last published folder back"):
        organise(f"output={place}", folder=tmp_path)


def test_a_run_belongs_to_its_file_and_its_contest(contest: Path) -> None:
    private = contest.with_name("spring.private")
    manifest = json.loads((contest / MANIFEST).read_text())
    line = read_lines((contest / LOG).read_bytes())[0][1]
    place, secret = place_of(contest, None), read_secret(private / "secret")
    assert Scorer(place, manifest, {}, secret).has_ended(line, 0)
    assert not Scorer(place, manifest, {}, secret).has_ended({**line, "file_sha256": "00" * 32}, 0)
    assert not Scorer(place, {**manifest, "commitment": "00" * 32}, {}, secret).has_ended(line, 0)
