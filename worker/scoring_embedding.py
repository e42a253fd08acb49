"""How like each other a prompt and a text are, under an embedding model of transformers on CPU."""

from collections.abc import Sequence
from typing import Any, Final

import torch
from transformers import AutoModel, AutoTokenizer

from .scoring import ScoreRequest, ScoringUnavailable
from .scoring_cuts import batches, clean

# Tokens of a text that are looked at, and in a forward pass, padding included.
_TEXT: Final = 512
_BATCH: Final = 8192


class Embedder:
    """Mean over the tokens of the last layer, at length 1, as sentence transformers do. Raises
    ScoringUnavailable."""

    def __init__(self, model: str, dtype: str) -> None:
        auto_tokenizer: Any = AutoTokenizer
        auto_model: Any = AutoModel
        try:
            self._tokenizer = auto_tokenizer.from_pretrained(model, trust_remote_code=False)
            self._model: Any = auto_model.from_pretrained(
                model, dtype=getattr(torch, dtype), use_safetensors=True, trust_remote_code=False
            ).eval()
        except (OSError, ValueError, AttributeError) as error:
            lines = str(error).strip().splitlines() or ["no reason given"]
            raise ScoringUnavailable(f"no embedding model {model}: {lines[0]}") from error
        positions = getattr(self._model.config, "max_position_embeddings", 0) or _TEXT
        # Models of the RoBERTa family number positions from 2 on.
        self._most = min(_TEXT, int(positions) - 2)

    def similarities(self, requests: Sequence[ScoreRequest]) -> list[float | None]:
        """The cosine of each prompt and its text, from -1 to 1; None where one of them is empty."""
        texts: dict[str, int] = {}
        for request in requests:
            if request.prompt.strip() and request.text.strip():
                texts.setdefault(request.prompt, len(texts))
                texts.setdefault(request.text, len(texts))
        vectors = self._vectors(list(texts))
        return [
            float(vectors[texts[each.prompt]] @ vectors[texts[each.text]])
            if each.prompt in texts and each.text in texts
            else None
            for each in requests
        ]

    @torch.inference_mode()
    def _vectors(self, texts: Sequence[str]) -> list[torch.Tensor]:
        encoded: list[list[int]] = [
            self._tokenizer(clean(text), truncation=True, max_length=self._most)["input_ids"]
            for text in texts
        ]
        vectors: list[torch.Tensor] = [torch.empty(0)] * len(texts)
        for group in batches([len(ids) for ids in encoded], _BATCH):
            longest = max(len(encoded[at]) for at in group)
            ids = torch.zeros((len(group), longest), dtype=torch.long)
            mask = torch.zeros_like(ids)
            for place, at in enumerate(group):
                ids[place, : len(encoded[at])] = torch.tensor(encoded[at])
                mask[place, : len(encoded[at])] = 1
            states = self._model(input_ids=ids, attention_mask=mask).last_hidden_state.float()
            weights = mask[:, :, None].float()
            means = (states * weights).sum(1) / weights.sum(1).clamp(min=1)
            unit = torch.nn.functional.normalize(means, dim=1)
            for place, at in enumerate(group):
                vectors[at] = unit[place]
        return vectors
