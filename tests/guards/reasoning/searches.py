"""Reasoning written for tests: searches, that say few sentences in ever new orders."""

import itertools
import random
from collections.abc import Iterable

# By language: names, days, a trial, a conflict, a step back; a case, with what is so or not in it.
_WORDS: dict[str, tuple[str, str, str, str, str, str, str]] = {
    "en": (
        "Anna Ben Clara David Emma",
        "Monday Tuesday Friday",
        "Try {} on {}. ",
        "{} and {} are both on {}, a conflict. ",
        "Undo {}. ",
        "Suppose {}. ",
        "{} is true|{} is false",
    ),
    "de": (
        "Anna Ben Clara David Emma",
        "Montag Dienstag Freitag",
        "Versuche {} am {}. ",
        "{} und {} sind beide am {}, ein Konflikt. ",
        "Nimm {} zurück. ",
        "Angenommen, {}. ",
        "{} ist wahr|{} ist falsch",
    ),
    "ru": (
        "Анна Борис Вера Глеб Дина",
        "понедельник вторник пятницу",
        "Пробую {} в {}. ",
        "{} и {} оба в {}, конфликт. ",
        "Отменяю {}. ",
        "Пусть {}. ",
        "{} истинно|{} ложно",
    ),
    "hi": (
        "अमित बीना चेतन दीपा ईशा",
        "सोमवार मंगलवार शुक्रवार",
        "{} को {} को रखकर देखें। ",
        "{} और {} दोनों {} को हैं, टकराव। ",
        "{} को हटाओ। ",
        "मान लो {}। ",
        "{} सही है|{} गलत है",
    ),
    "zh": (
        "小安 小波 小陈 小丁 小文",
        "周一 周二 周五",
        "把{}放在{}试试。",
        "{}和{}都在{},冲突。",
        "撤销{}。",
        "假设{}。",
        "{}为真|{}为假",
    ),
    "ja": (
        "アンナ ボブ カール ダン エマ",
        "月曜日 火曜日 金曜日",
        "{}を{}に置いてみる。",
        "{}と{}が両方とも{}なので衝突する。",
        "{}を取り消す。",
        "{}と仮定する。",
        "{}は真|{}は偽",
    ),
    "ko": (
        "민수 지영 철수 영희 현우",
        "월요일 화요일 금요일",
        "{}를 {}에 넣어 본다. ",
        "{}와 {}가 둘 다 {}이라 충돌한다. ",
        "{}를 취소한다. ",
        "{}라고 하자. ",
        "{}는 참|{}는 거짓",
    ),
    "th": (
        "อนันต์ บุญมี จันทร์ ดวงใจ เอก",
        "วันจันทร์ วันอังคาร วันศุกร์",
        "ลองให้{}อยู่{} ",
        "{}กับ{}อยู่{}ทั้งคู่ ชนกัน ",
        "ยกเลิก{} ",
        "สมมติว่า{} ",
        "{}เป็นจริง|{}เป็นเท็จ",
    ),
}


def plan(language: str, steps: int, rng: random.Random) -> str:
    """Who comes when, tried out and taken back."""
    people, days, trial, conflict, back, *_ = _WORDS[language]
    names = people.split()
    apart = {frozenset(rng.sample(names, 2)) for _ in range(6)}
    text: list[str] = []
    at: dict[str, str] = {}

    def place(which: int) -> None:
        for day in days.split():
            if which == len(names) or len(text) > steps:
                return
            name = names[which]
            text.append(trial.format(name, day))
            other = next((o for o in at if at[o] == day and frozenset((o, name)) in apart), None)
            if other is not None:
                text.append(conflict.format(other, name, day))
                continue
            at[name] = day
            place(which + 1)
            del at[name]
            text.append(back.format(name))

    place(0)
    return "".join(text)


def cases(language: str, variables: str) -> str:
    """All values of some variables, in words."""
    *_, suppose, values = _WORDS[language]
    frames = values.split("|")
    comma = "、" if language in ("zh", "ja") else ", "
    return "".join(
        suppose.format(comma.join(f.format(v) for f, v in zip(row, variables, strict=True)))
        for row in itertools.product(frames, repeat=len(variables))
    )


def searches() -> Iterable[tuple[str, str]]:
    """Names and texts."""
    rng = random.Random(8)
    for language in _WORDS:
        yield f"plan {language}", plan(language, 110, rng)
        yield f"cases {language}", cases(language, "PQRS")
