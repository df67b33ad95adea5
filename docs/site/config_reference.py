"""The config reference: every key of `conf/` with its default and its comment, every group and choice."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

FIRST = ("round", "task", "dataset", "truth", "data", "estimator", "isolation", "scoring", "tracking", "leaderboard")
"""Groups in the order of the defaults list; all others follow."""


@dataclass(frozen=True)
class Key:
    """One value of a config file."""

    name: str
    default: str
    comment: str


def read_keys(path: Path) -> list[Key]:
    """The keys of a file in its order, nested ones with dots. Hydra's own and the defaults list are left out."""
    text = path.read_text(encoding="utf-8")
    root = yaml.compose(text)
    if root is None:
        return []
    assert isinstance(root, yaml.MappingNode), path
    return list(_walk(root, "", text.splitlines()))


def _walk(node: yaml.MappingNode, prefix: str, lines: list[str]) -> Iterator[Key]:
    for key, value in node.value:
        if not prefix and key.value in ("defaults", "hydra"):
            continue
        name = f"{prefix}{key.value}"
        if isinstance(value, yaml.MappingNode) and value.value and not value.flow_style:
            yield from _walk(value, f"{name}.", lines)
        else:
            yield Key(name, _written(value, lines), _comment(value, lines))


def _written(value: yaml.Node, lines: list[str]) -> str:
    """A value as the file has it."""
    start, end = value.start_mark, value.end_mark
    if start.line == end.line:
        return lines[start.line][start.column : end.column].strip()
    return " ".join(line.strip() for line in lines[start.line : end.line + 1])


def _comment(value: yaml.Node, lines: list[str]) -> str:
    """What stands behind a value, with the comment lines under it that stand in the same column."""
    mark = value.end_mark
    found = re.match(r"\s*#\s?(.*)", lines[mark.line][mark.column :] if mark.line < len(lines) else "")
    if found is None:
        return ""
    column = lines[mark.line].index("#", mark.column)
    parts = [found[1]]
    for line in lines[mark.line + 1 :]:
        if line[:column].strip() or line[column : column + 1] != "#":
            break
        parts.append(line[column + 1 :])
    return " ".join(part.strip() for part in parts)


def read_heading(path: Path) -> list[str]:
    """The comment lines at the top of a file, without Hydra's `@package`."""
    lines: list[str] = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("# @package"):
            lines.append(line[1:])
    return lines


def groups_of(conf: Path) -> dict[str, list[Path]]:
    """The files of each group."""
    found: dict[str, list[Path]] = {}
    for path in sorted(conf.rglob("*.yaml")):
        if path.parent != conf:
            found.setdefault(path.parent.relative_to(conf).as_posix(), []).append(path)
    order = [group for group in FIRST if group in found]
    return {group: found[group] for group in [*order, *(group for group in found if group not in order)]}


def write_reference(conf: Path, jobs: dict[str, str]) -> str:
    """The page in Markdown."""
    main = conf / "config.yaml"
    chosen = read_defaults(main)
    lines = [
        "# Config reference",
        "",
        "Made from the files of `conf/`. Set a key with `key=value`, choose from a group with `group=choice`; "
        "`python -m whest --cfg job` shows the config that results.",
        "",
        "## Keys of every run",
        "",
        *_table(read_keys(main), ""),
        "",
        "## Jobs",
        "",
        "| job | it does |",
        "|---|---|",
        *(f"| `job={name}` | {_cell(summary)} |" for name, summary in jobs.items()),
        "",
    ]
    for group, paths in groups_of(conf).items():
        lines += [f"## Group {group}", ""]
        if group in chosen:
            lines += [f"The default is `{group}={chosen[group]}`.", ""]
        for path in paths:
            lines += _choice(group, path)
    return "\n".join(lines) + "\n"


def read_defaults(main: Path) -> dict[str, str]:
    """The choice of each group in the defaults list; `null` is none."""
    listed = yaml.safe_load(main.read_text(encoding="utf-8"))["defaults"]
    return {
        group: str(choice or "null") for entry in listed if isinstance(entry, dict) for group, choice in entry.items()
    }


def _choice(group: str, path: Path) -> list[str]:
    heading = read_heading(path)
    about = [line.strip() for line in heading if not line.startswith("   ")]
    examples = [line[1:] for line in heading if line.startswith("   ")]
    # A global package sets the top of the config; any other file sets its group.
    is_global = "@package _global_" in path.read_text(encoding="utf-8").partition("\n")[0]
    keys = read_keys(path)
    lines = [f"### {group}={path.stem}", "", *about, ""]
    if examples:
        lines += ["```", *(line.strip() for line in examples), "```", ""]
    return [*lines, *_table(keys, "" if is_global else f"{group.replace('/', '.')}."), ""] if keys else lines


def _table(keys: list[Key], prefix: str) -> list[str]:
    rows = [f"| `{prefix}{key.name}` | {_code(key.default)} | {_cell(key.comment)} |" for key in keys]
    return ["| key | default | meaning |", "|---|---|---|", *rows]


def _code(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
