"""Dead letters whose texts are hidden: opened with an operator's key, or why they can't be."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..schemas import DeadLetter
from ..worker.config import Config, ConfigError

if TYPE_CHECKING:
    from ..producer.sealing import OpeningKey

PASSWORD: Final = "SLUICE_DLQ_KEY_PASSWORD"  # noqa: S105 - the name of a variable


def opener(config: Config) -> "OpeningKey | None":
    """The private key that is set, if one is. Blocking. Raises ConfigError."""
    if not config.dlq_key_file:
        return None
    # It pulls in the broker's client, which `--help` doesn't need.
    from ..producer.sealing import BadKey, opening_key  # noqa: PLC0415

    password = os.environ.get(PASSWORD)
    try:
        return opening_key(Path(config.dlq_key_file), password.encode() if password else None)
    except BadKey as error:
        raise ConfigError(f"dlq_key_file: {error}") from error


def opened(letter: DeadLetter, key: "OpeningKey | None") -> tuple[DeadLetter, str]:
    """The letter as it was where the key opens it; else as it is, and why its texts are not there.
    Both of a letter that hides nothing: itself, and an empty reason."""
    if letter.texts == "full":
        return letter, ""
    if letter.texts == "redacted":
        return letter, "its texts were redacted when it was written (keep_texts), and are gone"
    if key is None:
        sealed = f" {letter.sealed.key}" if letter.sealed is not None else ""
        return letter, f"its texts are encrypted for key{sealed}: say --key FILE"
    from ..producer.sealing import CantOpen  # noqa: PLC0415  as above

    try:
        return key.open(letter), ""
    except CantOpen as error:
        return letter, str(error)
