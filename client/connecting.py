# SPDX-License-Identifier: GPL-3.0-or-later
"""From what a program gives, links or addresses, to links."""

from __future__ import annotations

from ragseal.client.link import LedgerLink, ProviderLink
from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.tls import ClientTls


def links(
    provider: str | ProviderLink, ledger: str | LedgerLink | None, tls: ClientTls, timeout: float
) -> tuple[ProviderLink, LedgerLink]:
    """Links to both; addresses become gRPC.  Raises ConfigurationError: a link without a ledger, or a bad address."""
    if ledger is None:
        if not isinstance(provider, str):
            raise ConfigurationError("a provider given as a link needs a ledger too")
        ledger = provider
    if isinstance(provider, str) or isinstance(ledger, str):
        from ragseal.client import remote  # gRPC only where an address is given

        provider = remote.ProviderOverGrpc(provider, tls, timeout) if isinstance(provider, str) else provider
        ledger = remote.LedgerOverGrpc(ledger, tls, timeout) if isinstance(ledger, str) else ledger
    return provider, ledger
