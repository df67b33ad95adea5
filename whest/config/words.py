"""The words of a command line, before Hydra reads them: short forms are written out, and each is checked for effect."""

import difflib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from whest.config.jobs import JOBS
from whest.errors import ConfigError
from whest.files import SEALED

VALUED_FLAGS = frozenset(
    "--config-dir -cd --config-path -cp --config-name -cn --cfg -c --package -p --info -i --experimental-rerun".split()
)
"""Flags whose value is a word of its own."""

OWN_NODES = tuple("leaderboard bake compare plot judge reproduce runs seal watch explain tune host verify".split())
"""Nodes of the config that only the job of the same name reads."""

ALSO_READ = {("leaderboard", "host")}
"""Nodes and other jobs that read them: a contest has a board."""

FREE_TEXT = ("name", "notes", "hypothesis", "decision")
"""Keys whose value is a sentence."""

TAG = "tags."
"""How the word of a tag begins. A tag is a new key of the config, which Hydra takes only with a plus."""

ENTRY = "estimator.py"
"""The estimator's file in a folder."""


def written_out(words: Sequence[str]) -> list[str]:
    """`validate` is `job=validate`; `estimator=my.py` is `estimator=file estimator.path=my.py`; `tags.a=b` is new."""
    full: list[str] = []
    for word, is_flags in _marked(words):
        if is_flags or "=" not in word:
            full.append(word if is_flags or word.startswith(("-", "~")) else _job(word))
        else:
            full += [f"++{word}"] if word.startswith(TAG) else _estimator(_free_text(word))
    jobs = [word for word in full if word.startswith("job=")]
    if len(jobs) > 1:
        raise ConfigError(f"{' and '.join(jobs)}: a command has one job, leave the other out")
    return full


def _marked(words: Sequence[str]) -> Iterator[tuple[str, bool]]:
    """Each word, and whether it is the value of the flag before it."""
    before = ""
    for word in words:
        yield word, before in VALUED_FLAGS
        before = word


def _job(word: str) -> str:
    if word in JOBS:
        return f"job={word}"
    close = [f"estimator={word}"] if _is_place(word) else difflib.get_close_matches(word, JOBS, n=1)
    meant = f" Did you mean {close[0]}?" if close else ""
    raise ConfigError(f"{word} is neither a job nor key=value.{meant} The jobs are: {', '.join(JOBS)}")


def _estimator(word: str) -> list[str]:
    """An estimator's file or folder, in place of a choice. Several files make a sweep."""
    key, _, value = word.partition("=")
    places = value.split(",")
    if key != "estimator" or not any(map(_is_place, places)):
        return [word]
    if not all(map(_is_place, places)):
        raise ConfigError(
            f"{word} mixes files and choices: sweep over files alone, or compare them, "
            f"job=compare 'compare.runs=[{value}]'"
        )
    choice = "sealed" if all(place.endswith(SEALED) for place in places) else "file"
    return [f"estimator={choice}", f"estimator.path={','.join(map(_quoted, map(_file_of, places)))}"]


def _free_text(word: str) -> str:
    """`name`, `notes` and the ledger are free text: Hydra's quotes take commas, brackets and spaces as they are."""
    key, _, text = word.partition("=")
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    is_free = key in FREE_TEXT or (key == "participant" and not text.isascii())
    if not is_free or is_quoted or text in ("", "null"):
        return word
    escaped = re.sub(r"(\\*)('|$)", lambda found: found[1] * 2 + (found[2] and "\\'"), text)
    return f"{key}='{escaped}'"


def _is_place(value: str) -> bool:
    return value.endswith((".py", SEALED)) or "/" in value


def _file_of(place: str) -> str:
    """The file itself, or a folder's estimator.py, or the file of the folder's own name, as `job=init` writes it."""
    folder = Path(place)
    if not folder.is_dir():
        return place
    names = (ENTRY, f"{folder.absolute().name}.py")
    found = next((name for name in names if (folder / name).is_file()), None)
    if found is None:
        raise ConfigError(f"estimator={place} is a folder without {' or '.join(names)}: name the file")
    return str(folder / found)


def _quoted(text: str) -> str:
    """Hydra reads a plain name as it is; other characters need its quotes."""
    is_plain = text.isascii() and all(c.isalnum() or c in "/_.-" for c in text)
    return text if is_plain else "'" + text.replace("'", "\\'") + "'"


SCORING = ("score", "compare")
"""Jobs whose files stand in the run's own folder: they read neither `output` nor `path`."""
SHAPE = ("round.width", "round.depth")
EVERYWHERE = ("job", "outputs_dir", "console", "hydra", "local")
"""What every job reads."""
READ_ONLY = {
    "list": (),
    "clean": (),
    "runs": ("runs", "tracking"),
    "gallery": ("output", "tracking"),
    "doctor": ("device", "output", "tracking"),
}
"""Jobs that read few keys, and these keys."""


def refuse_idle(job: str, words: Sequence[str], dataset: str = "") -> None:
    """A word that would have no effect, such as one of another job's node: say what reads it."""
    for word in words:
        key = word.lstrip("+~").partition("=")[0]
        if key in SHAPE and job in SCORING and dataset.endswith(".SuiteDataset"):
            raise ConfigError(f"{word} has no effect on the shipped suite: add dataset=fresh, or choose a round")
        if key in ("output", "path") and job in SCORING:
            raise ConfigError(f"{word} has no effect on job={job}: hydra.run.dir=FOLDER says where a run is saved")
        node = word.lstrip("+~").partition("=")[0].partition(".")[0]
        if node in OWN_NODES and node != job and (node, job) not in ALSO_READ:
            raise ConfigError(f"{word} has no effect on job={job}: add job={node}, python -m whest {node} {word} …")
        read = READ_ONLY.get(job)
        if read is not None and node.partition("/")[0] not in (*EVERYWHERE, *read):
            known = ", ".join((*read, "outputs_dir"))
            meant = f", or choose runs by it, runs.{word}" if job == "runs" and key in ("estimator", "round") else ""
            raise ConfigError(f"{word} has no effect on job={job}: leave it out{meant}. It reads {known}")
