"""`job=host`: the organiser's side of a contest. Take sealed programs in, score them, judge, close, sign the board."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from whest.boards.show import print_board
from whest.boards.verdicts import LONGEST_REASON, Ruling
from whest.config.build import build_target
from whest.config.compose import launcher_words
from whest.config.settings import Settings, read_settings
from whest.contest.board import contest_board
from whest.contest.host import Host, hosting
from whest.contest.keys import Document, fingerprint, read_secret
from whest.contest.log import read_lines, read_log, read_signed
from whest.contest.rules import run_config
from whest.contest.scoring import Scorer
from whest.contest.storage import MANIFEST, SECRET, Place, place_of
from whest.display.answer import tell
from whest.display.console import open_console, say
from whest.errors import ConfigError, JobFailedError
from whest.notation import count

Config = Mapping[str, Any]
OWN = ("job", "inbox", "output", "host.do", "host.private", "host.entry", "console")
"""Words that the jobs of a sweep are told otherwise. The others may matter to a run: devices, protections, files."""


@dataclass(frozen=True)
class HostOptions:
    """The `host` part of the config."""

    do: Literal["take", "judge", "close", "score"]
    private: Path | None
    entry: int | str | None
    verdict: Ruling | None
    reason: Annotated[str, Field(max_length=LONGEST_REASON)] | None
    solution: Annotated[str, Field(max_length=LONGEST_REASON)] | None

    @property
    def number(self) -> str:
        if self.entry is None:
            raise ConfigError("host.entry is missing: the number of an entry, as the board shows it, host.entry=3")
        return str(self.entry).partition("-")[0].zfill(6)


def host(config: Config, folder: Path, overrides: list[str]) -> None:
    settings = read_settings(config)
    options: HostOptions = build_target(HostOptions, config["host"], "host")
    public = settings.output or settings.outputs / "contests" / str(config.get("contest", {}).get("name", "contest"))
    place = place_of(public, options.private)
    if options.do == "score":
        score_one(place, config, options.number)
        return
    if options.do != "take" and not place.is_open:
        raise ConfigError(f"output={place.public} is no contest: open it first, job=host contest=… output=DIR")
    with hosting(place, config, lambda manifest, secret: try_rules(manifest, secret, config, place)) as open_host:
        if options.do == "take":
            take(open_host, config, settings, overrides)
        elif options.do == "judge":
            judge(open_host, options)
        else:
            open_host.close()
            say(f"closed   the secret seed is in the log, entries and reports are in {place.public}")
        open_host.publish()
        show(open_host)


def try_rules(manifest: Document, secret: bytes, config: Config, place: Place) -> None:
    """Build a run of the config's own estimator: what is wrong with the rules is found before they are published."""
    from whest.experiment import build

    own = {**config, "outputs_dir": str(place.private)}
    build(run_config(manifest, own, secret, 0, dict(config["estimator"])), place.private / "tried")


def take(open_host: Host, config: Config, settings: Settings, overrides: Sequence[str]) -> None:
    if settings.inbox is not None:
        n_new = open_host.take_in(settings.inbox)
        open_host.publish_receipts()
        say(f"taken    {count(n_new, 'new file')} of {settings.inbox}")
    scorer = Scorer(open_host.place, open_host.manifest, config, open_host.secret)
    launcher = launcher_words()
    words = [*launcher, *(word for word in overrides if word.partition("=")[0] not in OWN)]
    many = (lambda lines: score_many(open_host.place, lines, words)) if launcher else None
    n_scored = open_host.score(scorer, many)
    say(f"scored   {count(n_scored, 'program')}")


def score_many(place: Place, lines: Sequence[Document], words: Sequence[str]) -> None:
    """Run the entries as one sweep of jobs, by the launcher that was typed. The log is written here, not by them."""
    numbers = ",".join(str(int(line["entry"])) for line in lines)
    sweep = place.private / "sweep"
    command = [sys.executable, "-m", "whest", "--multirun", "job=host", "host.do=score", f"host.entry={numbers}"]
    command += [f"output={place.public}", f"host.private={place.private}", f"hydra.sweep.dir={sweep}", *words]
    ended = subprocess.run(command, env=os.environ, stdout=subprocess.DEVNULL, check=False)
    if ended.returncode:
        raise JobFailedError(f"the sweep that scores the entries ended with code {ended.returncode}: see above")


def score_one(place: Place, config: Config, entry: str) -> None:
    """A job of that sweep: run one entry, and write nothing but its own folder."""
    manifest, (lines, _) = read_signed(place.public / MANIFEST), read_lines(read_log(place.public))
    found = [line for line in lines if line["kind"] == "received" and line["entry"] == entry and not line["refused"]]
    if not found:
        raise ConfigError(f"host.entry={entry} is no entry that was taken")
    Scorer(place, manifest, config, read_secret(place.private / SECRET)).score(found[0])


def judge(open_host: Host, options: HostOptions) -> None:
    if options.verdict is None:
        raise ConfigError("host.verdict is missing: disqualified, invalid, reviewed or reinstated")
    reason = options.reason or ("its solution was reviewed" if options.verdict == "reviewed" else "")
    if not reason:
        raise ConfigError(f"host.reason is missing: write why entry {options.number} is {options.verdict}")
    line = open_host.judge(options.number, options.verdict, reason, options.solution)
    solution = f"; solution: {options.solution}" if options.solution else ""
    say(f"judged   entry {options.number} is {options.verdict}: {reason}{solution} (line {line['n'] + 1} of the log)")
    tell(entry=options.number, verdict=options.verdict, reason=reason)


def show(open_host: Host) -> None:
    manifest, place = open_host.manifest, open_host.place
    board = contest_board(manifest, open_host.log.lines)
    print_board(board, place.public, open_console())
    mark = fingerprint(manifest["public_key"])
    say(f"key      {mark}\nprivate  {place.private}: the key and the secret seed; don't publish this folder")
    say(f"verify   python -m whest job=verify board={place.public} verify.key={mark[:16]}")
    ranked = [{"rank": row.rank, "participant": row.participant, "score": row.score} for row in board.ranked]
    tell(folder=str(place.public), fingerprint=mark, closed=open_host.is_closed, ranked=ranked)
