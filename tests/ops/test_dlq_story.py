"""Dead letters for eyes and for files: lists, counts, the story, the export. Pure."""

import re
import unicodedata
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import assume, given
from hypothesis import strategies as st
from sluicegate.ops.dlq_advice import ADVICE
from sluicegate.ops.dlq_export import labelled, whole
from sluicegate.ops.dlq_letter import Head, Letter
from sluicegate.ops.dlq_story import story
from sluicegate.ops.dlq_tables import Newest, Tally, counted, listed
from sluicegate.ops.dlq_text import excerpt, marked
from sluicegate.ops.evaluation import parse
from sluicegate.ops.plain_text import escaped, plain
from sluicegate.schemas import (
    Flaw,
    Level,
    Lineage,
    Reason,
    Reasoning,
    ReasoningRecord,
    Rules,
    Usage,
)

from .dlq_letters import (
    NOW,
    attempt,
    job,
    moved,
    rejected,
    trip,
    undecodable,
    unroutable,
    view,
    written_again,
)


class TestTables:
    def test_the_newest(self) -> None:
        newest = Newest(3)
        for number in [4, 1, 9, 2, 8]:
            at = NOW + timedelta(seconds=number)
            letter = view(msgspec.structs.replace(rejected(f"j-{number}"), at=at), position=number)
            newest.feed(letter.head)
        newest.feed(view(b"?", position=99).head)
        assert [head.job_id for head in newest.heads()] == ["j-9", "j-8", "j-4"]
        assert newest.seen == 6

    @given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 30)), max_size=30))
    def test_copies_are_one_letter_as_new_as_the_newest(self, times: list[tuple[int, int]]) -> None:
        newest, tally = Newest(3), Tally()
        for position, (number, second) in enumerate(times):
            letter = rejected(f"j-{number}", id=f"{number}", at=NOW + timedelta(seconds=second))
            head = view(letter, position=position).head
            newest.feed(head)
            tally.feed(head)
        last = {
            number: max((s, p) for p, (n, s) in enumerate(times) if n == number)
            for number, _ in times
        }
        wanted = sorted(last, key=lambda number: last[number], reverse=True)[:3]
        heads = newest.heads()
        assert [head.id for head in heads] == [str(number) for number in wanted]
        assert [newest.copies(head) for head in heads] == [
            sum(n == number for n, _ in times) for number in wanted
        ]
        assert (newest.seen, newest.more) == (len(last), len(times) - len(last))
        counts = tally.counts()
        assert (counts.total, counts.copies) == (newest.seen, newest.more)

    def test_copies_are_told(self) -> None:
        newest, tally = Newest(0), Tally()
        for each in (*written_again("one", 3), rejected("two")):
            newest.feed(view(each).head)
            tally.feed(view(each).head)
        lines = list(listed(newest.heads(), NOW, copies=newest.copies))
        assert [line.split()[2] for line in lines] == ["COPIES", "3", "1"]
        assert next(counted(tally.counts(), NOW)).startswith(
            "2 dead letters (and 2 more copies of them)"
        )

    def test_a_narrow_terminal(self) -> None:
        heads = [view(b"?", moved("rejected")).head]
        narrow, wide = (list(listed(heads, NOW, width=width)) for width in (40, 400))
        assert narrow[1].endswith("…")
        assert len(narrow[1]) < len(wide[1])
        long = [view(rejected("j" * 60)).head]
        assert ("j" * 60) in "".join(listed(long, NOW, width=40))

    def test_rows_and_counts(self) -> None:
        tally = Tally()
        heads: list[Head] = []
        for message in (rejected(), rejected("job-2"), undecodable(), unroutable()):
            heads.append(view(message).head)
            tally.feed(heads[-1])
        heads.append(view(b"\x1b[2J", moved("rejected")).head)
        text = "\n".join(listed(heads, NOW))
        assert text.count("perplexity: high_perplexity") == 2
        assert "\x1b" not in text
        counts = tally.counts()
        assert counts.reasons == {
            "checks_rejected": 2,
            "malformed_json": 1,
            "result_unroutable": 1,
        }
        assert sum(counts.hours.values()) == 4
        lines = list(counted(counts, NOW))
        assert any(re.search(r"checks_rejected +2 +█{40}$", line) for line in lines)
        assert any(re.search(r"malformed_json +1 +█{20}$", line) for line in lines)
        assert list(counted(Tally().counts(), NOW)) == ["0 dead letters, 0.0 MiB"]


class TestEscaped:
    @given(st.text())
    def test_the_same_value_and_nothing_that_acts(self, text: str) -> None:
        data = escaped(msgspec.json.encode({"text": text, text: 1}))
        assert msgspec.json.decode(data) == msgspec.json.decode(
            msgspec.json.encode({"text": text, text: 1})
        )
        assert not {unicodedata.category(char) for char in data.decode()} & {"Cc", "Cf", "Zl", "Zp"}

    def test_what_turns_the_direction_of_writing(self) -> None:
        data = escaped(msgspec.json.encode("a\u202eb\u2066\x7f\x9b\U000e0041é"))
        assert data.decode() == r'"a\u202eb\u2066\u007f\u009b\udb40\udc41é"'


