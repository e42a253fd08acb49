"""The scoring model: a causal language model of transformers on CPU.

A text is scored behind an empty prompt and behind its own, each sentence behind an empty prompt.
All of that, of all texts, are rows of the same few forward passes: sorted by length, padded on the
right, the empty prompt's keys and values computed once. Logits exist for scored tokens only, a few
at a time: for a whole batch they would be gigabytes.
"""

import math
import os
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, DynamicCache

from ..guards.checks.scores import SentenceScore, TextScores
from .scoring import Limits, ScoreRequest, ScoringFailed, ScoringUnavailable, Wants
from .scoring_cuts import Prompts, Row, Span, batches, clean, covered, cut
from .scoring_embedding import Embedder

# Scored tokens whose logits exist at once: those of 64 in bf16 fit a cache, and are reduced three
# times as fast as those of 2,000.
_LOGITS: Final = 64
_MARK: Final = "sluicegate prompt"
_PROBE: Final = "The quick brown fox jumps over the lazy dog."
# Log probabilities that ought to be the same, in bfloat16.
_SAME: Final = 0.5


class TransformersScorer:
    """Scores under the model in a folder or of a hub's name. Loading takes seconds. `threads`: of
    torch, for the whole process; 0 leaves them. `dtype`: of the weights; on a CPU with the
    instructions for it bfloat16 is 1.8 times as fast as float32. `embedding_model`: gives each text
    its similarity to its prompt as well. Raises ScoringUnavailable."""

    def __init__(
        self,
        model: str,
        *,
        threads: int = 0,
        dtype: str = "bfloat16",
        embedding_model: str = "",
        limits: Limits | None = None,
    ) -> None:
        if threads:
            torch.set_num_threads(threads)
        self.name = Path(model).name if Path(model).is_dir() else model
        tokenizer, loaded = _load(model, dtype)
        self._model: Any = loaded
        self._head: Any = loaded.get_output_embeddings()
        self._prompts = _prompts(tokenizer)
        # From here on what is spelled like a special token is ordinary text.
        self._backend: Any = tokenizer.backend_tokenizer
        self._backend.encode_special_tokens = True
        context = int(getattr(loaded.config.get_text_config(), "max_position_embeddings", 0) or 0)
        self._limits = limits or Limits()
        if context:
            self._limits = self._limits.fitted(len(self._prompts.neutral), context)
        self._cache: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._last: torch.Tensor | None = None
        self._probe()
        self._embedder = Embedder(embedding_model, dtype) if embedding_model else None

    def __repr__(self) -> str:
        return f"<TransformersScorer {self.name}, {torch.get_num_threads()} threads>"

    def close(self) -> None:
        """Let go of the models."""
        self._cache = []
        self._last = self._model = self._head = self._embedder = None

    def score(self, requests: Sequence[ScoreRequest], wants: Wants) -> list[TextScores]:
        """One for each request, in order. Where the batch does not work, each alone; raises
        ScoringFailed for those with which even that does not."""
        try:
            return self._score(requests, wants)
        except (RuntimeError, MemoryError) as error:
            if len(requests) == 1:
                raise ScoringFailed({0: _said(error)}, [None]) from error
        failed: dict[int, str] = {}
        scores: list[TextScores | None] = []
        for index, request in enumerate(requests):
            try:
                scores += self._score([request], wants)
            except (RuntimeError, MemoryError) as error:
                failed[index] = _said(error)
                scores.append(None)
        if failed:
            raise ScoringFailed(failed, scores)
        return [each for each in scores if each is not None]

    def _score(self, requests: Sequence[ScoreRequest], wants: Wants) -> list[TextScores]:
        if self._model is None:
            raise ValueError("the scoring model is closed")
        limits, prompts = self._limits, self._prompts
        cuts = [
            cut(request, wants, limits=limits, prompts=prompts, encode=self._encode)
            for request in requests
        ]
        scored = iter(self._rows([row for each in cuts for row in each.rows]))
        similarities: list[float | None] = [None] * len(requests)
        if self._embedder is not None and wants.similarity:
            similarities = self._embedder.similarities(requests)
        found: list[TextScores] = []
        for each, similarity in zip(cuts, similarities, strict=True):
            alone, given, parts = (
                [next(scored) for _ in kind] for kind in (each.alone, each.given, each.sentences)
            )
            logprobs = tuple(value for row in alone for value in row)
            found.append(
                TextScores(
                    model=self.name,
                    chars=each.chars,
                    logprobs=logprobs,
                    given_prompt=tuple(value for row in given for value in row),
                    sentences=tuple(
                        _sentence(chars, tokens, row, logprobs)
                        for (chars, tokens), row in zip(each.parts, parts, strict=True)
                    ),
                    scored_chars=covered(each.chars),
                    similarity=similarity,
                )
            )
        return found

    def _encode(self, text: str) -> tuple[list[int], list[Span]]:
        encoding = self._backend.encode(clean(text), add_special_tokens=False)
        return encoding.ids, encoding.offsets

    @torch.inference_mode()
    def _probe(self) -> None:
        """Compute the empty prompt's keys and values, and see that what is computed in parts is
        what the model says."""
        probe, _ = self._encode(_PROBE)
        ids = torch.tensor([[*self._prompts.neutral, *probe]])
        at = len(self._prompts.neutral)
        logits: torch.Tensor = self._model(input_ids=ids).logits[0, at - 1 : -1].float()
        expected = _told(logits, ids[0, at:])
        row = Row(True, tuple(probe), 0)
        if not _same(self._rows([row])[0], expected):
            raise ScoringUnavailable(
                f"{self.name} changes its logits behind its output layer, which this does not know"
            )
        try:
            cache: Any = DynamicCache()
            hidden = self._body(torch.tensor([self._prompts.neutral]), past_key_values=cache)
            self._cache = [(layer.keys, layer.values) for layer in cache.layers]
            self._last = hidden[:, -1:]
            if _same(self._rows([row])[0], expected):
                return
        except (AttributeError, RuntimeError, TypeError, ValueError):
            pass  # A model with a memory of another kind reads the empty prompt with every row.
        self._cache, self._last = [], None

    def _rows(self, rows: Sequence[Row]) -> list[list[float]]:
        """The scores of each row from its `first` on."""
        scored: list[list[float]] = [[] for _ in rows]
        order = sorted(range(len(rows)), key=lambda at: rows[at].neutral)
        for neutral, members in groupby(order, key=lambda at: rows[at].neutral):
            indices = list(members)
            lengths = [len(rows[at].ids) for at in indices]
            for group in batches(lengths, self._limits.batch):
                chosen = [indices[at] for at in group]
                values = self._pass([rows[at] for at in chosen], neutral=neutral)
                for at, row in zip(chosen, values, strict=True):
                    scored[at] = row
        return scored

    @torch.inference_mode()
    def _pass(self, rows: Sequence[Row], *, neutral: bool) -> list[list[float]]:
        """One forward pass over rows of one kind."""
        before = self._prompts.neutral if neutral else self._prompts.before
        past = len(before) if self._cache else 0
        seen = [row.ids if past else (*before, *row.ids) for row in rows]
        longest = max(map(len, seen))
        ids = torch.zeros((len(rows), longest), dtype=torch.long)
        mask = torch.zeros((len(rows), past + longest), dtype=torch.long)
        for at, row in enumerate(seen):
            ids[at, : len(row)] = torch.tensor(row)
            mask[at, : past + len(row)] = 1
        hidden = self._body(ids, attention_mask=mask, past_key_values=self._past(len(rows), past))
        # What is said at a place is of the token behind it; the empty prompt's last is one more.
        shift = 1
        if self._last is not None and neutral:
            hidden = torch.cat([self._last.expand(len(rows), -1, -1), hidden], 1)
            shift = 0
        firsts = [
            row.first + len(tokens) - len(row.ids) for row, tokens in zip(rows, seen, strict=True)
        ]
        states = torch.cat(
            [hidden[at, first - shift : len(seen[at]) - shift] for at, first in enumerate(firsts)]
        )
        targets = [token for row, first in zip(seen, firsts, strict=True) for token in row[first:]]
        values = iter(self._logprobs(states, torch.tensor(targets)))
        return [
            [next(values) for _ in range(len(row) - first)]
            for row, first in zip(seen, firsts, strict=True)
        ]

    def _past(self, rows: int, tokens: int) -> Any:
        """The keys and values of so many tokens of the empty prompt, for each row."""
        if not tokens:
            return None
        cache: Any = DynamicCache()
        for layer, pair in enumerate(self._cache):
            cache.update(*(each[:, :, :tokens].expand(rows, -1, -1, -1) for each in pair), layer)
        return cache

    def _body(self, ids: torch.Tensor, **more: Any) -> torch.Tensor:
        use_cache = more.get("past_key_values") is not None
        return self._model.base_model(input_ids=ids, use_cache=use_cache, **more).last_hidden_state

    def _logprobs(self, states: torch.Tensor, targets: torch.Tensor) -> list[float]:
        found: list[float] = []
        for begin in range(0, len(states), _LOGITS):
            logits: torch.Tensor = self._head(states[begin : begin + _LOGITS]).float()
            found += _told(logits, targets[begin : begin + _LOGITS])
        if not all(map(math.isfinite, found)):
            raise RuntimeError("the scoring model's output has values that are no numbers")
        return found


