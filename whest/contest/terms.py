"""What a report must say because the contest's rules say it. Nothing of a score's formula is taken from the report."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from whest.config.build import build_group
from whest.contest.keys import Document
from whest.contest.rows import wrong_figure
from whest.contest.rules import contest_of, refuse_other_classes
from whest.files import SEALED
from whest.isolation.protections import status_of
from whest.metering.lists import DEFAULT, list_meter
from whest.sealed.sealed import read_sealed

GENERATED = "whest.tasks.prequential.text.GeneratedText"
TRACED = "xla-traced"
"""The meter of whest's own prices."""
Pair = tuple[str, Any, Any]
"""A name, what the rules say, what the report says."""


def unkept_term(
    manifest: Mapping[str, Any], line: Mapping[str, Any], content: bytes, report: Mapping[str, Any]
) -> str | None:
    """The first thing in which a report differs from the rules or from its entry, in words. `content` is its file."""
    pairs = (*_entry(line, report), *_rules(manifest, report))
    if manifest["rules"]["task"]["name"] == "exam":
        pairs = (*pairs, ("recipe", _recipe(manifest["rules"], line, content), report["run_config"]["recipe"]))
    for name, expected, found in pairs:
        if found != expected:
            return f"its {name} is {str(found)[:100]}, the contest says {str(expected)[:100]}"
    return wrong_figure(report, _limits(manifest["rules"]))


