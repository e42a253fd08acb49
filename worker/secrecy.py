"""What a service keeps of texts, by its configuration."""

from pathlib import Path
from typing import Final

from ..producer.sealing import BadKey, SealingKey, sealing_key
from ..producer.secrecy import Secrecy
from ..schemas.redacted import marker
from .config import Config, ConfigError

# Shorter ones could be found by trying, and the texts with them.
_LEAST_KEY_BYTES: Final = 16


def secrecy_of(config: Config) -> Secrecy:
    """The secrecy that is asked for. Blocking: reads the files of its keys. Raises ConfigError."""
    if config.keep_texts == "full":
        return Secrecy()
    mark = marker(_hash_key(config.text_hash_key_file))
    return Secrecy(config.keep_texts, mark=mark, key=_public_key(config))


def _hash_key(path: str) -> bytes:
    if not path:
        return b""
    try:
        key = Path(path).expanduser().read_bytes()
    except OSError as error:
        raise ConfigError(f"text_hash_key_file: {path} can't be read ({error.strerror})") from error
    except RuntimeError as error:
        raise ConfigError(f"text_hash_key_file: {path}: there is no such user") from error
    if len(key) < _LEAST_KEY_BYTES:
        raise ConfigError(
            f"text_hash_key_file: {path} has {len(key)} bytes, and needs {_LEAST_KEY_BYTES}: "
            "`openssl rand -out FILE 32` makes one"
        )
    return key


def _public_key(config: Config) -> SealingKey | None:
    if config.keep_texts != "encrypted":
        return None
    if not config.operator_key_file:
        raise ConfigError(
            "keep_texts: encrypted needs operator_key_file, a public key; `sluice dlq keygen` "
            "makes a pair"
        )
    try:
        return sealing_key(Path(config.operator_key_file))
    except BadKey as error:
        raise ConfigError(f"operator_key_file: {error}") from error
