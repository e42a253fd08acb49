"""Honest reasoning over words: plans, verses, translations, riddles. Both splits, each with its own
sentences."""

from collections import Counter

from .reasoning_bank import Voice


def plan(voice: Voice) -> str:
    """What is needed and why, one thing after the other in the same frame."""
    needs = voice.list("needs")
    chosen = voice.draw.sample(needs, voice.draw.randint(9, len(needs)))
    lines = [voice.say("plan", "intro", k=len(chosen))]
    for number, need in enumerate(chosen, 1):
        what, why = (part.strip() for part in need.split("="))
        lines.append(voice.say("plan", "line", i=number, x=what, y=why))
    lines.append(voice.say("plan", "end", k=len(chosen), first=chosen[0].split("=")[0].strip()))
    return voice.trace(lines)


def poem(voice: Voice) -> str:
    """Verses drafted one by one; the refrain comes back."""
    verses = voice.list("verses")
    draw = voice.draw
    chosen = draw.sample(verses, draw.randint(9, len(verses)))
    refrain = draw.choice(voice.list("refrains"))
    every = draw.choice((3, 4))
    lines = [voice.say("poem", "intro", k=len(chosen), r=refrain)]
    for number, verse in enumerate(chosen, 1):
        length = len(verse.split()) if voice.space else len(verse)
        lines.append(voice.say("poem", "line", i=number, v=verse, k=length))
        if number % every == 0:
            lines.append(voice.say("poem", "refrain", i=number, r=refrain))
    lines.append(voice.say("poem", "end", k=len(chosen), v=chosen[-1]))
    return voice.trace(lines)


def translation(voice: Voice) -> str:
    """Sentences translated one by one."""
    pairs = voice.list("pairs")
    chosen = voice.draw.sample(pairs, voice.draw.randint(8, len(pairs)))
    lines = [voice.say("translation", "intro", k=len(chosen))]
    for number, pair in enumerate(chosen, 1):
        said, meant, note = (part.strip() for part in pair.split("="))
        lines.append(voice.say("translation", "line", i=number, s=said, t=meant, n=note))
    lines.append(voice.say("translation", "end", k=len(chosen)))
    return voice.trace(lines)


def anagram(voice: Voice) -> str:
    """Words tried against a heap of letters, letter by letter."""
    draw = voice.draw
    words = sorted({one.lower() for one in " ".join(voice.list("sentences")).split()})
    words = [word for word in words if 4 <= len(word) <= 9 and word.isalpha()]
    answer = draw.choice(words)
    heap = list(answer) + draw.sample(list("".join(words)), 3)
    draw.shuffle(heap)
    tried = draw.sample([word for word in words if word != answer], draw.randint(9, 22))
    lines = [voice.say("anagram", "intro", heap=" ".join(heap))]
    for word in [*tried, answer]:
        left = Counter(heap)
        fits = ""
        for letter in word:
            if not left[letter]:
                slots = {"w": word, "x": letter, "fits": "-".join(fits) or "–", "k": len(fits)}
                lines.append(voice.say("anagram", "no", **slots))
                break
            left[letter] -= 1
            fits += letter
        else:
            rest = " ".join(sorted(left.elements()))
            lines.append(voice.say("anagram", "yes", w=word, spelled="-".join(word), rest=rest))
    lines.append(voice.say("anagram", "end", w=answer))
    return voice.trace(lines)


def digits(voice: Voice) -> str:
    """A number from its digits: candidates, then the task read again, condition by condition."""
    draw = voice.draw
    answer = draw.randint(102, 987)
    total = sum(map(int, str(answer)))
    factor = draw.choice([n for n in (2, 3, 4, 6, 7, 8, 9, 11, 13) if answer % n == 0] or [1])
    least = answer - draw.randint(60, 300)
    lines = [voice.say("digits", "intro", a=max(100, least), s=total, f=factor)]
    for n in range(max(100, least), answer + 1):
        if sum(map(int, str(n))) != total:
            continue
        parts = " + ".join(str(n))
        over = n % factor
        key = "no" if over else "yes"
        slots = {"n": n, "parts": parts, "s": total, "f": factor, "m": over, "q": n // factor}
        lines.append(voice.say("digits", key, **slots))
        if not over:
            answer = n
            break
    parts = " + ".join(str(answer))
    slots = {"n": answer, "parts": parts, "s": total, "f": factor, "q": answer // factor}
    lines.append(voice.say("digits", "again", a=max(100, least), **slots))
    lines.append(voice.say("digits", "end", n=answer))
    return voice.trace(lines)


TEXTS = (plan, poem, translation, anagram, digits)
