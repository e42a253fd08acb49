"""Dead letters sealed for an operator: whoever writes them holds a public key alone, and can't read
them again.

HPKE (RFC 9180): a published construction from one library, so that there is nothing of ours to get
wrong. `cryptography` comes with the extra `encryption`, and is loaded where it is needed.
"""

import contextlib
import hashlib
import importlib
import os
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ..schemas import DeadLetter, InvalidMessage, decode
from ..schemas.dead_letters import Sealed
from ..schemas.errors import SluiceError
from ..schemas.limits import MAX_OUTCOME_BYTES

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.hpke import Suite

_INFO: Final = b"sluicegate dead letter 1:"
_ID_DIGITS: Final = 16


class BadKey(SluiceError):
    """A key can't be used; the message says which file, why, and nothing of what is in it."""


class CantOpen(SluiceError):
    """A sealed letter is for another key, or was changed on its way."""


class SealingKey:
    """The public half: seals."""

    def __init__(self, key: "X25519PublicKey") -> None:
        self._key = key
        self.id = _id_of(key)

    def seal(self, letter: DeadLetter) -> Sealed:
        """The whole letter, encrypted. Only the same letter's id opens it. O(size)."""
        body = zlib.compress(msgspec.json.encode(letter))
        return Sealed(key=self.id, body=_suite().encrypt(body, self._key, _INFO + _bound(letter)))


class OpeningKey:
    """The private half: opens."""

    def __init__(self, key: "X25519PrivateKey") -> None:
        self._key = key
        self.id = _id_of(key.public_key())

    def open(self, letter: DeadLetter) -> DeadLetter:
        """The letter as it was before it was sealed. Raises CantOpen."""
        sealed = letter.sealed
        if sealed is None:
            raise CantOpen("nothing is sealed in it")
        if sealed.key != self.id:
            raise CantOpen(f"it is encrypted for key {sealed.key}, and the one given is {self.id}")
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415  see above

        try:
            packed = _suite().decrypt(sealed.body, self._key, _INFO + _bound(letter))
            opened = decode(_inflated(packed), DeadLetter)
        except (InvalidTag, ValueError, zlib.error, InvalidMessage) as error:
            raise CantOpen(
                "what is encrypted in it was changed, or is of another letter"
            ) from error
        return opened


def sealing_key(path: Path) -> SealingKey:
    """The public key in a PEM file. Blocking. Raises BadKey."""
    require_library()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey  # noqa: PLC0415

    key = _loaded(path, "load_pem_public_key", "public")
    if not isinstance(key, X25519PublicKey):
        raise BadKey(f"{path}: is no X25519 key; `sluice dlq keygen` makes one")
    return SealingKey(key)


def opening_key(path: Path, password: bytes | None = None) -> OpeningKey:
    """The private key in a PEM file, with its password if it has one. Blocking. Raises BadKey."""
    require_library()
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # noqa: PLC0415

    key = _loaded(path, "load_pem_private_key", "private", password)
    if not isinstance(key, X25519PrivateKey):
        raise BadKey(f"{path}: is no X25519 key; `sluice dlq keygen` makes one")
    return OpeningKey(key)


def make_pair(private: Path, public: Path, password: bytes | None = None) -> str:
    """A new pair of keys in files that must not be there yet; gives its id. The private one can be
    read by its owner alone. Blocking. Raises BadKey."""
    require_library()
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey  # noqa: PLC0415

    key = X25519PrivateKey.generate()
    locked: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if password:
        locked = serialization.BestAvailableEncryption(password)
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    _write(private, key.private_bytes(pem, pkcs8, locked), 0o600)
    try:
        _write(public, key.public_key().public_bytes(pem, spki), 0o644)
    except BadKey:
        private.unlink()
        raise
    return _id_of(key.public_key())


def require_library() -> None:
    """Raises BadKey where the extra is not installed."""
    try:
        importlib.import_module("cryptography.hazmat.primitives.hpke")
    except ImportError as error:
        raise BadKey(
            "encryption needs the package cryptography, 50 or later: "
            "pip install 'sluicegate[encryption]'"
        ) from error


def _loaded(path: Path, loader: str, half: str, password: bytes | None = None) -> Any:
    from cryptography.exceptions import UnsupportedAlgorithm  # noqa: PLC0415
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    try:
        pem = path.expanduser().read_bytes()
    except OSError as error:
        raise BadKey(f"{path}: can't be read ({error.strerror})") from error
    except RuntimeError as error:
        raise BadKey(f"{path}: there is no such user") from error
    try:
        load = getattr(serialization, loader)
        return load(pem) if half == "public" else load(pem, password)
    except TypeError as error:
        if password is None:
            raise BadKey(f"{path}: the key has a password: set SLUICE_DLQ_KEY_PASSWORD") from error
        raise BadKey(f"{path}: the key has no password: unset SLUICE_DLQ_KEY_PASSWORD") from error
    except UnsupportedAlgorithm as error:
        raise BadKey(f"{path}: is no X25519 key; `sluice dlq keygen` makes one") from error
    except ValueError as error:
        hint = ", or its password is another" if password is not None else ""
        raise BadKey(f"{path}: holds no {half} key in PEM{hint}") from error


def _write(path: Path, content: bytes, mode: int) -> None:
    try:
        # A key that is overwritten takes every letter with it that was sealed for it.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    except FileExistsError as error:
        raise BadKey(f"{path} is there already, and is not replaced") from error
    except OSError as error:
        raise BadKey(f"{path}: can't be written ({error.strerror})") from error
    with contextlib.closing(os.fdopen(handle, "wb")) as file:
        file.write(content)


def _inflated(packed: bytes) -> bytes:
    inflater = zlib.decompressobj()
    body = inflater.decompress(packed, 2 * MAX_OUTCOME_BYTES)
    if not inflater.eof:
        raise ValueError("larger than any letter")
    return body


def _bound(letter: DeadLetter) -> bytes:
    return letter.id.encode("utf-8", "surrogatepass")


def _suite() -> "Suite":
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite  # noqa: PLC0415

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def _id_of(key: "X25519PublicKey") -> str:
    return hashlib.sha256(key.public_bytes_raw()).hexdigest()[:_ID_DIGITS]