def _entry(line: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[Pair]:
    """A report belongs to one file of one participant."""
    config = report["run_config"]
    yield "participant", line["participant"], config["participant"]
    yield "estimator.name", line["estimator"], config["estimator"]["name"]
    yield "estimator.source_sha256", line["file_sha256"], config["estimator"]["source_sha256"]
    yield "estimator.knobs", ({}, None), (config["estimator"]["knobs"], config["estimator"]["target"])
    yield "status", "finished", report["run_meta"]["status"]


def _recipe(rules: Mapping[str, Any], line: Mapping[str, Any], content: bytes) -> Document:
    """A sealed learner has its own; a file of Python has that of the rules."""
    if not line["file"].endswith(SEALED):
        return dict(rules["task"]["recipe"])
    budget, entries = int(float(rules["budget"])), read_sealed(content).header.entries
    fitting = [each.recipe for each in entries if (each.purpose.task, each.purpose.budget) == ("exam", budget)]
    return dict(fitting[0] or {})


def _rules(manifest: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[Pair]:
    rules, config, protocol = manifest["rules"], report["run_config"], report["run_meta"]["protocol"]
    task, rule, limits = rules["task"]["name"], _rule(rules), _limits(rules)
    yield "task", (task, task), (config["task"], protocol["task"]["name"])
    yield "scoring", rule, config["scoring"]
    yield "protocol.scoring", rule, protocol["scoring"]
    yield "flop_budget", limits["budget"], config["flop_budget"]
    yield "lambda_flops_per_second", limits["lam"], config["lambda_flops_per_second"]
    yield "wall_time_limit_s", limits["wall_time_limit_s"], config["wall_time_limit_s"]
    yield "residual_wall_time_limit_s", limits["residual_wall_time_limit_s"], config["residual_wall_time_limit_s"]
    yield "protocol.limits", limits, protocol["limits"]
    yield "mode", ("traced", "traced"), (config["estimator"]["mode"], protocol["mode"])
    yield "protocol.require", sorted(rules["isolation"]["require"]), protocol["require"]
    yield "protocol.meter", _meter(manifest), {name: protocol["meter"].get(name) for name in ("name", "version")}
    yield "round", rules["round"]["name"], config["round"]
    timeout = rules["setup_timeout_s"]
    yield "setup_timeout_s", None if timeout is None else float(timeout), config["setup_timeout_s"]
    yield "memory_limit_mb", float(rules["contest"]["memory_limit_mb"]), config["memory_limit_mb"]
    yield from _walls(rules, config["isolation"])
    own = {"whitebox": _whitebox, "prequential": _prequential, "exam": _exam}
    yield from own[task](manifest, report)


def _whitebox(manifest: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[Pair]:
    rules, config, rows = manifest["rules"], report["run_config"], report["results"]["per_mlp"]
    n_mlps, dataset, truth = contest_of(manifest).n_mlps, rules["dataset"], report["run_meta"]["protocol"]["truth"]
    yield "n_mlps", (n_mlps, n_mlps), (config["n_mlps"], config["dataset"]["n_mlps"])
    yield "number of rows", n_mlps, len(rows)
    yield "MLPs' numbers", list(range(len(rows))), [row["mlp_index"] for row in rows]
    yield "shape", (int(dataset["width"]), int(dataset["depth"])), (config["width"], config["depth"])
    yield "protocol.dataset", config["dataset"]["sha256"], report["run_meta"]["protocol"]["dataset"]
    yield "dataset.name", ("fresh", None), (config["dataset"]["name"], config["dataset"]["path"])
    version = str(dataset["seed_protocol"])
    yield "seed_protocol", version, str(config["dataset"]["seed_protocol"]["version"])
    yield "truth", {**truth, "resample": bool(rules["truth"]["resample"])}, config["truth"]
    for name in ("n_samples", "standard_error"):
        if rules["truth"].get(name) is not None:
            yield f"truth.{name}", float(rules["truth"][name]), truth[name]
    # a traced program has no residual time, so that λ can't raise anybody's cost
    yield "residual_wall_time_s", [0] * len(rows), [row["residual_wall_time_s"] for row in rows]


def _prequential(manifest: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[Pair]:
    rules, config, protocol = manifest["rules"], report["run_config"], report["run_meta"]["protocol"]
    length = int(rules["task"]["row_length"])
    yield "row_length", (length, length), (config["row_length"], protocol["row_length"])
    yield "protocol.seed", config["seed"], protocol["seed"]
    yield "random_updates", float(rules["task"]["random_updates"]), config["random_updates"]
    yield "protocol.dataset", config["dataset"]["sha256"], protocol["dataset"]
    yield "is_reference", False, config["is_reference"]
    if rules["data"]["_target_"] == GENERATED:
        yield "dataset.name", "generated", config["dataset"]["name"]


def _exam(manifest: Mapping[str, Any], report: Mapping[str, Any]) -> Iterator[Pair]:
    """An exam of the organiser's own is known by its sha256; without one it is the demo of the secret seed."""
    rules, config, protocol = manifest["rules"], report["run_config"], report["run_meta"]["protocol"]
    task, data = rules["task"], config["dataset"]
    yield "is_demo", rules["data"]["exam"] is None, data["is_demo"]
    own = f"demo exam, seed {data['seed']}" if data["is_demo"] else f"exam {protocol['data']['exam'][:12]}"
    yield "dataset.name", own, data["name"]
    for name in ("exam", "text", "validation"):
        given = rules["data"].get(name)
        yield f"protocol.data.{name}", data[f"{name}_sha256"] if given is None else given, protocol["data"][name]
    yield "budget_by", task["budget_by"], config["budget_by"]
    yield "protocol.grading", int(task["bundle_limit_bytes"]), protocol["grading"]["bundle_limit_bytes"]
    yield "random_updates", float(task["random_updates"]), config["random_updates"]
    if rules["data"]["exam"] is None:
        yield "n_questions", int(rules["data"]["n_questions"]), config["n_questions"]


def _meter(manifest: Mapping[str, Any]) -> Document:
    """The price list of the rules, by the meter's version at the opening."""
    prices = manifest["rules"]["meter"]
    if prices == DEFAULT:
        return {"name": TRACED, "version": manifest["versions"]["meter"]}
    return {name: list_meter(prices)[name] for name in ("name", "version")}


def _walls(rules: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[Pair]:
    """An entry is a stranger's: its status follows from the walls that its worker is said to have had."""
    yield "isolation.require", list(rules["isolation"]["require"]), list(told["require"])
    yield "isolation.worker", True, told["worker"]
    yield "isolation.status", status_of(False, told["protections"]), told["status"]


def _rule(rules: Mapping[str, Any]) -> Document:
    refuse_other_classes(rules)
    rule = build_group(rules, "scoring")
    return {"name": rule.name, "version": rule.version, **asdict(rule)}


def _limits(rules: Mapping[str, Any]) -> Document:
    """An exam has no price of time."""
    is_exam = rules["task"]["name"] == "exam"
    names = ("wall_time_limit_s", "residual_wall_time_limit_s")
    given = {name: None if rules[name] is None else float(rules[name]) for name in names}
    own = {"residual_wall_time_limit_s": None} if is_exam else {}
    return {"budget": float(rules["budget"]), "lam": 0.0 if is_exam else float(rules["lam"])} | given | own
