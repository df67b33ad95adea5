"""The words by which people find a run in MLflow: its name, its score as text, its description and its own tags."""

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from whest.config.commands import words_of
from whest.document import Json, case_rows, case_score, n_failed
from whest.errors import ConfigError
from whest.files import SWEEP_STATE
from whest.notation import count, figure, plus_minus, printable, short_number

SCORE = "score"
"""The tag with the score as people read it. MLflow shows a metric of this size as 0.00000118549700649."""
NOTE = "mlflow.note.content"
"""MLflow's tag with a run's description."""
OWN_TAGS = frozenset(
    "score estimator estimator_target round participant scoring protocol_hash protection code_version whest_version "
    "schema_version host device backend python_version jax_version jaxlib_version numpy_version run_folder command "
    "report_sha256 imported imported_sha256 imported_from disagrees sweep_job solution verdict hypothesis decision "
    "compared_protocol".split()
)
"""The tags that whest writes itself, and reads back from runs."""
TAG_NAME = re.compile(r"[A-Za-z0-9_][\w. /-]{0,99}", re.ASCII)
LONGEST_VALUE, LONGEST_NAME, MOST_KNOBS = 1000, 200, 4
SAID = ("estimator", "round", "budget", "job", "debug", "outputs_dir")
"""Keys that a run's name tells already, or that say nothing of it."""


def own_tags(tags: Mapping[str, Any]) -> dict[str, str]:
    """The user's tags as text. A name that MLflow or whest needs for itself is refused."""
    for name, value in tags.items():
        if name in OWN_TAGS or name.startswith(("mlflow.", "whest.", "verdict.")):
            raise ConfigError(f"tags.{name}={value} would hide a tag that whest writes: choose another name")
        if not TAG_NAME.fullmatch(str(name)):
            raise ConfigError(f"tags.{name}={value}: a tag's name has letters, digits and _ . / - only: choose another")
        if not isinstance(value, str | int | float) or len(str(value)) > LONGEST_VALUE:
            raise ConfigError(
                f"tags.{name}={str(value)[:50]} must be a text of at most {LONGEST_VALUE} characters, or a number"
            )
    return {str(name): str(value) for name, value in tags.items()}


def run_name(document: Json, folder: Path) -> str:
    """What varied: in a sweep the swept words, else the round and what was chosen. A name of one's own comes first."""
    config, words = document["run_config"], words_of(document["run_meta"]["command"])
    keys = swept_keys(folder)
    estimator = str(config["estimator"]["name"])
    if keys is not None:
        varied = [word for word in map(short_word, words) if word and key_of(word) in {short_key(key) for key in keys}]
        parts = [estimator, *(word for word in varied if key_of(word) != "estimator")]
    else:
        budget = config["flop_budget"]
        is_usual = budget == round_budget(str(config["round"]))
        knobs = [short_word(word) for word in words if word.lstrip("+").startswith("estimator.")]
        parts = [estimator, str(config["round"]), *([] if is_usual else [f"budget={short_number(budget)}"])]
        parts += [word for word in knobs if key_of(word) not in ("path", "name")][:MOST_KNOBS]
    own = config.get("name")
    named = [own, *(parts[1:] if keys is not None else [])] if own else parts
    return printable(" ".join(map(str, named)))[:LONGEST_NAME]


def swept_keys(folder: Path) -> list[str] | None:
    """The keys that the sweep above a run's folder varies; None if there is no sweep."""
    try:
        state = json.loads((folder.parent / SWEEP_STATE).read_text())
    except (OSError, ValueError):
        return None
    keys = state.get("keys") if isinstance(state, dict) else None
    return [str(key) for key in keys] if isinstance(keys, list) else None


def short_word(word: str) -> str:
    """A word of the command as part of a name: without marks and the estimator's prefix, numbers short."""
    key, _, value = word.lstrip("+~").partition("=")
    try:
        shown = short_number(float(value)) if "." in value or "e" in value.lower() else value
    except ValueError:
        shown = value
    return f"{short_key(key)}={shown}"


def short_key(key: str) -> str:
    return key.removeprefix("estimator.")


def key_of(word: str) -> str:
    return word.partition("=")[0]


@cache
def round_budget(name: str) -> float | None:
    """The budget that a round of whest has if none is given."""
    from omegaconf import OmegaConf

    from whest.config.sources import config_folder  # it imports Hydra

    path = config_folder() / "round" / f"{name}.yaml"
    if not re.fullmatch(r"\w+", name) or not path.is_file():
        return None
    return float(OmegaConf.to_container(OmegaConf.load(path))["budget"])  # type: ignore[index,call-overload]


def score_words(results: Json) -> str:
    """The score with its error, in digits that mean something."""
    score = results.get("score")
    if score is None:
        return "no score"
    return plus_minus(score, results.get("score_se", results.get("adjusted_final_layer_score_se")))


def describe_run(document: Json) -> str:
    """A run in plain words: the figures, the data, and the remark that was given to it."""
    results, config = document["results"], document["run_config"]
    figures = [f"{score_words(results)} ({results['direction']} is better)"]
    if results.get("mean_compute_utilization") is not None:
        figures.append(f"C/B {figure(results['mean_compute_utilization'])}")
    if results.get("ratio_to_sampling") is not None:
        figures.append(f"{figure(results['ratio_to_sampling'])} x the error of sampling")
    if n_failed(results):
        figures.append(f"{n_failed(results)} failed")
    unit, n = case_score(results)["unit"], len(case_rows(results))
    size = f" of {config['width']}x{config['depth']}" if "width" in config else ""
    data = f"{count(n, unit)}{size} of {config['dataset']['name']}, budget {short_number(config['flop_budget'])}"
    return ". ".join([*([config["notes"].rstrip(".")] if config.get("notes") else []), ", ".join(figures), data])


def note(words: str, experiment_id: str, run_id: str, page: str | None) -> str:
    """A description for MLflow: plain words, which its table shows as they are; below them a link to the page.

    The run's own view shows the link. It is relative, so that it works on any server.
    """
    link = f"\n\n[Open the page](#/experiments/{experiment_id}/runs/{run_id}/artifacts/{page})" if page else ""
    return f"{printable(words.replace(chr(10), ' '))}{link}"


def sweep_name(keys: Sequence[str], n_jobs: int | None, own: str | None) -> str:
    """The name of a sweep's run: its own, or what it varies."""
    jobs = "" if n_jobs is None else f" ({count(n_jobs, 'job')})"
    return (own or f"sweep of {', '.join(map(short_key, keys)) or 'one job'}{jobs}")[:LONGEST_NAME]
