"""Mutated config folders: refused in words, or right; nothing outside `estimator` ever moves."""

import random
from pathlib import Path
from typing import Any

import pytest
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

import whest
from whest.config.sources import GuardedFiles
from whest.errors import ConfigError

REFUSALS = (ConfigError, HydraException, OmegaConfBaseException)
"""What the command line answers with exit code 2."""
LINES = [
    *(
        "_target_: estimators.zeros.Zeros",
        "path: ${beside:mine.py}",
        "share: 0.5",
        "rank: [1, 2]",
        "name: ${file_stem:}",
    ),
    *(
        "deep: {a: {b: [x, {c: 1}]}}",
        "budget: ${budget}",
        "mode: eager",
        "defaults: [zeros]",
        "text: 'a b'",
        "# a note",
    ),
]
TRICKS = [
    *(
        "# @package _global_",
        "${oc.env:HOME}",
        "_target_",
        "truth:",
        "hydra:",
        "&a",
        "*a",
        "<<:",
        "!!python/name:os.system",
    ),
    *(
        "- override /truth: plain",
        "${",
        "}",
        "\\",
        '"',
        "'",
        "[",
        "]",
        "{",
        "}",
        ":",
        "?",
        "|",
        ">",
        "\t",
        "\0",
        "\n",
        "---",
    ),
    *(
        "@_global_",
        "/truth",
        "oc.decode:",
        "hydra:runtime",
        "../",
        "???",
        "~",
        "%YAML 1.1",
        "\u2028",
        "\ud7ff",
        "1e999",
    ),
]


def mutated(chance: random.Random) -> bytes:
    lines = chance.sample(LINES, chance.randint(1, 6))
    text = "\n".join(lines) + "\n"
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(text) + 1)
        kind = chance.randrange(4)
        if kind == 0:
            text = text[:place] + chance.choice(TRICKS) + text[place:]
        elif kind == 1:
            text = chance.choice(TRICKS) + "\n" + text
        elif kind == 2:
            text = text[:place] + text[place + chance.randint(1, 5) :]
        else:
            text = text[:place] + text[max(0, place - 10) :]
    content = text.encode()
    place = chance.randrange(len(content) + 1)
    return content[:place] + bytes([chance.randrange(256)]) * (chance.random() < 0.1) + content[place:]


def outside(config: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in config.items() if key not in ("estimator", "participant")}


@pytest.mark.parametrize("seeds", [range(50), pytest.param(range(50, 500), marks=pytest.mark.slow)])
def test_mutated_configs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeds: range) -> None:
    monkeypatch.setenv("HOME", "/home/s3cret")
    (tmp_path / "estimator").mkdir()
    (tmp_path / "mine.py").write_text("")
    expected = outside(whest.compose("estimator=zeros"))
    found = []
    for seed in seeds:
        (tmp_path / "estimator" / "mine.yaml").write_bytes(mutated(random.Random(seed)))
        try:
            GuardedFiles("command-line", f"file://{tmp_path}").load_config("estimator/mine")
            config = whest.compose("estimator=mine", config_dir=tmp_path)
        except REFUSALS:
            found.append("refused")
            continue
        assert outside(config) == expected, f"seed {seed}"
        assert "s3cret" not in str(config["estimator"]), f"seed {seed}"
        found.append("right")
    assert {"refused", "right"} <= set(found)
