# SPDX-License-Identifier: GPL-3.0-or-later
"""Any sentence-transformers model, for those who install PyTorch (extra ``torch``)."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragseal.embedder import weights
from ragseal.embedder.interface import QUANTISATION, EmbedderIdentity, Progress, Role, Vectors, check_texts
from ragseal.kernel.errors import ConfigurationError

#: Texts handed over at once; the library sorts and batches inside, so this is only how often progress is told.
CHUNK = 512

_WRAPPERS = ("0.auto_model.", "0.model.")  #: how the library prefixes the transformer's own tensor names


class SentenceModel:
    """A sentence-transformers model by name or folder.  Implements :class:`ragseal.embedder.Embedder`.

    Prompts named ``query`` and ``document`` (or ``passage``, ``corpus``) in the model's configuration are used and
    are part of the identity; a model without them gets none.
    """

    def __init__(self, name: str, device: str | None = None) -> None:
        """Nothing is loaded yet.

        Args:
            name: a folder, or a name that the library resolves (it may download the model).
            device: "cpu", "cuda", ...; None lets the library choose.

        Raises:
            ConfigurationError: sentence-transformers is not installed.
        """
        if not installed():
            raise ConfigurationError(
                f"model {name!r} needs sentence-transformers, which brings PyTorch; run: pip install 'ragseal[torch]', "
                "or use the default embedder 'minilm'"
            )
        self._name = name
        self._device = device
        self._lock = threading.Lock()

    @functools.cached_property
    def _loaded(self) -> Any:
        from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found, import-untyped, unused-ignore]

        try:
            model = SentenceTransformer(self._name, device=self._device)
            model.eval()
        except Exception as error:  # whatever hub, files or framework raise
            raise ConfigurationError(f"cannot load the embedding model {self._name!r}: {error}") from None
        return model

    def _model(self) -> Any:
        with self._lock:
            return self._loaded

    def _prompt(self, role: Role) -> str:
        prompts: dict[str, str] = dict(getattr(self._model(), "prompts", None) or {})
        for key in ("query",) if role == "query" else ("document", "passage", "corpus"):
            if prompts.get(key):
                return str(prompts[key])
        return ""

    @property
    def dimension(self) -> int:
        model = self._model()
        # the method was renamed; older and newer releases both are in use
        measure = getattr(model, "get_embedding_dimension", None) or model.get_sentence_embedding_dimension
        dimension = measure()
        if not isinstance(dimension, int) or dimension < 1:
            raise ConfigurationError(f"model {self._name!r} does not tell the dimension of its vectors")
        return dimension

    def identity(self) -> EmbedderIdentity:
        return self._identity

    @functools.cached_property
    def _identity(self) -> EmbedderIdentity:
        model = self._model()
        config = getattr(getattr(model[0], "auto_model", None), "config", None)
        limit = model.max_seq_length
        if not isinstance(limit, int) or limit < 1:
            raise ConfigurationError(f"model {self._name!r} sets no max_seq_length, so its texts have no defined end")
        return EmbedderIdentity(
            weights=weights.tensors_digest(self._tensors()),
            tokenizer=weights.tokenizer_digest(self._tokenizer_definition()),
            architecture=weights.architecture(config.to_dict() if config is not None else {"model_type": "other"}),
            pooling=self._pooling(),
            max_tokens=limit,
            query_prompt=self._prompt("query"),
            document_prompt=self._prompt("document"),
            dimension=self.dimension,
            quantisation=QUANTISATION,
        )

    def _tensors(self) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for name, tensor in self._model().state_dict().items():
            for wrapper in _WRAPPERS:
                if name.startswith(wrapper):
                    name = name.removeprefix(wrapper)
                    break
            if tensor.is_floating_point():
                out[name] = tensor.detach().to("cpu").float().numpy()
        return out

    def _tokenizer_definition(self) -> bytes | str:
        """The tokenizer.json that was loaded; else what the library makes of it (other spelling, other digest)."""
        tokenizer = self._model().tokenizer
        try:
            from transformers.utils import cached_file  # type: ignore[import-not-found, import-untyped, unused-ignore]

            path = cached_file(tokenizer.name_or_path, "tokenizer.json", local_files_only=True)
            if path is not None:
                return Path(path).read_bytes()
        except (ImportError, OSError, ValueError):
            pass
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise ConfigurationError(f"model {self._name!r} has no fast tokenizer, so it cannot be named by a digest")
        return str(backend.to_str())

    def _pooling(self) -> str:
        """Modules after the transformer; the plain case "mean" is named as the light embedder names it."""
        steps: list[str] = []
        for module in list(self._model())[1:]:
            kind = type(module).__name__
            if kind == "Pooling":
                mode = getattr(module, "pooling_mode", None) or module.get_pooling_mode_str()  # newer, older releases
                steps.append(mode if isinstance(mode, str) else "+".join(mode))
            elif kind != "Normalize":  # lengths are lost in quantisation anyway
                steps.append(kind)
        return "+".join(steps)

    @property
    def most_tokens(self) -> int:
        return self._identity.max_tokens

    def cut(self, texts: Sequence[str]) -> list[int]:
        """See :meth:`ragseal.embedder.interface.Cutting.cut`; the prompt counts."""
        check_texts(texts)
        tokenizer, prompt, most = self._model().tokenizer, self._prompt("document"), self.most_tokens
        return [at for at, text in enumerate(texts) if len(tokenizer(prompt + text, verbose=False)["input_ids"]) > most]

    def embed(self, texts: Sequence[str], *, role: Role = "document", progress: Progress | None = None) -> Vectors:
        """See :meth:`ragseal.embedder.Embedder.embed`."""
        check_texts(texts)
        model, prompt = self._model(), self._prompt(role)
        out = np.empty((len(texts), self.dimension), dtype=np.float32)
        for start in range(0, len(texts), CHUNK):
            chunk = list(texts[start : start + CHUNK])
            try:
                out[start : start + len(chunk)] = model.encode(
                    chunk, prompt=prompt, convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False
                )
            except RuntimeError as error:
                raise ConfigurationError(f"the embedding model failed to run: {error}") from None
            if progress is not None:
                progress(start + len(chunk), len(texts))
        return out


def installed() -> bool:
    """Whether sentence-transformers can be imported (found, not imported: that takes seconds)."""
    import importlib.util

    return importlib.util.find_spec("sentence_transformers") is not None
