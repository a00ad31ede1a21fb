# SPDX-License-Identifier: GPL-3.0-or-later
"""What a corpus holds that its documents do not: told to its owner, never dropped in silence."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

NOTED = 100  #: names of a kind that notes keep; beyond that they are counted only


@dataclass(slots=True)
class Notes:
    """What a corpus holds that its documents do not: members or columns that are not read, links that are skipped.

    And the reverse: what its documents were to carry, and none of them has.
    """

    members: dict[str, int] = field(default_factory=dict)  #: documents by name of a member that is not read
    links: list[str] = field(default_factory=list)  #: the first ones skipped
    written: dict[str, str] = field(default_factory=dict)  #: metadata that is kept as its engine writes it: its type
    awaited: dict[str, None] = field(default_factory=dict)  #: metadata fields that no document had yet, in order
    others: list[str] = field(default_factory=list)  #: the first files that are of no form that is read
    more_members: int = 0
    more_links: int = 0
    more_others: int = 0

    def begin(self, awaited: Iterable[str]) -> None:
        """A reading begins, of which some document should have each of these; counts are of the last reading."""
        self.members, self.more_members, self.awaited = {}, 0, dict.fromkeys(awaited)

    def carried(self, keys: Iterable[str]) -> None:
        """A document has this metadata."""
        for key in keys:
            self.awaited.pop(key, None)

    def unread(self, names: Iterable[str]) -> None:
        """A document has these members, too."""
        for name in names:
            if name in self.members or len(self.members) < NOTED:
                self.members[name] = self.members.get(name, 0) + 1
            else:
                self.more_members += 1

    def as_written(self, name: str, kind: str) -> None:
        """Metadata of a type that is neither text nor a number nor a date: its engine's own text of it is kept."""
        self.written[name] = kind

    def skipped(self, link: str) -> None:
        """A link was not followed."""
        if link in self.links:
            return  # seen by an earlier reading
        if len(self.links) < NOTED:
            self.links.append(link)
        else:
            self.more_links += 1

    def passed_over(self, file: str) -> None:
        """A file beside those of the corpus was not read."""
        if file in self.others:
            return  # seen by an earlier reading
        if len(self.others) < NOTED:
            self.others.append(file)
        else:
            self.more_others += 1

    def lines(self) -> list[str]:
        """For people, at most one line a kind; nothing where there is nothing to say."""
        out = []
        if self.members:
            named = [f"{name!r} (in {count} documents)" for name, count in self.members.items()]
            out.append(f"not kept, as they are not named as metadata: {_listed(named, self.more_members)}")
        if self.awaited:
            out.append(f"no document has metadata {_listed([repr(name) for name in self.awaited], 0)}")
        if self.written:
            named = [f"{name!r} ({kind})" for name, kind in self.written.items()]
            out.append(
                f"kept as text in the database's own spelling, which filters compare as text: {_listed(named, 0)}"
            )
        if self.links:
            links = [repr(link) for link in self.links]
            out.append(f"skipped, links are not followed: {_listed(links, self.more_links)}")
        if self.others:
            others = [repr(file) for file in self.others]
            out.append(f"not read, as their names end otherwise: {_listed(others, self.more_others)}")
        return out


def _listed(names: list[str], more: int) -> str:
    shown, rest = names[:10], len(names[10:]) + more
    return ", ".join(shown) + (f" and {rest} more" if rest else "")
