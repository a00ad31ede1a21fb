# SPDX-License-Identifier: GPL-3.0-or-later
"""Ask a provider from an account's own code; `ragseal-client keygen` made the folder.

python -m examples.ask accounts/alice 127.0.0.1:7800 VKEY "How do I rotate a log file?"
"""

from __future__ import annotations

import sys

from ragseal.client import Client


def main(folder: str, provider: str, log_key: str, question: str) -> None:
    with Client(provider, folder, log_key, embedder="minilm") as client:
        result = client.ask(question)  # whatever does not check out raises an AuditError and returns nothing
        print(result.best.text if result.best else result.held)  # ranked here: the provider releases an unordered set
        print(f"record {result.receipt.body.seq}; the receipt is kept, hand it to an auditor")


if __name__ == "__main__":
    main(*sys.argv[1:])
