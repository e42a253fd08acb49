"""Keeping secrets from eyes: in text of any kind, and in settings by the names of their keys."""

import re
from typing import Any, Final, cast

HIDDEN: Final = "***"

# Up to the last `@`: a password with an unescaped `@` in it must go as well.
_CREDENTIALS = re.compile(r"(?P<scheme>(?<![\w+.-])[\w+.-]+://)(?P<login>\S*)@")

# Parsers quote as a "port" what may be half a password: `amqp://u:se/cret@h`.
_NO_NUMBER = re.compile(r"(with base 10: |integer value as )('[^']*'|\"[^\"]*\")")

_ASSIGNED = re.compile(r"(?P<key>(?<![\w-])[\w-]+)(?P<between>=)(?P<value>[^\s&;,]+)")
_KNOWN_TOKENS = re.compile(r"\b(hf_|sk-|ghp_)[\w-]{6,}|\b(?i:(Bearer|Basic) )[\w.~+/=-]{6,}")

# `hf_token`, `api-key`, `SECRET_KEY`, but not `max_num_batched_tokens`.
_SECRET_KEY = re.compile(
    r"secret|passw|passphrase|credential|api_?key"
    r"|(^|_)(token|key|pwd|pw|pass|auth|authorization|bearer|cookie)$"
)
_TOKENS = re.compile(r"(^|_)tokens$")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def redact(text: str) -> str:
    """The text without the password of any URL, and without what looks like a token."""

    def login(found: re.Match[str]) -> str:
        user, colon, _ = found["login"].partition(":")
        return f"{found['scheme']}{user}{f':{HIDDEN}' if colon else ''}@"

    def assigned(found: re.Match[str]) -> str:
        return f"{found['key']}={HIDDEN}" if is_secret(found["key"]) else found[0]

    def token(found: re.Match[str]) -> str:
        kind = found[1] or f"{found[2]} "
        return f"{kind}{HIDDEN}"

    text = _CREDENTIALS.sub(login, text)
    text = _NO_NUMBER.sub(rf"\1'{HIDDEN}'", text)
    return _KNOWN_TOKENS.sub(token, _ASSIGNED.sub(assigned, text))


def is_secret(key: str) -> bool:
    """Whether what goes by this name is nobody's business."""
    return _SECRET_KEY.search(_plain(key)) is not None


def hidden(value: Any) -> Any:
    """The same value, however deep, with each secret in it replaced by `***`."""
    match value:
        case str():
            return _string(value)
        case dict():
            entries = cast("dict[Any, Any]", value)
            return {_string(str(key)): _entry(str(key), item) for key, item in entries.items()}
        case list() | tuple():
            return _items(cast("list[Any]", value))
        case _:
            return value


def _string(text: str) -> str:
    """One whole value: a URL in it may go on beyond a space or a quote, to the last `@`."""
    before, scheme, rest = text.partition("://")
    login, at, host = rest.rpartition("@")
    if scheme and at:
        user, colon, _ = login.partition(":")
        text = f"{before}{scheme}{user}{f':{HIDDEN}' if colon else ''}@{host}"
    return redact(text)


def _entry(key: str, item: Any) -> Any:
    # Switches are no secrets: `hf_token = true` says to use the one that is stored.
    if is_secret(key) and not isinstance(item, bool) and item is not None:
        return HIDDEN
    if _TOKENS.search(_plain(key)) and not isinstance(item, bool | int | float):
        return HIDDEN
    return hidden(item)


def _items(items: list[Any]) -> list[Any]:
    """Also what follows the name of a secret, as in `["--api-key", "x"]`."""
    shown: list[Any] = []
    after_key = False
    for item in items:
        shown.append(HIDDEN if after_key else hidden(item))
        after_key = isinstance(item, str) and is_secret(item)
    return shown


def _plain(key: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", _HUMP.sub("_", key).lower()).strip("_")
