# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that several of the provider's commands take, and how their values are read."""

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.terminal import state_folder

STATE = state_folder("RAGSEAL_PROVIDER_STATE", "provider", "Folder with everything this provider keeps")


def hexadecimal(text: str, size: int, what: str) -> bytes:
    """The bytes of an option; ConfigurationError names ``what`` and its length."""
    try:
        value = bytes.fromhex(text)
    except ValueError:
        value = b""
    if len(value) != size:
        raise ConfigurationError(f"{what} takes {2 * size} hexadecimal digits")
    return value