class TestStory:
    def told(self, letter: Letter, **more: Any) -> str:
        given: dict[str, Any] = {"now": NOW, "width": 100, "colour": False, **more}
        return "\n".join(story(letter, **given))

    def test_of_a_job_that_the_checks_rejected(self) -> None:
        text = self.told(view(rejected(metadata={"tenant": "acme"})))
        for said in (
            "checks_rejected: no text passed the checks",
            "perplexity: high_perplexity",
            "Tell me of rivers.",
            "tenant=acme",
            "attempt 1",
            "seed     1002",
            "temperature=0.3",
            "Answer in English.",
            "5 in, 9 out, 2 wasted, ended by stop",
            "runs found character_run, 12 against 8 “!!!!!!”: went back, 4 tokens kept, 5 wasted",
            "93.5 against 41.25",
            "no language was declared",
            "| Traceback",
            "Rivers run. ⟦qzx vvk qqq⟧.",
            "the engine failed under attempt 1 on gpu-1:77",
            "sluicegate=0.1.0",
            ADVICE[Flaw.HIGH_PERPLEXITY].split(":")[0][:40],
        ):
            assert said in text, said
        assert text.index("attempt 1") < text.index("the engine failed") < text.index("attempt 2")

    def test_of_reasoning_that_came_to_no_answer(self) -> None:
        thoughts = "It is five. Or six. Or six. Or six."
        record = ReasoningRecord(
            mode="cut",
            effort="low",
            cap=1024,
            tripped=True,
            flaw=Flaw.REASONING_LOOP,
            gate="reasoning_loop",
            tokens=40,
            dropped_tokens=212,
            cuts=2,
            ended="cut",
            first_answer_token_s=0.0512,
            resumed_prompt_tokens=75,
            resumed_cached_tokens=64,
            text=thoughts,
        )
        died = attempt(
            1,
            flaw=Flaw.REASONING_NO_ANSWER,
            found_by="reasoning",
            text="",
            text_chars=0,
            reasoning=record,
            usage=Usage(
                prompt_tokens=5, completion_tokens=49, wasted_tokens=212, reasoning_tokens=40
            ),
            trips=(
                trip(channel="reasoning", action="cut", level=Level.REASONING, quote="Or six."),
                trip(channel="reasoning", action="give_up", chars=(11, 19), quote=""),
                trip(action="give_up", chars=(0, 2), quote="answer"),
            ),
        )
        letter = rejected(reason=Reason.GATE_TRIPPED, flaw=Flaw.REASONING_NO_ANSWER)
        assert letter.job is not None
        asked = msgspec.structs.replace(
            letter.job, lineage=Lineage(attempts=(died,)), reasoning=Reasoning(effort="low")
        )
        text = self.told(view(msgspec.structs.replace(letter, job=asked)))
        for said in (
            "effort=low",
            "5 in, 49 out (40 of them reasoning), 212 wasted",
            "40 tokens, 212 thrown away in 2 cuts, closed by the guard",
            "; reasoning_loop found by reasoning_loop",
            "mode cut, effort low, cap 1024 tokens",
            "answer's first token 0.05 s after the cut, 64 of 75 tokens from the cache",
            "reasoning, token 4: runs found",
            "“Or six.”: cut there, 4 tokens kept, 5 wasted",
            "reasoning, 35 of 35 characters on record:",
            # Where the answer was bad is no place in the reasoning.
            "It is five.⟦ Or six.⟧ Or six. Or six.",
            "reasoning.effort=low",
        ):
            assert said in text, said

    def test_there_is_advice_for_every_flaw_of_the_reasoning(self) -> None:
        of_reasoning = [flaw for flaw in Flaw if flaw.startswith("reasoning_")]
        assert of_reasoning
        for flaw in of_reasoning:
            assert "--set" in ADVICE[flaw], flaw

    def test_colour_in_place_of_brackets(self) -> None:
        text = self.told(view(rejected()), colour=True)
        assert "\x1b[31m\x1b[1mqzx vvk qqq\x1b[0m" in text
        assert "⟦" not in text

    def test_nothing_is_marked_in_what_stands_for_a_hidden_text(self) -> None:
        letter = view(rejected())
        assert "⟦" in self.told(letter)
        assert "⟦" not in self.told(msgspec.structs.replace(letter, hidden="redacted"))

    def test_of_what_the_broker_moved(self) -> None:
        text = self.told(view(job(), moved("delivery_limit")))
        assert "gave it up after 6 deliveries" in text
        assert "delivery_limit in queue sluice.v1.jobs.interactive" in text

    def test_nothing_in_it_drives_the_terminal(self) -> None:
        wild = "\x1b]0;owned\x07\x9b31m\u202eevil\r\x00"
        shown = attempt(1, text=wild, text_chars=len(wild), detail=wild, worker="w\x1b[2J")
        letter = rejected(metadata={"x": wild})
        assert letter.job is not None
        kept = msgspec.structs.replace(letter.job.lineage, attempts=(shown,))
        letter = msgspec.structs.replace(
            letter,
            id="id\x1b[31m",
            detail=wild,
            job=msgspec.structs.replace(letter.job, lineage=kept),
        )
        for each in (view(letter), view(undecodable()), view(wild.encode())):
            text = self.told(each)
            assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e]", text)

    def test_of_a_long_text_the_part_with_the_bad_place(self) -> None:
        text = "a" * 5000 + "BAD" + "b" * 5000
        shown, spans, before, after = excerpt(text, [(5000, 5003)], 1000)
        assert [shown[start:end] for start, end in spans] == ["BAD"]
        assert (len(shown), before, after) == (1000, True, True)

    @given(st.text(max_size=80), st.lists(st.integers(0, 80), max_size=6), st.integers(1, 90))
    def test_an_excerpt_is_a_part_of_the_text(
        self, text: str, places: list[int], limit: int
    ) -> None:
        edges = sorted({min(place, len(text)) for place in places})
        spans = list(zip(edges[::2], edges[1::2], strict=False))
        shown, inside, before, after = excerpt(text, spans, limit)
        assert len(shown) <= limit
        assert shown in text
        assert (before or after) == (len(shown) < len(text))
        for start, end in inside:
            assert 0 <= start <= end <= len(shown)

    @given(st.text(max_size=60), st.integers(0, 60), st.integers(0, 60))
    def test_marking_keeps_the_text(self, text: str, one: int, other: int) -> None:
        assume("⟦" not in text and "⟧" not in text)
        start, end = sorted((min(one, len(text)), min(other, len(text))))
        found = "\n".join(marked(text, [(start, end)], colour=False))
        assert found.count("⟦") == (end > start)
        kept = found.replace("⟦", "").replace("⟧", "")
        assert _trimmed(kept) == _trimmed(plain(text))


