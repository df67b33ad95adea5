"""`job=verify`: check a contest that somebody published, and run its rows again if that is asked for."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from whest.config.build import build_target
from whest.config.settings import read_settings
from whest.contest.keys import fingerprint, need_signatures
from whest.contest.published import Published
from whest.contest.rerun import run_again
from whest.contest.storage import LOG, MANIFEST
from whest.contest.verify import verify as check
from whest.contest.verify import warnings
from whest.display.answer import tell
from whest.display.console import say
from whest.errors import ConfigError, JobFailedError
from whest.notation import printable

VERDICTS = {"same": "same", "near": "within rounding", "differs": "DIFFERS"}


@dataclass(frozen=True)
class VerifyOptions:
    """The `verify` part of the config."""

    key: Annotated[str, Field(min_length=16, pattern=r"^[0-9a-fA-F]+$")] | None
    receipt: Path | None


def verify(config: Mapping[str, Any], folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    typed = [word.partition("=")[2] for word in overrides if word.startswith("verify.key=")]
    given = {"key": typed[-1] if typed else None, "receipt": config["verify"]["receipt"]}
    options: VerifyOptions = build_target(VerifyOptions, given, "verify")
    if settings.board is None:
        raise ConfigError("board is missing: name the folder that a contest published, job=verify board=DIR")
    place = settings.board if settings.board.is_dir() else settings.board.parent
    if not settings.board.exists() or not any((place / name).exists() for name in (MANIFEST, LOG)):
        raise ConfigError(
            f"board={settings.board} is no contest (there is no {MANIFEST} and no {LOG} in {place}): name the folder "
            "that job=host published, job=verify board=DIR"
        )
    need_signatures()
    published, problems = check(place, options.key, options.receipt)
    for problem in problems:
        say(f"WRONG    {printable(str(problem))}")
    wrong = [str(problem) for problem in problems]
    if published is not None and not problems:
        tell_published(published, options.key)
        for warning in warnings(published):
            say(f"note     {printable(warning)}")
        if settings.rerun is not None:
            wrong += rerun(published, str(settings.rerun), config)
    tell(problems=wrong)
    if wrong:
        raise JobFailedError(f"{place} does not verify, the first of {len(wrong)}: {printable(wrong[0])}")


def tell_published(published: Published, key: str | None) -> None:
    kinds = [line["kind"] for line in published.lines]
    state = "closed, its secret seed fits the commitment" if published.secret else "open, its seed is still secret"
    say(f"verified {printable(str(published.manifest['name']))}: {state}")
    say(f"log      {len(kinds)} lines: {kinds.count('received')} received, {kinds.count('scored')} scored")
    mark = fingerprint(published.manifest["public_key"])
    ask = "" if key else "; ask the organiser for it, and give it: verify.key=…"
    say(f"key      {mark}{ask}")
    tell(fingerprint=mark, closed=published.secret is not None)


def rerun(published: Published, which: str, config: Mapping[str, Any]) -> list[str]:
    """Each run again. What differs is returned, in words."""
    wrong = []
    for again in run_again(published, which, config):
        say(f"rerun    {again.run}: {VERDICTS[again.verdict]}, {printable(again.words)}")
        if again.verdict == "differs":
            wrong.append(f"entry {again.run}: {again.words}")
    return wrong
