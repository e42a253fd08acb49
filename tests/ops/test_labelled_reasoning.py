"""The labelled reasoning traces: the same seed the same ones, right where they say they are."""

import json
import random
import re
import string
from collections import Counter
from itertools import pairwise
from pathlib import Path

import click.testing
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sluicegate.ops.evaluation import parse
from sluicegate.ops.labelled import __main__ as program
from sluicegate.ops.labelled.line import Line, rng
from sluicegate.ops.labelled.reasoning import PROBLEMS, reasoning_lines
from sluicegate.ops.labelled.reasoning_bad import LOOPS, looping
from sluicegate.ops.labelled.reasoning_bank import Split, Voice, banks
from sluicegate.ops.labelled.reasoning_dev_problems import residues, roots
from sluicegate.ops.labelled.reasoning_held_out_problems import hanoi

SPLITS: tuple[Split, Split] = ("dev", "held-out")


def count(text: str) -> int:
    """Tokens, roughly: words, signs and line ends, and each letter of a script that is not ours."""
    return len(re.findall(r"[a-zA-Z]+|\d|\S|\n", text))


def made(split: Split, seed: int = 1, scale: float = 0.02) -> list[Line]:
    return reasoning_lines(split, lambda part: rng(seed, part), count, scale)


def voice(language: str, split: Split, seed: int = 1) -> Voice:
    return Voice(language, banks(split)[language], random.Random(seed))


@pytest.mark.parametrize("split", SPLITS)
def test_the_same_seed_gives_the_same_set_and_no_text_twice(split: Split) -> None:
    lines = made(split)
    assert lines == made(split)
    assert {line.text for line in lines}.isdisjoint(line.text for line in made(split, seed=2))
    assert len({line.text for line in lines}) == len(lines)
    assert len({line.id for line in lines}) == len(lines)
    assert {line.kind for line in lines if line.label == "bad"} == {loop.kind for loop in LOOPS}


@pytest.mark.parametrize("split", SPLITS)
def test_good_ones_have_a_length_and_bad_ones_a_long_loop_behind_a_beginning(split: Split) -> None:
    for line in made(split):
        if line.label == "good":
            assert 150 <= count(line.text) <= 4000, line.id
            continue
        assert line.onset is not None
        assert count(line.text[: line.onset]) >= 200, line.id
        # Rounds are counted one by one, and the whole at once: blanks make a small difference.
        assert count(line.text[line.onset :]) >= 790, line.id


def test_the_splits_share_no_sentence_and_no_problem() -> None:
    def sentences(split: Split) -> set[str]:
        found: set[str] = set()
        for bank in banks(split).values():
            for entry in bank.values():
                for text in [entry] if isinstance(entry, str) else entry.values():
                    found |= {part.strip() for part in text.split("|")}
        return {part for part in found if len(part) > 15}

    assert sentences("dev").isdisjoint(sentences("held-out"))
    dev, held_out = ({one.__module__ for one in PROBLEMS[split]} for split in SPLITS)
    assert {one.rsplit("_", 1)[-1] for one in dev & held_out} == {"texts"}


@pytest.mark.parametrize("split", SPLITS)
def test_every_frame_has_the_slots_that_its_problem_fills(split: Split) -> None:
    """A misspelt slot fails here, not once in a thousand texts."""
    for language in banks(split):
        for problem in PROBLEMS[split]:
            if voice(language, split).has(problem.__name__):
                for seed in range(12):
                    text = problem(voice(language, split, seed))
                    assert "{" not in text or problem.__name__ in ("brackets", "drafts"), text


@pytest.mark.parametrize("split", SPLITS)
def test_ways_to_say_the_same_say_as_much(split: Split) -> None:
    for language, bank in banks(split).items():
        for name, table in bank.items():
            if isinstance(table, str):
                continue
            for key, text in table.items():
                assert all(part.strip() for part in text.split("|")), (language, name, key)
        lists = ("asides", "dither", "reread", "task", "after", "format", "wheel", "words")
        for entry in (
            *lists,
            *(f"para{n}" for n in range(1, 5)),
            *(f"intent{n}" for n in (1, 2, 3)),
        ):
            assert entry in bank, (language, entry)
        slots = {name for _, name, _, _ in string.Formatter().parse(str(bank["dither"])) if name}
        assert slots == {"a", "b", "c"}, language


_SUM = re.compile(r"(?<![+·×/÷-] )(?<![\w·×/÷.,)^-])-?\d+(?: [+-] \d+)+ = -?\d+(?![\w.,·/×÷^]\d)")
_REST = re.compile(r"(\d+) mod (\d+) = (\d+)")
_QUOTIENT = re.compile(r"(?<![\w·×.,])(\d+) [/÷:] (\d+) = (\d+)(?![\d.,·])")
_PRODUCT = re.compile(r"(?<![\w·×.,])(\d+) = (\d+)[·×](\d+)(?![·×\d])")


