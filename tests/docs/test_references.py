"""The references of the site: every key of conf/ and every field of the schema; and messages that still exist."""

import ast
import json
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import yaml

from tests.support.places import ROOT

sys.path.insert(0, str(ROOT / "docs" / "site"))
import config_reference
import report_reference

CONF = ROOT / "conf"
TROUBLES = (ROOT / "docs" / "troubleshooting.md").read_text()


def flat(value: object, prefix: str = "") -> set[str]:
    if not isinstance(value, dict) or not value:
        return {prefix[:-1]}
    return {name for key, inner in value.items() for name in flat(inner, f"{prefix}{key}.")}


@pytest.mark.parametrize("path", sorted(CONF.rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_key_of_a_config_is_read(path: Path) -> None:
    content = yaml.safe_load(path.read_text()) or {}
    expected = {
        name for key, value in content.items() if key not in ("defaults", "hydra") for name in flat(value, f"{key}.")
    }
    found = [key.name for key in config_reference.read_keys(path)]
    shallow = {name for name in expected if name in found or any(name.startswith(f"{key}.") for key in found)}
    assert shallow == expected
    assert len(set(found)) == len(found)


def test_a_key_has_its_comment_and_its_default() -> None:
    keys = {key.name: key for key in config_reference.read_keys(CONF / "config.yaml")}
    assert keys["device"] == config_reference.Key("device", "auto", "auto, cpu, gpu")
    assert keys["job"].comment.startswith("score, compare, ")
    assert keys["job"].comment.endswith("doctor")  # the second line of the comment
    assert keys["compare.resamples"].default == "10000"


def test_every_key_of_every_run_is_explained() -> None:
    keys = config_reference.read_keys(CONF / "config.yaml")
    plain = {
        "bake.split",
        "compare.confidence",
        "compare.bootstrap_seed",
        "estimator.name",
        "runs.round",
        "plot.height_in",
    }
    assert {key.name for key in keys if not key.comment} <= plain


def test_the_reference_has_every_choice() -> None:
    page = config_reference.write_reference(CONF, {"score": "score | an estimator"})
    for path in CONF.rglob("*/*.yaml"):
        assert f"### {path.parent.relative_to(CONF).as_posix()}={path.stem}\n" in page
    assert "| `estimator.budget_fraction` | `1.0` | share of the budget to spend |" in page
    assert "| `job=score` | score \\| an estimator |" in page


def test_the_reference_has_every_field_of_the_report() -> None:
    schema = json.loads((ROOT / "docs" / "report.schema.json").read_text())
    page = report_reference.write_reference(schema)
    for name, definition in schema["$defs"].items():
        (section,) = re.findall(rf"^## {name}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
        for field, value in definition.get("properties", {}).items():
            assert f"| `{field}` |" in section
            assert value.get("description", "").replace("|", "\\|") in section


@cache
def written_texts() -> list[str]:
    """Every text in whest's source; what an f-string fills in is `…`."""
    texts = []
    for path in sorted((ROOT / "whest").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                texts.append("".join(str(v.value) if isinstance(v, ast.Constant) else "…" for v in node.values))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(re.sub(r"%[sd]", "…", node.value))
    return texts


def quoted_messages(markdown: str) -> list[str]:
    return [
        line[4:].strip().removeprefix("`").removesuffix("`").strip("`").strip()
        for line in markdown.splitlines()
        if line[:4] == "### "
    ]


def is_written(message: str, texts: list[str]) -> bool:
    """Whether one text has the parts of a message between its … in their order."""
    parts = [re.escape(part.strip()) for part in message.split("…") if part.strip()]
    pattern = re.compile(".*?".join(parts), re.DOTALL)
    return any(pattern.search(text) for text in texts)


def test_every_message_of_the_troubleshooting_page_is_still_in_the_source() -> None:
    texts, messages = written_texts(), quoted_messages(TROUBLES)
    assert len(messages) > 25
    assert [message for message in messages if not is_written(message, texts)] == []


def test_a_message_that_is_gone_is_noticed() -> None:
    assert not is_written("estimator.path=…: no such shoe or folder", written_texts())


def test_the_table_of_few_mlps_is_what_its_command_prints() -> None:
    command = [sys.executable, "benchmarks/resolved.py"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert printed in (ROOT / "docs" / "statistics.md").read_text()
