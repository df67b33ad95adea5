"""Who is taken and who is refused: a function of the rules and of the lines before, which anybody can work out again.

A name belongs to the *sender* of its first entry that was taken: a folder (`ada/`) or files of the inbox itself
(`ada.`), in this spelling. What another sender does under a name like it costs its owner nothing. Senders whose first
entries came in one scan share it, each with its own quota: nobody knows who was first.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from whest.contest.inbox import NO_FILE, PARTICIPANT
from whest.contest.rules import Contest, read_moment
from whest.files import SEALED

MOST_REFUSED = 100
"""Lines of refused files that a sender gets. One more says that there are no further ones."""
NOBODY = ""
"""The one sender of all files whose name is none."""


@dataclass
class Ledger:
    """What the lines up to here say: whose names are taken, which bytes, and how often a sender was refused."""

    contest: Contest
    n_lines: int = 0
    owners: dict[str, list[str]] = field(default_factory=dict)
    """The senders by the name in small letters, the first one first."""
    since: dict[str, str] = field(default_factory=dict)
    """When the first entry under a name was received."""
    n_taken: Counter[str] = field(default_factory=Counter)
    n_refused: Counter[str] = field(default_factory=Counter)
    by_bytes: dict[str, list[Mapping[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    """The entries that were taken, by the sha256 of their file."""

    def sender(self, participant: str, file: str) -> str:
        """Whom a file counts for: `ada/` or `ada.`. Names that can't take part share one sender."""
        if not PARTICIPANT.fullmatch(participant) or self._is_no_participant(participant):
            return NOBODY
        return participant + ("/" if "/" in file else ".")

    def is_mute(self, participant: str, file: str) -> bool:
        """Whether its sender was told already that no more is taken. Such a file is not opened."""
        return self.n_refused[self.sender(participant, file)] > MOST_REFUSED

    def is_owner(self, participant: str, file: str) -> bool:
        return self.sender(participant, file) in self.owners.get(participant.casefold(), ())

    def add(self, line: Mapping[str, Any]) -> None:
        """A line of the log that was written."""
        self.n_lines += 1
        sender = self.sender(line["participant"], line["file"])
        if line["refused"] is not None:
            self.n_refused[sender] += 1
            return
        name = line["participant"].casefold()
        self.since.setdefault(name, line["received_at"])
        if sender not in self.owners.setdefault(name, []):
            self.owners[name].append(sender)
        self.n_taken[sender] += 1
        self.by_bytes[line["file_sha256"]].append(line)

    def refusal(self, facts: Mapping[str, Any]) -> str | None:
        """Why an arrival is refused; None for an entry that is scored."""
        contest, name = self.contest, facts["participant"]
        sender = self.sender(name, facts["file"])
        if self.n_refused[sender] >= MOST_REFUSED:
            return f"{MOST_REFUSED} files of this sender were refused: no more are taken, and further ones get no line"
        if not PARTICIPANT.fullmatch(name):
            return "its participant's name has other characters than letters, digits and _ @ + -"
        if self._is_no_participant(name):
            return f"{name} is none of contest.participants, in these letters"
        if contest.deadline is not None and read_moment(facts["received_at"]) > contest.deadline:
            return f"late: received {facts['received_at']}, after the deadline"
        if facts["n_bytes"] > contest.limit_bytes:
            return f"it has {facts['n_bytes']:,} bytes, at most {contest.limit_bytes:,} are allowed"
        if facts["file_sha256"] is None:
            return str(facts["damage"] or NO_FILE)
        if facts["damage"] is not None:
            return str(facts["damage"])
        if contest.sealed_only and not facts["file"].endswith(SEALED):
            return "it is no sealed program, and this contest takes no others"
        return self._name_taken(facts, sender) or self._copied(facts, sender) or self._too_many(name, sender)

    def _is_no_participant(self, name: str) -> bool:
        return self.contest.participants is not None and name not in self.contest.participants

    def _is_same_scan(self, moment: str | None, facts: Mapping[str, Any]) -> bool:
        """By the host's clock the files of one scan came at the same moment: nobody knows which one was first."""
        return self.contest.received == "host" and moment == facts["received_at"]

    def _name_taken(self, facts: Mapping[str, Any], sender: str) -> str | None:
        name = facts["participant"].casefold()
        owners = self.owners.get(name, [sender])
        if sender in owners or self._is_same_scan(self.since.get(name), facts):
            return None
        kind = "the folder" if owners[0].endswith("/") else "files that begin with"
        return f"the name belongs to {kind} {owners[0]} by its first entry, and to no other spelling or place"

    def _copied(self, facts: Mapping[str, Any], sender: str) -> str | None:
        for line in self.by_bytes.get(facts["file_sha256"], ()):
            is_own = self.sender(line["participant"], line["file"]) == sender
            if is_own or not self._is_same_scan(line["received_at"], facts):
                return f"it has the same bytes as entry {line['entry']} of {line['participant']}"
        return None

    def _too_many(self, name: str, sender: str) -> str | None:
        own, most = self.n_taken[sender], self.contest.entries_per_participant
        return f"{name} has {own} entries, at most {most} are allowed" if own >= most else None
