# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command lines of provider, auditor and account have in common."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ragseal.kernel.errors import AuditError

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object; progress on stderr.")
ROOT_CERTIFICATE = click.option(
    "--ca", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Root certificate; without it no TLS."
)


class Teaching(click.Group):
    """Shows commands in the order in which they are used, and every refusal as one line."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except AuditError as error:
            raise click.ClickException(f"{type(error).__name__}: {error}") from None
