"""Text of anybody's for a terminal: nothing in it acts there."""

import unicodedata


def plain(text: str) -> str:
    """The text without whatever drives a terminal; lines stay lines."""
    return "".join(_harmless(char) for char in text)


def escaped(data: bytes) -> bytes:
    """JSON with the same values, in which nothing acts on a terminal: such characters can stand in
    its strings alone, and there they may be written as their numbers."""
    if data.isascii() and b"\x7f" not in data:
        return data
    return "".join(map(_numbered, data.decode())).encode()


def _numbered(char: str) -> str:
    if char < "\x7f" or unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return char
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def one_line(text: str, limit: int) -> str:
    """The text in one line of at most so many characters."""
    line = " ".join(plain(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1].rstrip()}…"


def _harmless(char: str) -> str:
    if char in "\n\t":
        return char
    category = unicodedata.category(char)
    # Marks that turn the direction of writing are formats too; joiners are part of emoji.
    if category in ("Cc", "Cs", "Zl", "Zp") or (category == "Cf" and char not in "\u200c\u200d"):
        return "\N{REPLACEMENT CHARACTER}"
    return char
