"""`report.json` as data: its types, and its rows, metrics and hashes for all who write or read one.

`make schema` writes docs/report.schema.json from the types.
"""

import hashlib
import json
import math
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, lru_cache
from json.encoder import encode_basestring_ascii as _quoted
from typing import Annotated, Any, Literal, NotRequired

from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema
from typing_extensions import TypedDict  # before Python 3.12 pydantic refuses that of typing

from whest.results import ExamResults, ImportedResults, PrequentialResults, WhiteboxResults
from whest.schema import (
    AriRuleJson,
    ExamConfig,
    FhermaRuleJson,
    Figure,
    ImportedConfig,
    PrequentialConfig,
    PrismRuleJson,
    WhestRuleJson,
    WhiteboxConfig,
    says,
)

Json = dict[str, Any]
"""A report that was read from a file: its keys are not known to be there."""


class HostJson(TypedDict):
    """The machine. None stands for what could not be found out."""

    hostname: Annotated[str, says("The machine's name.")]
    os: Annotated[str, says("The operating system.")]
    platform: Annotated[str, says("The operating system with its version.")]
    machine: Annotated[str, says("The kind of processor.")]
    python_version: Annotated[str, says("The version of Python.")]
    cpu_brand: Annotated[str | None, says("The processor's name.")]
    cpu_features: NotRequired[
        Annotated[str | None, says("Its vector instructions, such as avx2; rounding depends on them.")]
    ]
    xla_flags: NotRequired[Annotated[str | None, says("The variable XLA_FLAGS, if it was set.")]]
    cpu_count_logical: Annotated[int | None, says("Logical processors.")]
    cpu_count_physical: Annotated[int | None, says("Physical processors.")]
    ram_total_bytes: Annotated[int, says("Memory in bytes.")]
    numpy_version: Annotated[str | None, says("The version of NumPy.")]
    jax_version: Annotated[str | None, says("The version of JAX.")]
    jaxlib_version: Annotated[str | None, says("The version of jaxlib.")]
    backend: Annotated[str, says("JAX's backend: cpu, gpu or tpu.")]
    device: Annotated[str, says("JAX's name of the device.")]


class NamedJson(TypedDict):
    """A task with its version."""

    name: Annotated[str, says("Its name.")]
    version: Annotated[int, says("Its version.")]


class LimitsJson(TypedDict):
    """What a case may spend. None is no limit."""

    budget: Annotated[float, says("FLOPs.")]
    lam: Annotated[float, says("λ: what a second of residual time costs, in FLOPs.")]
    wall_time_limit_s: Annotated[Figure, says("Seconds.")]
    residual_wall_time_limit_s: Annotated[Figure, says("Seconds of residual time.")]


class ProtocolJson(TypedDict):
    """What two runs must share for their scores to be comparable."""

    task: Annotated[NamedJson, says("The task.")]
    meter: Annotated[dict[str, Any], says("What counts FLOPs, with its version.")]
    scoring: Annotated[WhestRuleJson | FhermaRuleJson | PrismRuleJson | AriRuleJson, says("The rule.")]
    limits: Annotated[LimitsJson, says("What a case may spend.")]
    dataset: NotRequired[
        Annotated[str | dict[str, Any], says("The content of the dataset: its hash, or its identity.")]
    ]
    truth: NotRequired[Annotated[str | dict[str, Any], says("The sampler, or baked, or theirs. task=whitebox.")]]
    row_length: NotRequired[Annotated[int, says("Bytes per row. task=prequential.")]]
    seed: NotRequired[Annotated[int, says("The harness's seed. task=prequential.")]]
    data: NotRequired[Annotated[dict[str, str], says("The hashes of text, validation set and exam. task=exam.")]]
    grading: NotRequired[Annotated[dict[str, Any], says("How answers are graded. task=exam.")]]
    budget_by: NotRequired[Annotated[str | dict[str, float], says("flops, or a budget in seconds. task=exam.")]]
    mode: NotRequired[Annotated[str, says("traced, eager or flopscope. Absent in imported reports.")]]
    require: NotRequired[Annotated[list[str], says("The protections that a stranger's code must have.")]]
    imported: NotRequired[Annotated[str, says("Whose report it was. Only if it was imported.")]]


