"""Certificates made for a test: an authority, and what it signs."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_DAY = timedelta(days=1)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in PEM."""

    certificate: Path
    key: Path


class Authority:
    """Signs certificates; its own is `certificate`."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        self.certificate = folder / f"{name}.pem"
        made = (
            _builder(self._name, self._name, self._key.public_key(), 2 * _DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def sign(
        self, name: str, *, lives: timedelta = _DAY, password: bytes | None = None, file: str = ""
    ) -> Pair:
        """A certificate for a host, or a client, of this name. It begins two days ago, so one that
        `lives` for a negative time has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = (
            _builder(_named(name), self._name, key.public_key(), lives)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        pair = Pair(self._folder / f"{file or name}.pem", self._folder / f"{file or name}.key.pem")
        pair.certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
        sealing: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password is not None:
            sealing = serialization.BestAvailableEncryption(password)
        pair.key.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, sealing
            )
        )
        return pair


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, lives: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 2 * _DAY)
        .not_valid_after(now + lives)
    )