@pytest.mark.parametrize("split", SPLITS)
def test_what_is_computed_is_right(split: Split) -> None:
    checked = 0
    for line in made(split, scale=0.1):
        text = line.text.replace("−", "-")
        for said in _SUM.findall(text):
            left, right = said.split(" = ")
            terms = left.replace(" - ", " -").replace("+ ", "").split()
            assert sum(map(int, terms)) == int(right), (line.id, said)
            checked += 1
        for number, by, rest in _REST.findall(text):
            assert int(number) % int(by) == int(rest), line.id
            checked += 1
        for number, by, result in _QUOTIENT.findall(text):
            assert int(number) == int(by) * int(result), line.id
            checked += 1
        for number, one, two in _PRODUCT.findall(text):
            assert int(number) == int(one) * int(two), line.id
            checked += 1
    assert checked > 20


@given(st.integers(0, 10_000))
def test_the_first_number_with_both_remainders_is_found(seed: int) -> None:
    text = residues(voice("en", "dev", seed))
    given_, *_, last = text.split("\n") if "\n" in text else (text, text)
    asked = re.search(r"leaves (\d+) when divided by (\d+) and (\d+) when divided by (\d+)", given_)
    if asked is not None:
        r, p, s, q = map(int, asked.groups())
    else:
        asked = re.search(r"n mod (\d+) = (\d+) and n mod (\d+) = (\d+)", given_)
        assert asked is not None
        p, r, q, s = map(int, asked.groups())
    answer = re.search(r"(?:number is|must be) (\d+)", last)
    first = re.search(r"from (\d+)|n ≥ (\d+)", given_)
    assert answer is not None
    assert first is not None
    numbers = range(int(first[1] or first[2]), 10_000)
    assert int(answer[1]) == next(n for n in numbers if n % p == r and n % q == s)


@given(st.integers(0, 10_000))
def test_an_interval_that_is_halved_keeps_the_root(seed: int) -> None:
    text = roots(voice("en", "dev", seed))
    asked = re.search(r"x([²³]) = (\d+)", text)
    assert asked is not None
    power = 2 if asked[1] == "²" else 3
    ends = re.findall(r"\[([\d.]+), ([\d.]+)\]", text)
    widths = [float(high) - float(low) for low, high in ends]
    assert all(one > two for one, two in pairwise(widths))
    for low, high in ends:
        # Five digits are shown.
        assert (float(low) - 1e-5) ** power <= int(asked[2]) <= (float(high) + 1e-5) ** power


@given(st.integers(0, 10_000))
def test_no_disc_is_put_on_a_smaller_one(seed: int) -> None:
    text = hanoi(voice("en", "held-out", seed))
    moves = re.findall(r"[Dd]isc (\d)(?: from|:) (\w) (?:to|→) (\w)", text)
    size = max(int(disc) for disc, _, _ in moves)
    first, last = moves[0][1], text.rstrip(".").split("on ")[-1][0]
    towers: dict[str, list[int]] = {"A": [], "B": [], "C": []}
    towers[first] = list(range(size, 0, -1))
    for disc, start, end in moves:
        assert towers[start].pop() == int(disc)
        assert not towers[end] or towers[end][-1] > int(disc)
        towers[end].append(int(disc))
    assert towers[last] == list(range(size, 0, -1)), text[-80:]


def honest(_: Voice, __: tuple[int, int]) -> str:
    return "Some honest thought."


def rounds_of(kind: str) -> str:
    """A text of one kind of loop, from its second round on."""
    loop = next(one for one in LOOPS if one.kind == kind)
    looped = looping(voice("en", "dev"), loop, honest, count)
    return looped.text[looped.onset :]


@pytest.mark.parametrize("kind", [loop.kind for loop in LOOPS])
def test_a_loop_brings_nothing_new_behind_its_onset(kind: str) -> None:
    words = re.findall(r"\w+", rounds_of(kind).lower())
    assert len(words) > 300
    assert len(set(words)) <= 0.25 * len(words)


def test_a_shuffled_loop_says_each_sentence_once_a_round() -> None:
    said = Counter(re.split(r"(?<=[.?]) ", rounds_of("loop:shuffled").strip()))
    assert max(said.values()) - min(said.values()) == 0


def test_the_command_writes_a_file_that_can_be_evaluated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tokenizer:
        def encode(self, text: str) -> list[int]:
            return list(range(count(text)))

    def load(_: object) -> Tokenizer:
        return Tokenizer()

    def resolve(_: object) -> str:
        return "a model"

    monkeypatch.setattr(program, "load_tokenizer", load)
    monkeypatch.setattr(program, "resolve_model", resolve)
    words = [str(tmp_path), "--reasoning", "--split", "held-out", "--scale", "0.01"]
    ended = click.testing.CliRunner().invoke(program.command, words)
    assert ended.exit_code == 0, ended.output
    texts, problems = parse((tmp_path / "reasoning.jsonl").read_bytes().splitlines())
    assert problems == []
    manifest = json.loads((tmp_path / "reasoning-manifest.json").read_bytes())
    assert (manifest["split"], manifest["seed"]) == ("held-out", 1)
    assert sum(manifest["bad"].values()) == sum(text.label == "bad" for text in texts)
    both = click.testing.CliRunner().invoke(program.command, [*words, "--heavy"])
    assert both.exit_code == 2
    assert "two sets" in both.output
