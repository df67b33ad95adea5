"""The rules of a contest: what `conf/contest` sets, what the manifest publishes, and the runs that follow."""

import hmac
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from whest.boards.policies import Policy
from whest.config.build import build_group, build_target
from whest.config.sources import config_folder
from whest.contest.keys import Document
from whest.errors import ConfigError, UnprotectedError
from whest.sealed.purpose import Purpose

FORMAT = 2
"""Of the folder that is published. Raised when another `job=verify` would read it wrongly."""
Count = Annotated[int, Field(ge=1, le=10_000)]
Bytes = Annotated[int, Field(ge=0, le=2**26)]
RULES = (
    "budget lam wall_time_limit_s residual_wall_time_limit_s setup_timeout_s meter "
    "round task dataset truth data scoring isolation leaderboard"
).split()
"""The parts of a config that make a contest's score, and its board."""
CLASSES = ("dataset", "truth", "data", "scoring", "leaderboard")
"""Groups that name a class."""
DRAWN = "whest.dataset.sources.FreshDataset"
"""The only dataset of a contest."""
FILES = ("exam", "text", "validation", "path")
"""Keys of `data` that name a file. The manifest has its sha256; whoever runs an entry types where it is."""


@dataclass(frozen=True)
class Contest:
    """The node `contest`: what comes on top of the rules of a run."""

    name: Annotated[str, Field(min_length=1, max_length=100)]
    words: Annotated[str, Field(max_length=4000)]
    """What the organiser says about it, on the board."""
    deadline: AwareDatetime | None
    received: Literal["host", "file"]
    """When an entry counts as received: when the host first saw it, or its file's date."""
    entries_per_participant: Count
    limit_bytes: Bytes
    limit_constants: Bytes
    """Of a sealed program: the bytes that it carries for one shape (`whest.sealed.carried`)."""
    n_mlps: Annotated[int, Field(ge=2, le=10_000)] | None
    """Whitebox: the MLPs of a row."""
    n_seeds: Annotated[int, Field(ge=1, le=100)]
    """Runs of a row, each with another seed."""
    sealed_only: bool
    """False: also files of Python, which run in the worker."""
    memory_limit_mb: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    """Of an entry's worker."""
    descriptions: bool
    """Whether the board shows what every entry's author says about it."""
    participants: Annotated[list[Annotated[str, Field(max_length=64)]], Field(max_length=10_000)] | None = None
    """Who may take part, by the exact names; None for everybody."""


def read_contest(config: Mapping[str, Any]) -> Contest:
    if "contest" not in config:
        raise ConfigError("contest is missing: choose its rules, contest=whitebox, or the folder of one, output=DIR")
    contest: Contest = build_target(Contest, config["contest"], "contest")
    _refuse_other_data(contest, config)
    if config["estimator"].get("mode", "traced") != "traced":
        raise ConfigError("estimator.mode: a contest scores traced programs, leave it out")
    return contest


def _refuse_other_data(contest: Contest, config: Mapping[str, Any]) -> None:
    """MLPs are drawn from the secret seed. A folder from elsewhere can't make its reader open a file or a hub."""
    dataset, is_whitebox = config["dataset"], config["task"]["name"] == "whitebox"
    if (contest.n_mlps is not None) != is_whitebox:
        raise ConfigError(f"contest.n_mlps={contest.n_mlps} is for task=whitebox, and only there it is needed")
    if is_whitebox and ("seed" not in dataset or dataset.get("_target_") != DRAWN):
        raise ConfigError("a contest draws its MLPs from a secret seed: use dataset=fresh, and not a published dataset")
    if not is_whitebox and {"path", "repo"} & set(dataset):
        raise ConfigError(f"task={config['task']['name']} reads no MLPs: leave dataset out")


def rules_of(config: Mapping[str, Any]) -> Document:
    """The parts of a config that the manifest publishes, without what is secret or depends on the entry."""
    contest = read_contest(config)
    kept = {name: config[name] for name in RULES if name in config}
    kept["dataset"] = {**kept["dataset"], "seed": None} if "seed" in kept["dataset"] else kept["dataset"]
    kept["data"] = {key: _digest(key, value) if key in FILES else value for key, value in kept["data"].items()}
    kept["data"] |= {"seed": None} if "seed" in kept["data"] else {}
    kept["round"] = {"name": kept["round"]["name"]}  # its shape and samples stand in dataset and truth
    deadline = contest.deadline.astimezone(UTC).isoformat() if contest.deadline else None
    kept["leaderboard"] = {**kept["leaderboard"], "deadline": deadline, "protocol": None, "supersedes": []}
    return {**kept, "contest": {**asdict(contest), "deadline": deadline}}


def _digest(key: str, path: Any) -> str | None:
    """A file by its content: an exam must not change while a contest runs."""
    if path is None:
        return None
    try:
        with Path(path).open("rb") as file:
            return file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ConfigError(f"data.{key}={path} can't be read ({error.strerror}): give one file") from None


