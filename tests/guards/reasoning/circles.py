"""Reasoning written for tests that does not get on."""

import random
from collections.abc import Iterable, Sequence

from .traces import THOUGHT, trials

UNITS = {
    "en": "Maybe 26.5. They want it short. So 26.53 then. Hmm, or 27. But 27 is wrong by a lot. ",
    "de": "Vielleicht 26,5. Sie wollen es kurz. Also 26,53. Oder 27. Aber 27 liegt weit daneben. ",
    "fr": "Peut-être 26,5. Ils le veulent court. Donc 26,53. Ou bien 27. Mais 27 est très loin. ",
    "es": "Quizás 26,5. Lo quieren corto. Entonces 26,53. O tal vez 27. Pero 27 está muy lejos. ",
    "ru": "Может быть, 26,5. Им нужно коротко. Тогда 26,53. Или всё же 27. "
    "Но 27 далеко от истины. ",
    "zh": "也许是26.5。他们要简短的。那就26.53吧。或者是27。但是27差得太多了。",
    "ja": "たぶん26.5だろう。短い答えが欲しいらしい。では26.53にする。"
    "それとも27か。でも27は違いすぎる。",
    "ar": "ربما 26.5. يريدون جوابا قصيرا. إذن 26.53. أو ربما 27. لكن 27 بعيد جدا. ",
    "hi": "शायद 26.5। उन्हें छोटा चाहिए। तो 26.53 ही सही। या फिर 27। पर 27 बहुत गलत है। ",
}

# What is numbered, though it is the same.
COUNTED = {
    "en": "The answer is still wrong. Let me check the whole of it again.",
    "de": "Das Ergebnis ist immer noch falsch. Ich prüfe alles noch einmal.",
    "zh": "答案还是不对。我再从头检查一遍。",
    "ru": "Ответ всё ещё неверен. Проверю всё с самого начала.",
}

PARAPHRASES = (
    (
        "I should look at the items. Let me look at its items. The items should be looked at now. "
        "So I look at the items. Looking at the items is what I should do. Now let me look. "
        "I will look at the items now. Let me now look at the items. Its items are what I look at. "
        "First I should look at its items. I should now look at them. Let me look at them first. "
    ),
    (
        "I'm on it. I'll set this up. I'll open the file. I'll get going. I'm going to open it. "
        "Let me get this going. I'll get it set up. I'll open it now. I'm getting going now. "
        "Let me open the file. I'm setting this up now. I'll go and open it. Let me set it up. "
    ),
)
REOPENINGS = (
    "Actually, I think I have it. The answer must be the second one.\n\n"
    "Wait, let me re-read the task. The task wants the answer.\n\n"
    "Actually, I think the answer is the second one. Let me re-read it.\n\n"
    "Wait, let me think. The task wants the second answer, I think.\n\n"
    "Actually, wait. Let me re-read the task. I have the answer, I think.\n\n"
)


def shuffled(sentences: Sequence[str], length: int, rng: random.Random, blank: str = " ") -> str:
    """Sentences that come round in an order that always changes."""
    text: list[str] = []
    while len(text) < length:
        text += rng.sample(sentences, len(sentences))
    return blank.join(text) + blank


def split(text: str) -> list[str]:
    marked = text.replace("。", "。|").replace("। ", "।|").replace(". ", ".|")
    return [part for part in marked.split("|") if part.strip()]


def bad() -> Iterable[tuple[str, str, str]]:
    """Names, the thought before, and the loop."""
    rng = random.Random(11)
    for language, unit in UNITS.items():
        blank = "" if language in ("zh", "ja") else " "
        before = trials(language, 6, rng)
        yield f"exact {language}", before, unit * 30
        yield f"shuffled {language}", before, shuffled(split(unit), 150, rng, blank)
        drift = "".join(unit.replace("27", str(rng.choice((27, 28, 29)))) for _ in range(30))
        yield f"drift {language}", before, drift
        paragraph = THOUGHT[language].strip() + "\n\n"
        yield f"paragraphs {language}", before, paragraph * 12
        if again := COUNTED.get(language):
            yield f"counted {language}", before, "".join(f"{at}. {again}\n" for at in range(17, 90))
        bare = unit.replace(".", "").replace("。", "").replace("।", "").replace(",", "")
        yield f"bare {language}", before, bare * 40
    thai = "อาจจะเป็นคำตอบแรก|แต่พวกเขาต้องการสั้นๆ|งั้นลองคิดดูอีกครั้ง|หรือว่าเป็นข้อที่สอง|แต่ข้อนั้นผิดแน่นอน"
    yield "shuffled th", THOUGHT["en"], shuffled(thai.split("|"), 200, rng)
    for place, unit in enumerate(PARAPHRASES):
        yield f"paraphrase {place}", trials("en", 6, rng), shuffled(split(unit), 160, rng)
    paragraphs = [part + "\n\n" for part in REOPENINGS.split("\n\n") if part]
    yield "reopening", trials("en", 6, rng), shuffled(paragraphs, 80, rng, "")