class MetaJson(TypedDict):
    """When and by which code."""

    run_started_at_utc: Annotated[str, says("When it started, in ISO 8601.")]
    run_finished_at_utc: Annotated[str, says("When it finished, in ISO 8601.")]
    run_duration_s: Annotated[float, says("How long it took, in seconds.")]
    status: Annotated[Literal["finished", "interrupted"], says("interrupted: the report has the finished cases.")]
    whest_version: Annotated[str, says("The version of whest.")]
    code_version: Annotated[str | None, says("The commit of the checkout. None for an installed package.")]
    command: Annotated[str, says("The command that repeats the run.")]
    protocol_hash: Annotated[str, says("Equal hashes: the scores are comparable.")]
    protocol: Annotated[ProtocolJson, says("What the hash covers.")]


class RunMetaJson(MetaJson):
    """When, where and by which code."""

    host: Annotated[HostJson, says("The machine.")]


class ImportedMetaJson(MetaJson):
    """When, and where as far as the imported report tells."""

    host: Annotated[dict[str, Any], says("The machine, as the report states it.")]


ImportedJson = TypedDict(
    "ImportedJson",
    {
        "from": Annotated[str, says("The original's file name.")],  # no name that a class may have
        "sha256": Annotated[str, says("The hash of the original.")],
        "schema_version": Annotated[str, says("The original's own schema version.")],
        "whestbench_version": Annotated[str | None, says("The version of WhestBench.")],
        "problems": Annotated[list[str], says("Where its figures disagree with its rows.")],
    },
)


class VersionedJson(TypedDict):
    """What every report has."""

    schema_version: Annotated[Literal["2.0"], says("The version of this schema.")]


class ScoredJson(VersionedJson):
    """What the report of every run has."""

    mode: Annotated[Literal["score"], says("A run of whest.")]
    run_meta: Annotated[RunMetaJson, says("When, where and by which code.")]


class WhiteboxDocument(ScoredJson):
    """A report of task=whitebox."""

    run_config: Annotated[WhiteboxConfig, says("What was run.")]
    results: Annotated[WhiteboxResults, says("What was measured.")]


class PrequentialDocument(ScoredJson):
    """A report of task=prequential."""

    run_config: Annotated[PrequentialConfig, says("What was run.")]
    results: Annotated[PrequentialResults, says("What was measured.")]


class ExamDocument(ScoredJson):
    """A report of task=exam."""

    run_config: Annotated[ExamConfig, says("What was run.")]
    results: Annotated[ExamResults, says("What was measured.")]


class ImportedDocument(VersionedJson):
    """A report of WhestBench, translated."""

    mode: Annotated[Literal["import"], says("A report that was imported.")]
    run_meta: Annotated[ImportedMetaJson, says("When, and where as far as the report tells.")]
    run_config: Annotated[ImportedConfig, says("What was run.")]
    results: Annotated[ImportedResults, says("What was measured.")]
    imported: Annotated[ImportedJson, says("Where it came from.")]


Document = WhiteboxDocument | PrequentialDocument | ExamDocument | ImportedDocument
"""`report.json` as whest writes it."""

REPORT, REPORT_SHA256 = "report.json", "report_sha256"
PAGE = "report.html"
CONFIG = "config.yaml"
GALLERY = "gallery.html"
SOURCE, PROVENANCE, CHANGES = "source", "provenance.json", "changes.diff"
MANIFEST = "prism_run_manifest.v2.json"
"""The copy of the estimator's source, the description of where it came from, and the changes of its repository."""