def _told(logits: torch.Tensor, targets: torch.Tensor) -> list[float]:
    """The log probability of each target in its row of logits, in float32."""
    told = logits.gather(1, targets[:, None])[:, 0] - torch.logsumexp(logits, 1)
    return [float(value) for value in told]


def _load(model: str, dtype: str) -> tuple[Any, Any]:
    if Path(model).is_dir():
        # Nothing is to be looked for on a hub.
        for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
            os.environ.setdefault(name, "1")
    auto_tokenizer: Any = AutoTokenizer
    auto_model: Any = AutoModelForCausalLM
    try:
        tokenizer = auto_tokenizer.from_pretrained(model, trust_remote_code=False)
        loaded = auto_model.from_pretrained(
            model, dtype=getattr(torch, dtype), use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError, AttributeError) as error:
        lines = str(error).strip().splitlines() or ["no reason given"]
        raise ScoringUnavailable(f"no scoring model {model}: {lines[0]}") from error
    if not hasattr(tokenizer, "backend_tokenizer"):
        raise ScoringUnavailable(
            f"the tokenizer of {model} is not of the fast kind, which this needs"
        )
    return tokenizer, loaded.eval()


def _prompts(tokenizer: Any) -> Prompts:
    """By the chat template; else the beginning of a text, and an empty line behind the prompt."""
    if tokenizer.chat_template:
        turn = [{"role": "user", "content": _MARK}]
        rendered: str = tokenizer.apply_chat_template(
            turn, add_generation_prompt=True, tokenize=False
        )
        before, mark, behind = rendered.partition(_MARK)
        if mark and _MARK not in behind:
            around = [tuple(_ids(tokenizer, part)) for part in (before, behind)]
            return Prompts(around[0], around[1], around[0] + around[1])
    start: int | None = tokenizer.bos_token_id
    if start is None:
        start = tokenizer.eos_token_id
    begin = () if start is None else (start,)
    line = tuple(_ids(tokenizer, "\n\n"))
    return Prompts(begin, line, begin or line)


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
    return ids


def _sentence(
    chars: Span, tokens: Span, alone: Sequence[float], logprobs: Sequence[float]
) -> SentenceScore:
    begin, end = tokens
    count = end - begin
    return SentenceScore(chars, sum(alone) / count, sum(logprobs[begin:end]) / count, count)


def _same(found: Sequence[float], expected: Sequence[float]) -> bool:
    return all(abs(a - b) < _SAME for a, b in zip(found, expected, strict=True))


def _said(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
