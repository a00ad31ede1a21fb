# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a PostgreSQL connection URI must not be shown; a source of documents and the workers' database read it."""

from __future__ import annotations

from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ragseal.kernel.errors import ConfigurationError


def secrets_of(conninfo: str, form: str) -> list[str]:
    """What of a connection URI no message may show; ConfigurationError: it is none, ``form`` is what it looks like."""
    try:
        found = conninfo_to_dict(conninfo)
    except psycopg.Error:  # its message quotes the URI
        raise ConfigurationError(f"that is not a connection URI of PostgreSQL; the form is {form}") from None
    secret = [str(found[name]) for name in ("password", "sslpassword") if found.get(name)]
    return [*secret, *(quote(one, safe="") for one in secret)]
