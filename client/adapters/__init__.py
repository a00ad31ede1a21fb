# SPDX-License-Identifier: GPL-3.0-or-later
"""Checked retrieval for other people's pipelines: one thin file a framework, imported by name, nothing at start-up.

    from ragseal.client.adapters.langchain import make_retriever
    documents = make_retriever(client).invoke("How do I parse JSON?")

With ``make_retriever(client, witness_policy=FILE)`` only windows are used that a quorum of these witnesses was shown.

Every document has the id and metadata that its provider committed to, and under ``metadata["ragseal"]`` where its
answer is recorded (see :mod:`ragseal.client.adapters.passages`).  A check that fails raises out of the pipeline; an
adapter never returns fewer or unchecked documents instead.
"""