SORTED_BY = ("flop_budget", "lambda_flops_per_second", "width", "depth", "n_mlps")
"""Figures of the config that are metrics too, since MLflow can't compare params by size."""


def report_metrics(report: Mapping[str, Any]) -> dict[str, float]:
    """The metrics a report is logged with: every number of its suite, and those of its config that people sort by."""
    results, rows = report["results"], case_rows(report["results"])
    suite = {name: value for name, value in results.items() if _is_number(value) and name != "peak_memory_bytes"}
    failures = {f"failures/{name}": n for name, n in results.get("failure_breakdown", {}).items()}
    config = {name: report["run_config"][name] for name in SORTED_BY if name in report["run_config"]}
    spent = {"run_duration_s": report["run_meta"]["run_duration_s"]}
    if rows and "flops_used" in rows[0]:
        spent["wall_time_s"] = sum(row["wall_time_s"] for row in rows)
        spent["mean_flops_used"] = sum(row["flops_used"] for row in rows) / len(rows)
    return {name: float(value) for name, value in (suite | failures | config | spent).items()}


def task_name(report: Mapping[str, Any]) -> str:
    protocol = report.get("run_meta", {}).get("protocol", {})
    return str(protocol.get("task", {}).get("name", "whitebox"))


def case_rows(results: Mapping[str, Any]) -> list[Json]:
    """A report's rows, one a case: white-box reports call them by the reference's own name."""
    rows: list[Json] = results.get("per_mlp", results.get("per_case")) or []
    return rows


def case_key(row: Mapping[str, Any]) -> tuple[int, str]:
    """A case's place and name, by which runs are paired."""
    index, name = ("mlp_index", "mlp_name") if "mlp_name" in row else ("case_index", "case_name")
    return row[index], row[name]


def has_failed(row: Mapping[str, Any]) -> bool:
    """Whether a case was scored as failed: it has an error code, or one of its `…_exhausted` flags is true."""
    if row.get("error_code") is not None:
        return True
    if True not in row.values():
        return False
    return any(value is True and key.endswith("_exhausted") for key, value in row.items())


def case_score(results: Mapping[str, Any]) -> Json:
    """The figure of a row that shows its part in the score: its field, its label, what a case is, which way is better.

    Reports of old tell less of it.
    """
    told = results.get("case_score", {"field": "adjusted_final_layer_score", "label": "adjusted final-layer score"})
    direction = "higher" if told["field"] == "accuracy" else "lower"
    return {"unit": "MLP", "direction": direction, **told}


def front_of(results: Mapping[str, Any]) -> Json:
    """The run as a point of error against compute: measure, error, error_se, compute."""
    known = {
        "measure": "final-layer MSE",
        "error": results.get("final_layer_mse"),
        "error_se": results.get("final_layer_mse_se"),
        "compute": results.get("mean_effective_compute"),
    }
    return results.get("front", known)


def n_failed(results: Mapping[str, Any]) -> int:
    """How many cases failed."""
    return int(results.get("n_failed_mlps", results.get("n_failed_cases")) or 0)


def protocol_hash(protocol: Mapping[str, Any]) -> str:
    """Equal where two runs' scores are comparable."""
    return hashlib.sha256(json.dumps(protocol, sort_keys=True).encode()).hexdigest()[:16]


def milliseconds(moment: datetime) -> int:
    """A date in MLflow's terms."""
    return int(moment.timestamp() * 1000)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_PLAIN = frozenset({str, int, bool, type(None)})


def strict_json(value: Any) -> Any:
    """The same document in strict JSON's terms: what isn't finite becomes null. What was one object twice stays one."""
    return _strict(value, {})


def _strict(value: Any, known: dict[int, tuple[Any, Any]]) -> Any:
    kind = type(value)
    if kind is float or isinstance(value, float):
        return value if math.isfinite(value) else None
    if kind in _PLAIN:  # asking for an abstract Mapping costs more than all the rest
        return value
    if kind is not dict and isinstance(value, list | tuple):
        return [_strict(item, known) for item in value]
    if kind is dict or isinstance(value, Mapping):
        if id(value) not in known:
            known[id(value)] = value, {str(key): _strict(item, known) for key, item in value.items()}
        return known[id(value)][1]
    return value


