"""A run's page: the score, the task's own parts, and the command that repeats the run."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from whest.document import CONFIG, REPORT, Json, n_failed
from whest.files import SWEEP_PAGE, SWEEP_STATE
from whest.notation import plus_minus
from whest.page.blocks import Block, Cell, Code, Fact, Facts, Headline, Page, Section, Text


@dataclass(frozen=True)
class PageParts:
    """The task's own parts of a run's page. All pages also have the run's command and its config."""

    title: str
    subtitle: str
    notices: Sequence[Block] = ()
    note: str = ""
    """The line below the score."""
    facts: Sequence[Fact] = ()
    gauges: Sequence[Block] = ()
    sections: Mapping[str, Sequence[Block]] = field(default_factory=dict)
    provenance: Mapping[str, str] = field(default_factory=dict)
    files: Sequence[str] = ()
    """The task's own files beside the page; the page links to those that exist."""


def run_page(document: Json, parts: PageParts, folder: Path | None = None) -> Page:
    """The page of a run: the task's parts and the parts that all pages have. `folder` has the run's files."""
    sections = {
        **parts.sections,
        "Reproduce": _reproduction_blocks(document, parts.provenance),
        "Files": _file_blocks(parts.files, folder) if folder else [],
        "Config": _config_blocks(document, composed_config(folder) if folder else None),
    }
    name, notes = document["run_config"].get("name"), document["run_config"].get("notes")
    return Page(
        title=f"{name}: {parts.title}" if name else parts.title,
        subtitle=parts.subtitle,
        blocks=[
            *parts.notices,
            *([Text(notes)] if notes else []),
            *_ledger(document["run_config"]),
            _headline(document, parts),
            *parts.gauges,
            *(Section(name, blocks) for name, blocks in sections.items() if blocks),
        ],
    )


def _ledger(config: Json) -> list[Block]:
    """What the run was to show, and what was decided on it."""
    given = [(name, config[name]) for name in ("hypothesis", "decision") if config.get(name)]
    return [Facts(given)] if given else []


def composed_config(folder: Path) -> str | None:
    """The composed config in a run's folder, if there is one."""
    config = folder / CONFIG
    return config.read_text(encoding="utf-8") if config.exists() else None


def _file_blocks(own: Sequence[str], folder: Path) -> list[Block]:
    """Links to the run's files that exist, and to the sweep that it belongs to. All paths are relative."""
    wanted = {
        "report": REPORT,
        "composed config": CONFIG,
        **{Path(name).stem: name for name in own},
        **({"sweep": f"../{SWEEP_PAGE}"} if (folder.parent / SWEEP_STATE).exists() else {}),
    }
    found = {name: path for name, path in wanted.items() if path.startswith("../") or (folder / path).exists()}
    return [Facts([(name, Cell(path, href=path)) for name, path in found.items()])] if found else []


def _headline(document: Json, parts: PageParts) -> Headline:
    results = document["results"]
    if results["score"] is None:
        return Headline("score", "none", parts.note, "bad")
    error = results.get("score_se", results.get("adjusted_final_layer_score_se"))
    return Headline(
        label=f"score, {results['direction']} is better",
        value=plus_minus(results["score"], error),
        note=parts.note,
        tone="bad" if n_failed(results) else "plain",
        facts=list(parts.facts),
    )


def _reproduction_blocks(document: Json, provenance: Mapping[str, str]) -> list[Block]:
    meta = document["run_meta"]
    version = meta["code_version"] or ""
    at = f"git checkout {version}\n" if version and not version.endswith("-dirty") else ""
    return [
        Code(f"{at}{meta['command']}{_drawn_seed(document)}", "The command."),
        Facts(list(_provenance(document, provenance))),
        Text("Scores are comparable if the protocol is the same."),
    ]


def _drawn_seed(document: Json) -> str:
    """If no seed was given, one was drawn: append it so that the command reproduces the run."""
    config, command = document["run_config"], document["run_meta"]["command"]
    is_drawn = config["dataset"]["name"] == "fresh" and config["seed"] is None and "dataset.seed=" not in command
    return f" seed={config['dataset']['seed']}" if is_drawn else ""


def _provenance(document: Json, own: Mapping[str, str]) -> list[tuple[str, str | Cell]]:
    meta, config = document["run_meta"], document["run_config"]
    host = meta["host"]
    rows = {
        "protocol": meta["protocol_hash"],
        "whest": meta["whest_version"],
        "code": meta["code_version"] or "installed package",
        "estimator": config["estimator"]["target"] or config["estimator"]["path"],
        "estimator's source": (config["estimator"]["source_sha256"] or "")[:16],
        "participant": config["participant"],
        **{f"tag {name}": value for name, value in config.get("tags", {}).items()},
        "dataset": f"{config['dataset']['name']} {config['dataset']['sha256'][:16]}",
        **own,
        "protection": _protection(config.get("isolation", {})),
        "JAX, jaxlib, NumPy": f"{host['jax_version']}, {host.get('jaxlib_version')}, {host['numpy_version']}",
        "Python": host["python_version"],
        "machine": f"{host['cpu_brand'] or host['machine']}, {host['cpu_count_logical']} cores, {host['device']}",
        "duration": f"{meta['run_duration_s']:.3g} s",
        "finished": meta["run_finished_at_utc"][:19].replace("T", " ") + " UTC",
        "status": meta["status"],
    }
    return [(name, str(value)) for name, value in rows.items() if value]


def _protection(isolation: Json) -> str:
    """The status, with the mechanisms behind it."""
    in_force = [f"{name} by {how}" for name, how in isolation.get("protections", {}).items() if how]
    status = str(isolation.get("status", ""))
    return f"{status}: {', '.join(in_force)}" if in_force and status else status


def _config_blocks(document: Json, config: str | None) -> list[Block]:
    composed = [Code(config, "Composed from conf/ and the command line", is_folded=True)] if config else []
    return [
        Code(_pretty(document["run_config"]), "In the report", is_folded=True),
        *composed,
        Code(_pretty(document["run_meta"]["protocol"]), "The protocol of the hash", is_folded=True),
    ]


def _pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
