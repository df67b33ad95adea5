"""Who is taken and who is refused: a function of the rules and of the lines before, which anybody can work out again.

A name belongs to the *sender* of its first entry that was taken: a folder (`ada/`) or files of the inbox itself
(`ada.`), in this spelling. What another sender does under a name like it costs its owner nothing.
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
    owners: dict[str, str] = field(default_factory=dict)
    """The sender by the name in small letters."""
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
        return self.owners.get(participant.casefold()) == self.sender(participant, file)

    def add(self, line: Mapping[str, Any]) -> None:
        """A line of the log that was written."""
        self.n_lines += 1
        sender = self.sender(line["participant"], line["file"])
        if line["refused"] is not None:
            self.n_refused[sender] += 1
            return
        self.owners.setdefault(line["participant"].casefold(), sender)
        self.n_taken[line["participant"].casefold()] += 1
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
        return self._name_taken(name, sender) or self._copied(facts) or self._too_many(name)

    def _is_no_participant(self, name: str) -> bool:
        return self.contest.participants is not None and name not in self.contest.participants

    def _name_taken(self, name: str, sender: str) -> str | None:
        owner = self.owners.get(name.casefold(), sender)
        if owner == sender:
            return None
        kind = "the folder" if owner.endswith("/") else "files that begin with"
        return f"the name belongs to {kind} {owner} by its first entry, and to no other spelling or place"

    def _copied(self, facts: Mapping[str, Any]) -> str | None:
        """By the host's clock two files of one scan came at the same moment: nobody knows which one is the copy."""
        for line in self.by_bytes.get(facts["file_sha256"], ()):
            is_own = line["participant"].casefold() == facts["participant"].casefold()
            if is_own or self.contest.received == "file" or line["received_at"] != facts["received_at"]:
                return f"it has the same bytes as entry {line['entry']} of {line['participant']}"
        return None

    def _too_many(self, name: str) -> str | None:
        own, most = self.n_taken[name.casefold()], self.contest.entries_per_participant
        return f"{name} has {own} entries, at most {most} are allowed" if own >= most else None
