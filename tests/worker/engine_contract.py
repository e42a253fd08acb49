"""What every engine must do. A subclass gives `engine`, open, and prompts that suit it."""

import asyncio
import secrets
from contextlib import aclosing

import msgspec
import pytest
from sluicegate.schemas import GenerationJob, InvalidMessage, Reason, Sampling
from sluicegate.worker.engine import Engine, Piece, Segment


class EngineContract:
    """Inherited by the tests of each engine; `engine` is a fixture."""

    # A prompt whose greedy answer has several tokens. The embedded model prefers each of them by a
    # factor of two and more, so it is the same on every CPU, whatever that does to bfloat16.
    prompt = "Name the capital of France."

    async def segment(self, engine: Engine, prompt: str, sampling: Sampling) -> Segment:
        tokens = await engine.prompt_token_ids(GenerationJob(prompt=prompt))
        return Segment(
            request_id=secrets.token_hex(8), prompt_token_ids=tokens, sampling=sampling, seed=7
        )

    async def pieces(self, engine: Engine, prompt: str, sampling: Sampling) -> list[Piece]:
        segment = await self.segment(engine, prompt, sampling)
        async with aclosing(engine.stream(segment)) as stream:
            return [piece async for piece in stream]

    def text(self, engine: Engine, segment: Segment, pieces: list[Piece]) -> str:
        detokenizer = engine.detokenizer(segment.prompt_token_ids)
        return "".join(map(detokenizer.step, answer(pieces)))

    async def test_only_the_last_piece_has_a_finish_reason(self, engine: Engine) -> None:
        pieces = await self.pieces(engine, self.prompt, Sampling(temperature=0, max_tokens=64))
        assert [piece.finish_reason for piece in pieces[:-1]] == [None] * (len(pieces) - 1)
        assert pieces[-1].finish_reason == "stop"
        assert answer(pieces)

    async def test_max_tokens_is_exact_and_ends_with_length(self, engine: Engine) -> None:
        pieces = await self.pieces(engine, self.prompt, Sampling(temperature=0, max_tokens=5))
        assert sum(len(piece.token_ids) for piece in pieces) == 5
        assert pieces[-1].finish_reason == "length"

    async def test_the_same_seed_gives_the_same_tokens(self, engine: Engine) -> None:
        sampling = Sampling(temperature=1, max_tokens=12)
        first = await self.pieces(engine, self.prompt, sampling)
        second = await self.pieces(engine, self.prompt, sampling)
        assert [t for p in first for t in p.token_ids] == [t for p in second for t in p.token_ids]

    async def test_with_stop_the_last_token_is_no_part_of_the_text(self, engine: Engine) -> None:
        segment = await self.segment(engine, self.prompt, Sampling(temperature=0, max_tokens=64))
        async with aclosing(engine.stream(segment)) as stream:
            pieces = [piece async for piece in stream]
        detokenizer = engine.detokenizer(segment.prompt_token_ids)
        assert not detokenizer.step(pieces[-1].token_ids[-1])
        assert "France" in self.text(engine, segment, pieces)

    async def test_stop_strings_are_not_the_engines_business(self, engine: Engine) -> None:
        sampling = Sampling(temperature=0, max_tokens=64, stop=("capital",))
        segment = await self.segment(engine, self.prompt, sampling)
        async with aclosing(engine.stream(segment)) as stream:
            pieces = [piece async for piece in stream]
        assert "capital" in self.text(engine, segment, pieces)

    async def test_half_a_character_is_never_shown(self, engine: Engine) -> None:
        ids = engine.encode("你好，世界 👩‍👩‍👧 你好")
        detokenizer = engine.detokenizer(await engine.prompt_token_ids(GenerationJob(prompt="x")))
        texts = [detokenizer.step(token) for token in ids]
        assert "".join(texts) == "你好，世界 👩‍👩‍👧 你好"
        assert len(ids) > len([text for text in texts if text])
        assert not any("\N{REPLACEMENT CHARACTER}" in text for text in texts)

    async def test_a_resumed_segment_goes_on_where_the_tokens_leave_off(
        self, engine: Engine
    ) -> None:
        sampling = Sampling(temperature=0, max_tokens=64)
        whole = await self.segment(engine, self.prompt, sampling)
        async with aclosing(engine.stream(whole)) as stream:
            pieces = [piece async for piece in stream]
        carried = answer(pieces)[:5]
        resumed = msgspec.structs.replace(
            whole,
            request_id=secrets.token_hex(8),
            prompt_token_ids=(*whole.prompt_token_ids, *carried),
            carried=len(carried),
        )
        async with aclosing(engine.stream(resumed)) as stream:
            rest = [piece async for piece in stream]
        assert (*carried, *answer(rest)) == answer(pieces)

    async def test_closing_the_stream_aborts_the_request_and_the_engine_goes_on(
        self, engine: Engine
    ) -> None:
        sampling = Sampling(temperature=0, max_tokens=512, min_tokens=500)
        segment = await self.segment(engine, self.prompt, sampling)
        async with aclosing(engine.stream(segment)) as stream:
            async for _ in stream:
                break
        pieces = await self.pieces(engine, self.prompt, Sampling(temperature=0, max_tokens=4))
        assert pieces[-1].finish_reason == "length"

    async def test_cancelling_the_reader_aborts_the_request(self, engine: Engine) -> None:
        sampling = Sampling(temperature=0, max_tokens=512, min_tokens=500)
        segment = await self.segment(engine, self.prompt, sampling)
        began = asyncio.Event()

        async def read() -> None:
            async with aclosing(engine.stream(segment)) as stream:
                async for _ in stream:
                    began.set()

        reader = asyncio.create_task(read())
        await began.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await engine.health()

    async def test_many_segments_at_a_time(self, engine: Engine) -> None:
        sampling = Sampling(temperature=0, max_tokens=8)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self.pieces(engine, self.prompt, sampling)) for _ in range(4)
            ]
        assert len({answer(task.result()) for task in tasks}) == 1

    async def test_a_prompt_over_the_context_is_refused(self, engine: Engine) -> None:
        with pytest.raises(InvalidMessage) as refused:
            await self.pieces(engine, "word " * 9000, Sampling(max_tokens=4))
        assert refused.value.reason is Reason.PROMPT_TOO_LONG
        assert refused.value.field == "$.prompt"

    async def test_tokens_outside_the_vocabulary_are_refused(self, engine: Engine) -> None:
        job = GenerationJob(prompt_token_ids=(1, 2_000_000_000))

        async def read() -> None:
            tokens = await engine.prompt_token_ids(job)
            segment = Segment(request_id="x", prompt_token_ids=tokens, sampling=Sampling(), seed=1)
            async with aclosing(engine.stream(segment)) as stream:
                async for _ in stream:
                    pass

        with pytest.raises(InvalidMessage) as refused:
            await read()
        assert refused.value.reason is Reason.UNSUPPORTED
        assert refused.value.field == "$.prompt_token_ids"


def answer(pieces: list[Piece]) -> tuple[int, ...]:
    """The tokens that are text."""
    ids = tuple(token for piece in pieces for token in piece.token_ids)
    return ids[:-1] if pieces[-1].finish_reason == "stop" else ids