def json_text(value: Any) -> str:
    """What `json.dumps(value, indent=2, allow_nan=False)` writes, byte for byte, in a third of the time.

    Python's fast encoder can't indent, and the other one makes a string per bracket and comma.
    """
    return _json_text(value, "\n", {})


def _json_text(value: Any, line: str, known: dict[tuple[int, str], tuple[Any, str]]) -> str:
    """`line` is a line break with the indent of the bracket that is open; `known` has the text of what came before."""
    write = _WRITERS.get(type(value))
    if write is not None:
        return write(value)
    key, inner = (id(value), line), f"{line}  "
    if key in known:
        return known[key][1]
    if isinstance(value, Mapping):
        parts = [_key_text(name) + _json_text(item, inner, known) for name, item in value.items()]
        text = f"{{{inner}{f',{inner}'.join(parts)}{line}}}" if parts else "{}"
    elif isinstance(value, list | tuple):
        parts = [_json_text(item, inner, known) for item in value]
        text = f"[{inner}{f',{inner}'.join(parts)}{line}]" if parts else "[]"
    else:
        return json.dumps(value, allow_nan=False)
    known[key] = value, text  # the value too: while it is held, no other has its id
    return text


def _float_text(value: float) -> str:
    if not math.isfinite(value):
        raise ValueError(f"Out of range float values are not JSON compliant: {value!r}")
    return float.__repr__(value)


@lru_cache(maxsize=4096)
def _key_text(key: str) -> str:
    return f"{_quoted(key)}: "


_WRITERS: dict[type, Callable[[Any], str]] = {
    str: _quoted,
    float: _float_text,
    int: int.__repr__,
    bool: lambda value: "true" if value else "false",
    type(None): lambda value: "null",
}


PEER_NAMES = {
    "backend_time_s": "flopscope_backend_time_s",
    "overhead_time_s": "flopscope_overhead_time_s",
}
"""Our field names that differ from WhestBench's."""


def with_peer_names(value: Any) -> Any:
    """The same document with WhestBench's names beside ours, for `report.names=whestbench`."""
    if isinstance(value, list):
        return [with_peer_names(item) for item in value]
    if not isinstance(value, dict):
        return value
    added = {PEER_NAMES[key]: item for key, item in value.items() if key in PEER_NAMES}
    return {key: with_peer_names(item) for key, item in value.items()} | added


def flatten(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested keys joined by dots."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


SCHEMA_TITLE = "report.json of whest"
SCHEMA_NOTE = (
    "One run of whest, or one imported report. mode and run_config.task tell which of the four documents it is. "
    "A rule or a task of your own adds keys that this schema does not know."
)
FAMILIES = {"^family/": {"type": "number", "description": "Right answers of one family of questions, in per cent."}}
"""The keys of an exam's results that only its questions can name."""


@cache
def document_adapter() -> TypeAdapter[Document]:
    """Checks a document against its types. No other keys are allowed, and no conversions."""
    return TypeAdapter(Document, config=ConfigDict(extra="forbid", strict=True))


class _Untitled(GenerateJsonSchema):
    """Without a title per key, which would only repeat the key."""

    def field_title_should_be_set(self, schema: object) -> bool:
        return False


def json_schema() -> Json:
    """The JSON Schema of `report.json`."""
    schema = document_adapter().json_schema(schema_generator=_Untitled)
    schema["$defs"]["ExamResults"]["patternProperties"] = FAMILIES
    head = {"$schema": _Untitled.schema_dialect, "title": SCHEMA_TITLE, "description": SCHEMA_NOTE}
    return {**head, **schema}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(json_schema(), indent=1, ensure_ascii=False) + "\n")
