"""Is a repeated run the same as the recorded one, and if not, what differs?"""

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from whest.document import Json, case_key, case_rows, case_score, flatten, has_failed
from whest.notation import count, plus_minus, printable
from whest.tasks.whitebox.predictions import Answers

Verdict = Literal["same bits", "within noise", "differs", "failed"]
VERSIONS = {
    "python_version": "Python",
    "jax_version": "jax",
    "jaxlib_version": "jaxlib",
    "numpy_version": "numpy",
}
MACHINE = {
    "cpu_brand": "processor",
    "cpu_features": "processor's vector instructions",
    "xla_flags": "XLA_FLAGS",
    "machine": "machine",
    "backend": "backend",
    "device": "device",
}
"""What the compiler sees of a machine: with another, the same code may round otherwise."""
UNSTABLE = re.compile(r"(_s|traceback|memory\w*|flops_xla|xla_unknown)$")
"""Names of figures that no two runs share, or that depend on jaxlib."""
TIMED = ("effective_compute", "score_multiplier", "adjusted_final_layer_score", "sampling_mse_at_compute")
"""Figures that contain residual time, where λ has an effect."""
MOST_LINES = 200


@dataclass(frozen=True)
class Reproduction:
    """The verdict on a repeated run."""

    verdict: Verdict
    reason: str
    causes: tuple[str, ...]
    """What differs around the two runs: versions, machine, source. It may explain the difference."""
    source_diff: str
    """The recorded source against the one that ran; empty if they are equal or unknown."""
    is_same_code: bool = True
    """Whether whest, the libraries and the estimator's source are those of the record."""
    is_same_machine: bool = True

    def to_json(self) -> Json:
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "causes": list(self.causes),
            "source_diff": self.source_diff,
            "is_same_code": self.is_same_code,
            "is_same_machine": self.is_same_machine,
        }


def judge(
    before: Json, after: Json, answers: tuple[Answers | None, Answers | None], sources: "tuple[Files, Files]"
) -> Reproduction:
    """Compare two reports of one experiment, with their saved answers and their sources."""
    verdict, reason = _verdict(before, after, answers)
    code, machine = _code_changes(before, after), _host_changes(before, after, MACHINE)
    if verdict not in ("same bits", "failed") and machine and not code:
        reason = f"{reason}. The code is the same and the machine another: it may round otherwise"
    return Reproduction(verdict, reason, (*code, *machine), source_diff(*sources), not code, not machine)


def _verdict(before: Json, after: Json, answers: tuple[Answers | None, Answers | None]) -> tuple[Verdict, str]:
    one, other = ({case_key(row): row for row in case_rows(report["results"])} for report in (before, after))
    unit = case_score(before["results"])["unit"]
    if before["run_meta"]["protocol_hash"] != after["run_meta"]["protocol_hash"]:
        return "differs", f"the protocols differ in {_protocol_differences(before, after)}"
    if one.keys() != other.keys():
        return "differs", f"the recorded run has {len(one)} {unit}s, this one {len(other)}, or they have other names"
    if one and all(has_failed(row) for rows in (one, other) for row in rows.values()):
        return "failed", f"all {count(len(one), unit)} failed, then and now: there is no answer to compare"
    timed = TIMED if before["run_config"].get("lambda_has_effect", True) else ()
    changed = {name for key in one for name in _changed(one[key], other[key])} - {*timed}
    if not changed and _same_answers(*answers):
        return "same bits", f"every figure of {len(one)} {unit}{'' if len(one) == 1 else 's'} is the same"
    first, second = (report["results"].get("score") for report in (before, after))
    errors = [report["results"].get("score_se") for report in (before, after)]
    told = f"score {plus_minus(first, errors[0])} then, {plus_minus(second, errors[1])} now"
    spent = sorted(name for name in changed if "flops" in name or name in ("error_code", "failed"))
    if spent:
        return "differs", f"{', '.join(spent)} changed; {told}"
    noise = errors[0]
    if first is None or second is None or noise is None or abs(first - second) > noise:
        return "differs", told
    return "within noise", f"the FLOPs are the same and the scores are less than one standard error apart; {told}"


def _changed(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    a, b = _figures(one), _figures(other)
    return {name for name in a.keys() | b.keys() if a.get(name) != b.get(name)}


def _figures(row: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of a case that don't depend on the clock."""
    return {name: value for name, value in row.items() if not UNSTABLE.search(name) and not isinstance(value, Mapping)}


def _same_answers(one: Answers | None, other: Answers | None) -> bool:
    if one is None or other is None:
        return one is other
    return one.keys() == other.keys() and all(np.array_equal(one[key], other[key]) for key in one)


def _protocol_differences(before: Json, after: Json) -> str:
    a, b = (flatten(report["run_meta"]["protocol"]) for report in (before, after))
    return ", ".join(sorted(name for name in a.keys() | b.keys() if a.get(name) != b.get(name)))


def _code_changes(before: Json, after: Json) -> tuple[str, ...]:
    a, b = before["run_meta"], after["run_meta"]
    whest = [
        ("whest", a["whest_version"], b["whest_version"]),
        ("code version", a["code_version"], b["code_version"]),
    ]
    hashes = [report["run_config"]["estimator"]["source_sha256"] for report in (before, after)]
    source = ["the estimator's source changed"] if hashes[0] != hashes[1] else []
    return (*_changes(whest), *_host_changes(before, after, VERSIONS), *source)


def _host_changes(before: Json, after: Json, names: Mapping[str, str]) -> tuple[str, ...]:
    """Older reports lack some fields; what is unknown counts as no change."""
    a, b = (report["run_meta"]["host"] for report in (before, after))
    return _changes([(word, a[name], b[name]) for name, word in names.items() if name in a and name in b])


def _changes(pairs: Sequence[tuple[str, Any, Any]]) -> tuple[str, ...]:
    return tuple(f"{word}: {printable(str(a))} then, {printable(str(b))} now" for word, a, b in pairs if a != b)


Files = Mapping[str, bytes]
"""Files by their name."""


def source_diff(before: Files, after: Files, names: tuple[str, str] = ("then", "now")) -> str:
    """A unified diff of two sets of files. Empty if either is unknown."""
    if not before or not after:
        return ""
    lines: list[str] = []
    for name in sorted(before.keys() | after.keys()):
        old, new = (_lines(files.get(name, b"")) for files in (before, after))
        lines += difflib.unified_diff(old, new, f"{names[0]}/{name}", f"{names[1]}/{name}", lineterm="")
    shown = [printable(line) for line in lines[:MOST_LINES]]
    return "\n".join([*shown, *([f"… {len(lines) - MOST_LINES} more lines"] if len(lines) > MOST_LINES else [])])


def _lines(content: bytes) -> Sequence[str]:
    return content.decode(errors="replace").splitlines()
