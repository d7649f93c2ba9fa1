# SPDX-License-Identifier: Apache-2.0
"""Certificates for a webhook, and when to replace them. Pure but for the rng: time comes as an argument.

A `Pouch` holds authorities, oldest first, and the pair that serves. A new authority is trusted for a while before
anything is signed by it, so that the API server knows it in time; an old one is trusted until it ends. Nothing ever
has to happen at one moment everywhere.
"""

import ipaddress
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LIFE = timedelta(days=365)
SERVING_LIFE = timedelta(days=90)
#: Replaced when this share of the life is over.
RENEW_AT = 2 / 3
#: How long an authority is trusted before it signs, unless there is no other.
SETTLE = timedelta(hours=1)
#: Clocks differ.
SKEW = timedelta(minutes=5)


class CertificatePair(msgspec.Struct, frozen=True):
    """A certificate and its key, in PEM."""

    certificate: str
    key: str

    @property
    def parsed(self) -> x509.Certificate:
        """The certificate."""
        return x509.load_pem_x509_certificate(self.certificate.encode())

    def spent(self, now: datetime) -> bool:
        """Enough of its life is over."""
        start, end = self.parsed.not_valid_before_utc, self.parsed.not_valid_after_utc
        return now >= start + (end - start) * RENEW_AT

    def ended(self, now: datetime) -> bool:
        """Nobody trusts it any more."""
        return now >= self.parsed.not_valid_after_utc


class CertificateBundle(msgspec.Struct, frozen=True):
    """Everything that is kept."""

    authorities: tuple[CertificatePair, ...]
    serving: CertificatePair

    @property
    def trust(self) -> str:
        """What the API server has to trust."""
        return "".join(pair.certificate for pair in self.authorities)


def renew_bundle(pouch: CertificateBundle | None, hosts: tuple[str, ...], now: datetime) -> CertificateBundle:
    """The pouch to use now: the same one if nothing is due."""
    authorities = tuple(pair for pair in pouch.authorities if not pair.ended(now)) if pouch else ()
    if not authorities or authorities[-1].spent(now):
        authorities = (*authorities, create_authority(now))
    signer = signing_authority(authorities, now)
    if pouch and _serves(pouch.serving, signer, hosts, now):
        return CertificateBundle(authorities, pouch.serving)
    return CertificateBundle(authorities, create_serving_pair(signer, hosts, now))


def signing_authority(authorities: tuple[CertificatePair, ...], now: datetime) -> CertificatePair:
    """The newest authority that the API server surely knows, or the oldest there is."""
    settled = [pair for pair in authorities if now >= pair.parsed.not_valid_before_utc + SKEW + SETTLE]
    return settled[-1] if settled else authorities[0]


def _serves(pair: CertificatePair, signer: CertificatePair, hosts: tuple[str, ...], now: datetime) -> bool:
    found = pair.parsed
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    same = set(names) == {_general(host) for host in hosts}
    return same and not pair.spent(now) and _signed_by(found, signer.parsed)


def _signed_by(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(by)
    except Exception:  # the library has a kind of error for each way of not being signed
        return False
    return True


def create_authority(now: datetime) -> CertificatePair:
    """A new authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"slinky webhook {now.astimezone(UTC):%Y-%m-%dT%H:%M:%S}")]
    )
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    made = (
        _builder(name, name, key, now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(made, key)


def create_serving_pair(signer: CertificatePair, hosts: tuple[str, ...], now: datetime) -> CertificatePair:
    """A pair for a server that is called by one of `hosts`."""
    key = ec.generate_private_key(ec.SECP256R1())
    by = serialization.load_pem_private_key(signer.key.encode(), None)
    if not isinstance(by, ec.EllipticCurvePrivateKey):
        raise TypeError("the authority's key is not an elliptic curve key")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    life = min(SERVING_LIFE, signer.parsed.not_valid_after_utc - now)
    made = (
        _builder(name, signer.parsed.subject, key, now, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(by.public_key()), critical=False)
        .sign(by, hashes.SHA256())
    )
    return _pair(made, key)


def _builder(
    subject: x509.Name, issued_by: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issued_by)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + life)
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> CertificatePair:
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return CertificatePair(certificate.public_bytes(serialization.Encoding.PEM).decode(), private.decode())
