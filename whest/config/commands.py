"""Commands that whest prints: each runs as it stands, on the same data and by the same rules as the run it follows."""

import shlex
from collections.abc import Sequence

from whest.files import SEALED

COMMAND = ("python", "-m", "whest")

STORE = ("outputs_dir", "tracking")
"""Keys that say where runs are kept."""

IDLE = ("job", "show_mlps", "resume", "name", "notes", "hypothesis", "decision", "tags")
"""Keys, or groups of keys, that say nothing about the data and the rules."""

FILES = ("file", "sealed")
"""Choices of an estimator that are a file of the user's."""

SPECIAL = frozenset(" ,'\"[]{}()$\\")
"""Characters that need quotes inside `compare.runs=[…]`, which takes no nested ones."""


def command_line(words: Sequence[str]) -> str:
    """The command with these words, quoted for a shell."""
    return shlex.join([*COMMAND, *words])


def words_of(command: str) -> list[str]:
    """The words of a printed command."""
    return shlex.split(command)[len(COMMAND) :]


def compare_command(command: str, name: str, mode: str) -> str | None:
    """Compare this run's estimator with covariance propagation, on the same data and by the same rules.

    `name` is the estimator's choice if no word names one. None if the words can't be repeated inside `compare.runs`.
    """
    words = words_of(command)
    chosen = [word for word in words if _group(word) == "estimator"]
    entrant = _entrant(chosen, name)
    if entrant is None or not command or mode == "flopscope":
        return None
    other = "mean_prop" if entrant.split()[0] == "cov_prop" else "cov_prop"
    others = other if mode == "traced" else f"{other} mode={mode}"  # another mode would be another protocol
    runs = ",".join(f'"{text}"' if " " in text else text for text in (entrant, others))
    kept = [word for word in words if word not in chosen and _group(word) not in IDLE]
    return command_line([*kept, "job=compare", f"compare.runs=[{runs}]"])


def _entrant(chosen: Sequence[str], name: str) -> str | None:
    """`monte_carlo seed=1`: an estimator and its knobs, as `compare.runs` takes them."""
    values = {_key(word): word.partition("=")[2] for word in chosen}
    first = values.get("estimator.path", "") if values.get("estimator") in FILES else values.get("estimator", name)
    knobs = [word.replace("estimator.", "", 1) for word in chosen if _key(word) not in ("estimator", "estimator.path")]
    is_plain = all(not SPECIAL & set(text) for text in (first, *knobs)) and not any(w[0] == "~" for w in chosen)
    if not first or not is_plain or (values.get("estimator") in FILES and not first.endswith((".py", SEALED))):
        return None
    return " ".join([first, *knobs])


def board_command(command: str, board: str, protocol_hash: str) -> str:
    """Show the board of this run's protocol, from the store that the run was logged to."""
    track = f"leaderboard.protocol={protocol_hash}"
    return command_line(["job=leaderboard", f"leaderboard={board}", track, *_store(command)])


def ui_command(command: str) -> str:
    """Show the store that the run was logged to."""
    return command_line(["job=ui", *_store(command)])


def _store(command: str) -> list[str]:
    return [word for word in words_of(command) if _group(word) in STORE]


def _key(word: str) -> str:
    return word.lstrip("+~").partition("=")[0]


def _group(word: str) -> str:
    return _key(word).partition(".")[0]
