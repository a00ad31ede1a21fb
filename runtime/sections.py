# SPDX-License-Identifier: GPL-3.0-or-later
"""Help of a command with many options: each option under the heading of what it is for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

REST = "Other options"


class Sectioned(click.Command):
    """A command whose help lists its options in sections.

    ``sections``: heading -> names of options, without their dashes.  An option that none names stands in the last
    section, ``Other options``.
    """

    def __init__(self, *arguments: Any, sections: Mapping[str, Sequence[str]] | None = None, **attributes: Any) -> None:
        super().__init__(*arguments, **attributes)
        self.sections = dict(sections or {})

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.sections:
            super().format_options(ctx, formatter)
            return
        heading = {name: title for title, names in self.sections.items() for name in names}
        rows: dict[str, list[tuple[str, str]]] = {title: [] for title in [*self.sections, REST]}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                title = next((heading[name] for name in map(_bare, param.opts) if name in heading), REST)
                rows[title].append(record)
        for title, records in rows.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _bare(option: str) -> str:
    return option.lstrip("-")
