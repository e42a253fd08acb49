"""An answer that stands complete in reasoning is taken from it; anything less is not."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sluicegate.guards.reasoning.salvage import complete_answer
from sluicegate.schemas import StructuredOutput

THOUGHT = "The user asks for a sum. 40 and 2 make 42.\n\n"
CITY = StructuredOutput(
    json_schema={
        "type": "object",
        "properties": {"city": {"type": "string"}, "people": {"type": "integer"}},
        "required": ["city"],
    }
)
CHOICE = StructuredOutput(choice=("A", "B", "New York", "New York City"))
DIGITS = StructuredOutput(regex="[0-9]+")
GRAMMAR = StructuredOutput(grammar='root ::= "42"')

# A label, a sentence that answers, and a doubt, in each language of the table.
LANGUAGES = {
    "en": ("Final answer", "The sum is 42.", "Wait, I forgot the carry."),
    "de": ("Endgültige Antwort", "Die Summe ist 42.", "Moment, ich habe etwas vergessen."),
    "fr": ("Réponse finale", "La somme vaut 42.", "Attends, j'ai oublié la retenue."),
    "es": ("Respuesta final", "La suma es 42.", "Espera, olvidé algo."),
    "pt": ("Resposta final", "A soma é 42.", "Espere, esqueci alguma coisa."),
    "it": ("Risposta finale", "La somma è 42.", "Aspetta, ho dimenticato il riporto."),
    "ru": ("Окончательный ответ", "Сумма равна 42.", "Подожди, я забыл перенос."),
    "zh": ("最终答案", "总和是42。", "等等，我忘了进位。"),
    "ja": ("最終回答", "合計は42です。", "待って、繰り上がりを忘れた。"),
    "ko": ("최종 답변", "합은 42입니다.", "잠깐, 올림을 잊었다."),
    "ar": ("الإجابة النهائية", "المجموع هو 42.", "انتظر، لقد نسيت شيئا."),
    "hi": ("अंतिम उत्तर", "योग 42 है।", "रुको, मैं कुछ भूल गया।"),
}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_labelled_answer_in_each_language(language: str) -> None:
    label, answer, doubt = LANGUAGES[language]
    for form in (
        "{}: ",
        "**{}:** ",
        "**{}**\n\n",
        "## {}\n",
        "{}\n",
        "**{}**: ",
        "{}：",
        "### {}:\n",
    ):
        text = THOUGHT + form.format(label) + answer
        assert complete_answer(text, None, ended=True) == answer, form
        # Cut there, it may have been half of the answer.
        assert complete_answer(text, None, ended=False) is None
        for behind in (f" {doubt}", f"\n{doubt}", f"\n\n{doubt}", f"\n\n{doubt} {answer}"):
            assert complete_answer(text + behind, None, ended=True) is None, behind


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_loop_of_the_answer_in_each_language(language: str) -> None:
    label, answer, doubt = LANGUAGES[language]
    for form in ("{}: ", "**{}**\n\n", "## {}\n"):
        unit = f"{form.format(label)}{answer}\n\n"
        for cut in range(0, len(unit), 3):
            text = THOUGHT + unit * 3 + unit[:cut]
            assert complete_answer(text, None, ended=False) == answer
        doubted = f"{form.format(label)}{answer} {doubt}\n\n"
        assert complete_answer(THOUGHT + doubted * 5, None, ended=False) is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>42</answer>", "42"),
        ("<answer>\nForty-two.\n\nIn words.\n</answer>\n", "Forty-two.\n\nIn words."),
        ("**<answer>** no", None),
        ("So the answer is \\boxed{42}.", "\\boxed{42}"),
        ("Therefore, the answer is: $\\boxed{\\frac{1}{2}}$.\n", "\\boxed{\\frac{1}{2}}"),
        ("$$\nx = \\boxed{\\text{a}_{1}}\n$$", "\\boxed{\\text{a}_{1}}"),
        ("\\[\n\\boxed{42}\n\\]\n\nI hope it is correct.", "\\boxed{42}"),
        ("\\boxed{42}\n\nDone.", "\\boxed{42}"),
        ("**Final Answer**\n\n\\[ \\boxed{42} \\]", "\\[ \\boxed{42} \\]"),
        ("**Final Answer**\n\n```py\nprint(1)\n```", "```py\nprint(1)\n```"),
        ("Final answer:\n\nOne.\n\nTwo:\n\n1. a\n2. b", "One.\n\nTwo:\n\n1. a\n2. b"),
        ("Final answer:\n\n| a | b |\n|---|---|\n| 1 | 2 |", "| a | b |\n|---|---|\n| 1 | 2 |"),
        ("Final answer: **Paris**", "**Paris**"),
        ("Final answer: Paris\n\nI'm done.", "Paris"),
        ("**Answer:** Paris", "Paris"),
        ("Answer: A", "A"),
        ("FINAL ANSWER: 1,234.5 km", "1,234.5 km"),
        ("The final answer is: 42", "42"),
        ("Final answer: 41\n\nWait, no: 40 + 2.\n\nFinal answer: 42.", "42."),
        ("**Final Answer**\n\n**Final Answer:** 42", "42"),
        ("【最终答案】\n42", "42"),
    ],
)
def test_what_the_model_ended_with(text: str, answer: str | None) -> None:
    assert complete_answer(THOUGHT + text, None, ended=True) == answer


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n",
        "Morning! What shall we work on first?",
        "Tally so far. 00431: yes. 00432: no.\n3",
        "A final answer could be: 42",
        "The final answer should be short.",
        "Final answer should be short.",
        "Final answer: should be short.",
        "Final answer: must name the city.",
        "Final answer: I'll say that it is 42.",
        "Final answer: let me write it down.",
        "Final answer: I think it's 42.",
        "Final answer: maybe 42.",
        "Final answer: unknown",
        "Final answer: concise, friendly, with the refund policy.",
        "Final answer: Provide the three steps and a warning.",
        "**Final Answer**\n\nA short poem of four lines.",
        "最终答案：简短地说明原因。",
        "Final answer: as above.",
        "Final answer: X",
        "> Final answer: 42.",
        "The prompt wants me to end with:\nFinal answer: 42.",
        "Final answer: 42?",
        "Final answer: is it 42? Or 43?",
        "Final answer: 42...",
        "Final answer: 42…",
        "Final answer: ...",
        "Final answer: <answer>",
        "Final answer: [your answer]",
        "Final answer: your answer here",
        "Final answer: the value (which is",
        "Final answer: `x",
        "Final answer: **x",
        "Final answer: the city of",
        "Final answer: The reasons are:",
        "Final answer: red, green,",
        "Final answer format: one word.",
        "Final answer (draft): 42.",
        "Draft final answer: 42.",
        "Possible answer: 42.",
        "- Final answer: 42.",
        "3. Final answer: 42.",
        "Final answer: 42.\n\nVerification: 6 times 7 is 42.",
        "Final answer: 42.\n\n6 times 7 is 41 and 1.",
        "Final answer: 42.\n\nThe user may want more.",
        "Final answer:",
        "**Final Answer**",
        "**Final Answer**\n\n",
        "**Final Answer**\n\n```py\nprint(1)",
        "**Final Answer**\n\nThe steps:\n\n1. Do this and then",
        "**Final Answer**\n\n$$x = 1",
        "**Final Answer**\n\n\\begin{cases} x",
        "**Final Answer**\n\nIt is 42.</think>",
        "**Final Answer**\n\n<think>It is 42.",
        "**Final Answer**\n\nIt is 42.<|im_end|>",
        "```\nFinal answer: 42.\n```",
        "```\nFinal answer: 42.",
        "Question: What is 2 + 2?\nAnswer: 4.",
        "Q: one\nAnswer: 4.\n\nQ: two\nAnswer: 5.",
        "The examples are:\nAnswer: 4.",
        "I must put it in <answer>42</answer>",
        "The format:\n<answer>42</answer>",
        "<answer>your answer</answer>",
        "<answer>...</answer>",
        "<answer></answer>",
        "<answer>42",
        "<answer>42</answer>\n\nWait, no.",
        "<answer>42</answer>\n\nThe carry is missing.",
        "<answer>a<answer>b</answer>c</answer>",
        "<answer>Is it 42?</answer>",
        "42</answer>",
        "The format is \\boxed{A}.",
        "I should write something like \\boxed{42}.",
        "If n is 3 the answer is \\boxed{42}.",
        "Maybe the answer is \\boxed{42}.",
        "For example:\n\n\\boxed{42}",
        "\\boxed{}",
        "\\boxed{...}",
        "\\boxed{answer}",
        "\\boxed{42",
        "\\boxed{\\frac{1}{2}",
        "\\boxed{42}\n\nWait, no.",
        "\\boxed{42} for the first and 43 for the second.",
        "\\boxed{42?}",
        "\\boxed{42}...",
        "Let me try \\boxed{42}.",
        "I'll put the letter in \\boxed{B}",
    ],
)
def test_what_is_no_answer(text: str) -> None:
    assert complete_answer(THOUGHT + text, None, ended=True) is None
    assert complete_answer(THOUGHT + text, None, ended=False) is None
    assert complete_answer(text, None, ended=True) is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<answer>42</answer>", "42"),
        ("<answer>42</answer>\n" * 7 + "<answ", None),
        ("The answer is \\boxed{42}", "\\boxed{42}"),
        ("\\boxed{42}\n\n" * 5 + "\\boxed{4", "\\boxed{42}"),
        ("\\boxed{42}\n\nYes.\n\n" * 5 + "\\boxed{42}\n\nYe", "\\boxed{42}"),
        ("\\boxed{42}\n\nWait, again.\n\n" * 5 + "\\boxed{42}\n\nWa", None),
        ("\\boxed{42}\n\n\\boxed{43}\n\n\\boxed{4", None),
        ("\\boxed{42} for the first.\n\n" * 5, None),
        ("**Final Answer**\n\\boxed{42}\n\n" * 4, "\\boxed{42}"),
        ("**Final Answer**\n\\boxed{42}\n\n" * 4 + "**Final An", "\\boxed{42}"),
        ("**Final Answer**\n\nParis\n\n" * 4 + "**Fin", "Paris"),
        # What comes round may have been one answer and the beginning of another.
        ("Final answer: 42\n\nFinal answer:", None),
        ("Final answer: 42\n\nFinal answer: 4", None),
        ("Final answer: a cat.\n\nFinal answer: a dog.\n\n" * 3, None),
        # More than the answer comes round.
        ("Final answer: 42\n\nI have the sum.\n\n" * 4, None),
        ("Final answer: 42\n", "42"),
        ("Final answer: 42", None),
        ("Final answer: 42.", None),
        ("Final answer: $x = 42$\n", "$x = 42$"),
        ("**Final Answer**\n\n**Paris**\n\n", "**Paris**"),
        ("Final answer: There are three ways.\n\n", None),
        ("**Final Answer**\n\nThere are three ways.\n\n", None),
        ("Answer: 42\n", None),
        ("Answer: 42\n\n" * 3, "42"),
    ],
)
def test_what_was_cut(text: str, answer: str | None) -> None:
    assert complete_answer(THOUGHT + text, None, ended=False) == answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"city": "Paris"}', '{"city": "Paris"}'),
        ('```json\n{\n  "city": "Paris",\n  "people": 2\n}\n```\n', None),
        ('The answer is {"city": "Paris"}.', None),
        ('Final answer: {"city": "a }{ \\" ]"}', '{"city": "a }{ \\" ]"}'),
        ('{"city": "Rome"}\n\nNo, that is in Italy.\n\n{"city": "Paris"}', '{"city": "Paris"}'),
        ('JSON: {"city": "Paris"}', '{"city": "Paris"}'),
        ('So the final JSON is: {"city": "Paris"}', '{"city": "Paris"}'),
        ('The output is `{"city": "Paris"}`.', '{"city": "Paris"}'),
        ('{"city": "Paris"}\n\nDone.', '{"city": "Paris"}'),
        ('{"city": "Paris"}\n' * 6, '{"city": "Paris"}'),
        ('{"city": "Paris"}\n' * 6 + '{"city": "Pa', '{"city": "Paris"}'),
        ('So:\n{"city": "Paris"}\n' * 6 + 'So:\n{"ci', '{"city": "Paris"}'),
        ('So, the JSON:\n{"city": "Paris"}', '{"city": "Paris"}'),
    ],
)
def test_json_that_fits(text: str, answer: str | None) -> None:
    if answer is None:
        answer = text[text.index("{") : text.rindex("}") + 1]
    for ended in (True, False):
        assert complete_answer(THOUGHT + text, CITY, ended=ended) == answer


@pytest.mark.parametrize(
    "text",
    [
        '{"city": 1}',
        '{"people": 2}',
        '{"city": "Paris"',
        '{"city": "Paris", "people": {"city": "Rome"}',
        '{"a":\n  {"city": "Paris"}',
        '[\n  {"city": "Paris"},\n  {"city": "Rome"}',
        '[{"city": "Paris"}]',
        '{"city": "Paris"}\n\nWait, that is wrong.',
        '{"city": "Paris"}\n\nThe number is missing.',
        '{"city": "Paris"}\n\nWait.\n\n{"city": "Paris"}\n\nWait.\n\n{"city": "Paris"}\n\nWai',
        '{"city": "Paris"}\n{"city": "Rome"}\n{"city": "P',
        'For example:\n{"city": "Paris"}',
        'The output should look like this:\n```json\n{"city": "Paris"}\n```',
        'Draft:\n{"city": "Paris"}',
        'I could say {"city": "Paris"}',
        'Not {"city": "Paris"}',
        'A schema: {"city": "Paris"}',
        'Observation: {"city": "Paris"}',
        '"capital": {"city": "Paris"}',
        '{capital: {"city": "Paris"}',
        '{"city": "..."}',
        '{"city": "<name>"}',
        '{"city": "string"}',
        '{"city": "</think>"}',
        '{"city": NaN}',
        "{'city': 'Paris'}",
        '{"city": "Paris",}',
        '{"city": "Paris"}...',
        '{"city": "Paris"}]',
        '{"city": "Rome"}\n{"city": "Paris"}',
        '{"city": "Paris"} -> not found\n' * 5,
        '```py\nshow(\n{"city": "Paris"}\n)\n```',
        '"Paris"',
        "{}",
    ],
)
def test_json_that_is_no_answer(text: str) -> None:
    for ended in (True, False):
        assert complete_answer(THOUGHT + text, CITY, ended=ended) is None


def test_a_schema_repeated_is_no_answer_by_it() -> None:
    schema: dict[str, Any] = {"type": "object"}
    asked = StructuredOutput(json_schema=schema)
    for text in ("{}", json.dumps(schema), json.dumps({"type": "object", "properties": {"a": {}}})):
        assert complete_answer(THOUGHT + text, asked, ended=True) is None
    assert complete_answer(THOUGHT + '{"a": 1}', asked, ended=True) == '{"a": 1}'
    # Nothing is required, but something is asked for.
    asked = StructuredOutput(json_schema={"properties": {"city": {"type": "string"}}})
    assert complete_answer('{"a": 1}', asked, ended=True) is None
    assert complete_answer('{"city": "Ulm"}', asked, ended=True) == '{"city": "Ulm"}'


def test_a_schema_that_nothing_can_be_held_against() -> None:
    for schema in ({"$ref": "https://example.org/x.json"}, {"type": 7}, {"pattern": "("}):
        asked = StructuredOutput(json_schema=schema)
        assert complete_answer('{"a": 1}', asked, ended=True) is None


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Final answer: B", "B"),
        ("**Final Answer**\n\n**B**", "B"),
        ("Answer: B.", "B"),
        ('Final answer: "New York"', "New York"),
        ("\\boxed{B}", "B"),
        ("The answer is $\\boxed{ B }$.", "B"),
        ("<answer> A </answer>", "A"),
        ("Final answer: C", None),
        ("Final answer: b", None),
        ("Final answer: A or B", None),
        ("Final answer: B\n\nWait, A.", None),
        ("B", None),
        ("The options are:\nA\nB", None),
        ("I prefer B.", None),
        ("The answer is like \\boxed{B}.", None),
    ],
)
def test_a_choice(text: str, answer: str | None) -> None:
    assert complete_answer(THOUGHT + text, CHOICE, ended=True) == answer


def test_a_choice_that_may_be_the_beginning_of_another() -> None:
    assert complete_answer("Final answer: New York", CHOICE, ended=False) is None
    assert complete_answer("Final answer: New York\n", CHOICE, ended=False) == "New York"
    assert complete_answer("Final answer: New York\n" * 3, CHOICE, ended=False) == "New York"


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Final answer: 42", "42"),
        ("Final answer: **42**.", "42"),
        ("The answer is \\boxed{42}", "42"),
        ("<answer>42</answer>", "42"),
        ("Final answer: x42", None),
        ("42", None),
        ("So it is 42.", None),
        ("Final answer: 42 or 43", None),
    ],
)
def test_a_pattern(text: str, answer: str | None) -> None:
    assert complete_answer(THOUGHT + text, DIGITS, ended=True) == answer
    assert complete_answer(THOUGHT + text, GRAMMAR, ended=True) is None


def test_patterns_that_take_forever_or_are_none() -> None:
    long = "Final answer: " + "a" * 5_000
    for pattern in ("(a|a)*b", "(a+)+b", "(", "(?R)"):
        assert complete_answer(long, StructuredOutput(regex=pattern), ended=True) is None


BITS = st.sampled_from(
    [
        "Final answer: ",
        "**Final Answer**\n",
        "Answer:",
        "\n",
        "\n\n",
        " ",
        "42",
        "Paris.",
        "\\boxed{",
        "}",
        "{",
        '{"city": "Paris"}',
        "[",
        "]",
        '"',
        "<answer>",
        "</answer>",
        "<think>",
        "```\n",
        "Wait",
        "最终答案：",
        "\\",
        "**",
        "$",
        "`",
        ".",
    ]
)


@given(
    text=st.lists(BITS, max_size=40).map("".join),
    asked=st.sampled_from([None, CITY, CHOICE, DIGITS]),
    ended=st.booleans(),
)
@example(text="**Final Answer**\n\n\n", asked=None, ended=True)
def test_an_answer_is_a_part_of_the_reasoning(
    text: str,
    asked: StructuredOutput | None,
    ended: bool,
) -> None:
    answer = complete_answer(text, asked, ended=ended)
    if answer is not None:
        assert answer in text
        assert answer == answer.strip()
        assert answer
        assert "answer>" not in answer
        assert "think>" not in answer
        if asked is CITY:
            assert isinstance(json.loads(answer)["city"], str)
        elif asked is CHOICE:
            assert answer in ("A", "B", "New York", "New York City")
        elif asked is DIGITS:
            assert answer.isdecimal()


@pytest.mark.parametrize(
    "text",
    [
        "[" * 500_000,
        '{"a":' * 100_000,
        "{\n" * 250_000,
        "\\boxed{" * 70_000,
        "```\n" * 125_001,
        "*" * 500_000,
        "Final answer: " * 36_000,
        "x [1] " * 80_000,
        '"' * 500_000,
        " " * 500_000,
        "\n" * 500_000,
        "<answer>" * 60_000,
        "Final answer:\n" + "(" * 480_000,
        "Final answer: " + "1" * 480_000,
        "Final answer: " + "$" * 480_000,
        "```py\n" + "x = 1\n" * 80_000,
        "\\" * 500_000,
    ],
    ids=lambda text: repr(text[:16]),
)
@pytest.mark.parametrize("asked", [None, CITY, CHOICE, DIGITS])
def test_no_text_is_too_long(text: str, asked: StructuredOutput | None) -> None:
    if asked is not DIGITS or not text.endswith("1"):
        assert complete_answer(text, asked, ended=False) is None
        assert complete_answer(text + ".", asked, ended=True) is None