def _trimmed(text: str) -> list[str]:
    return [line.rstrip() for line in text.split("\n")]


class TestExport:
    def test_what_evaluate_reads(self) -> None:
        letter = rejected(profile="code")
        lines = [msgspec.json.encode(line) for line in labelled(view(letter))]
        texts, problems = parse(lines)
        assert problems == []
        assert [(each.id, each.label, each.kind) for each in texts] == [
            ("job-1:1", "bad", "high_perplexity"),
            ("job-1:2", "bad", "high_perplexity"),
        ]
        assert texts[1].onset == 12
        assert texts[0].onset is None
        assert (texts[0].profile, texts[0].prompt) == ("code", "Tell me of rivers.")

    def test_the_reasoning_of_those_that_came_to_no_answer(self) -> None:
        letter = rejected(profile="code")
        assert letter.job is not None
        thought = ReasoningRecord(
            mode="cut",
            effort="low",
            cap=40,
            tripped=True,
            flaw=Flaw.REASONING_LOOP,
            gate="reasoning_loop",
            ended="cut",
            text="Or five. Or six. Or six.",
        )
        first, second = letter.job.lineage.attempts
        lineage = Lineage(attempts=(msgspec.structs.replace(first, reasoning=thought), second))
        job = msgspec.structs.replace(letter.job, lineage=lineage)
        seen = view(msgspec.structs.replace(letter, job=job))
        lines = [msgspec.json.encode(line) for line in labelled(seen, "reasoning")]
        (text,), problems = parse(lines)
        assert problems == []
        assert (text.id, text.label, text.kind) == ("job-1:1", "bad", "reasoning_loop")
        assert text.text == thought.text
        assert len(list(labelled(seen))) == 2, "the texts, as before"

    def test_an_unknown_profile_is_left_out_and_rules_go_along(self) -> None:
        letter = rejected()
        assert letter.job is not None
        odd = msgspec.structs.replace(
            letter.job, profile="nobodys", rules=Rules(must_include=("sea",))
        )
        (line, _) = labelled(view(msgspec.structs.replace(letter, job=odd)))
        assert "profile" not in line
        assert msgspec.json.encode(line["rules"]) == b'{"must_include":["sea"]}'

    def test_texts_that_were_accepted_or_broken_off_are_not_bad(self) -> None:
        assert list(labelled(view(unroutable()))) == []
        assert list(labelled(view(b"?"))) == []
        letter = rejected()
        assert letter.job is not None
        off = attempt(1, flaw=None, found_by="", finish_reason=None)
        kept = msgspec.structs.replace(letter.job.lineage, attempts=(off,))
        cut = msgspec.structs.replace(letter, job=msgspec.structs.replace(letter.job, lineage=kept))
        assert list(labelled(view(cut))) == []

    def test_raw(self) -> None:
        letter = view(rejected())
        line = msgspec.json.decode(msgspec.json.encode(whole(letter)))
        assert line["message"] == msgspec.json.decode(letter.body)
        assert line["reason"] == "checks_rejected"
        raw = msgspec.json.decode(msgspec.json.encode(whole(view(b"\xff\x00", moved("rejected")))))
        assert raw["body"] == "/wA="
        assert raw["deaths"][0]["reason"] == "rejected"