def contest_of(manifest: Mapping[str, Any]) -> Contest:
    """The same checks as at the opening: a manifest may be a stranger's."""
    contest: Contest = build_target(Contest, manifest["rules"]["contest"], "contest")
    _refuse_other_data(contest, manifest["rules"])
    return contest


def policy_of(manifest: Mapping[str, Any]) -> Policy:
    refuse_other_classes(manifest["rules"])
    policy: Policy = build_group(manifest["rules"], "leaderboard")
    return policy


def refuse_other_rules(manifest: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """The rules were published when the contest was opened."""
    if "contest" not in config:
        return
    asked, known = rules_of(config), manifest["rules"]
    for name in sorted({*asked, *known}):
        if asked.get(name) != known.get(name):
            raise ConfigError(
                f"{name} differs from the rules that the contest was opened with: leave the words of the rules out, "
                "they are in contest.json, or open another contest with another output=DIR"
            )


def commitment_to(secret: bytes) -> str:
    """The hash that is published before the first entry. 32 random bytes can't be guessed from it."""
    return sha256(b"whest contest commitment\n" + secret).hexdigest()


def derived_seed(secret: bytes, purpose: str) -> int:
    """A seed of 31 bits for runs, 63 for data, that follows from the secret alone."""
    digest = hmac.new(secret, f"whest contest {purpose}".encode(), sha256).digest()
    return int.from_bytes(digest[:8], "little") >> (1 if purpose == "data" else 33)


def purpose_of(rules: Mapping[str, Any]) -> Purpose | None:
    """What an entry must have been sealed for. None for an exam, whose rows a sealed learner chooses itself."""
    budget, task = int(float(rules["budget"])), rules["task"]["name"]
    if task == "whitebox":
        dataset = rules["dataset"]
        return Purpose("whitebox", budget, width=int(dataset["width"]), depth=int(dataset["depth"]))
    if task == "prequential":
        rows = {"row_length": int(rules["task"]["row_length"]), "n_bytes": int(rules["data"]["max_bytes"])}
        return Purpose("prequential", budget, **rows)
    return None


def run_config(
    manifest: Mapping[str, Any], own: Mapping[str, Any], secret: bytes, seed_number: int, estimator: Document
) -> Document:
    """The config of one run of an entry. `own` is the config of this command: devices and protections are its own."""
    rules = manifest["rules"]
    refuse_other_classes(rules)
    contest = contest_of(manifest)
    config = {**own, **{name: rules[name] for name in RULES if name in rules}}
    config["isolation"] = _isolation(rules["isolation"], own["isolation"])
    config["round"] = {**own["round"], **rules["round"]}
    seed = derived_seed(secret, f"run {seed_number}")
    if contest.n_mlps is not None:
        drawn = {"seed": derived_seed(secret, "data"), "n_mlps": contest.n_mlps, "range": None}
        config["dataset"] = {**rules["dataset"], **drawn}
    else:
        files = {name: _own_file(name, rules["data"][name], own) for name in FILES if name in rules["data"]}
        config["data"] = {**rules["data"], **files, "seed": derived_seed(secret, "data")}
    config |= {"job": "score", "seed": seed, "estimator": estimator, "tags": {}, "name": None, "notes": None}
    config |= {"tracking": {"_target_": "whest.tracking.runs.NoTracking"}, "figures": False, "profile": False}
    config |= {"page": False, "provenance": False, "hypothesis": None, "decision": None}
    return config | {"memory_limit_mb": contest.memory_limit_mb}


def _own_file(key: str, digest: str | None, own: Mapping[str, Any]) -> str | None:
    """The file that the rules name by its sha256, from the words of this command."""
    if digest is None:
        return None
    path = own["data"].get(key)
    if path is None or _digest(key, path) != digest:
        choice = "files" if key == "path" else "exam"
        raise ConfigError(
            f"data.{key}={path} is not the contest's file with sha256 {digest[:16]}…: add data={choice} data.{key}=FILE"
        )
    return str(path)


def _isolation(told: Mapping[str, Any], own: Mapping[str, Any]) -> Document:
    waived = sorted(set(own["require"]) - set(told.get("require") or ()))
    if waived:
        raise UnprotectedError(
            f"the contest does without the protection of {', '.join(waived)}: if that is meant, add "
            f"isolation.require=[{','.join(map(str, told.get('require') or ()))}]"
        )
    return {**own, "require": list(told["require"]), "kind": "process"}


def refuse_other_classes(rules: Mapping[str, Any]) -> None:
    """A contest's folder is a stranger's data for whoever verifies it: it may only name classes of conf/."""
    for group in CLASSES:
        target = rules[group].get("_target_")
        files = (config_folder() / group).glob("*.yaml")
        known = {line.split()[1] for file in files for line in file.read_text().splitlines() if line[:9] == "_target_:"}
        if target not in known:
            raise ConfigError(f"contest.json names {group}._target_={target}, which is none of whest's own choices")


def read_moment(text: Any) -> datetime:
    return datetime.fromisoformat(str(text))


def sealed_node(path: Path, name: str) -> Document:
    """The config's estimator for an entry."""
    return {"path": str(path), "name": name, "mode": "traced"}
