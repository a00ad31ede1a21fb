# SPDX-License-Identifier: GPL-3.0-or-later
"""A LangChain retriever whose documents carry their ids and their records; needs `pip install 'ragseal[adapters]'`.

python -m examples.langchain accounts/alice 127.0.0.1:7800 VKEY "How do I rotate a log file?"
"""

from __future__ import annotations

import sys

from ragseal.client import Client
from ragseal.client.adapters.langchain import make_retriever


def main(folder: str, provider: str, log_key: str, question: str) -> None:
    with Client(provider, folder, log_key, embedder="minilm") as client:
        for document in make_retriever(client).invoke(question):
            place = document.metadata["ragseal"]
            print(f"{document.id} (record {place['seq']} of window {place['window']}): {document.page_content}")


if __name__ == "__main__":
    main(*sys.argv[1:])
