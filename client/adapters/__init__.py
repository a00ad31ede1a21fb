# SPDX-License-Identifier: GPL-3.0-or-later
"""Checked retrieval for other people's pipelines: one class a framework, imported by name, nothing at start-up.

    from ragseal.client.adapters import Account
    from ragseal.client.adapters.langchain import RagsealRetriever
    retriever = RagsealRetriever(account=Account("account", "localhost:7800"), k=2)
    documents = retriever.invoke("How do I parse JSON?")      # or: await retriever.ainvoke(...)

Each framework's package comes with an extra of its name: ``pip install 'ragseal[langchain]'``, ``[llama-index]``,
``[haystack]``.

Every document has the id and metadata that its provider committed to, and under ``metadata["ragseal"]`` where its
answer is recorded (see :mod:`ragseal.client.adapters.passages`).  A check that fails raises out of the pipeline; an
adapter never returns fewer or unchecked documents instead.
"""

from ragseal.client.adapters.account import Account as Account

__all__ = ["Account"]
