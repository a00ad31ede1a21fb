# SPDX-License-Identifier: GPL-3.0-or-later
"""A LangChain retriever whose documents carry their ids and their records; needs `pip install 'ragseal[langchain]'`.

python -m examples.langchain accounts/alice 127.0.0.1:7800 VKEY "How do I rotate a log file?"
"""

from __future__ import annotations

import sys

from ragseal.client.adapters import Account
from ragseal.client.adapters.langchain import RagsealRetriever


def main(folder: str, provider: str, log_key: str, question: str) -> None:
    retriever = RagsealRetriever(account=Account(folder, provider, log_key), k=3)
    for document in retriever.invoke(question):
        place = document.metadata["ragseal"]
        print(f"{document.id} (record {place['seq']} of window {place['window']}): {document.page_content}")
    retriever.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
