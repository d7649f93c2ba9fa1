# SPDX-License-Identifier: Apache-2.0
"""Certificates of a server of ours, and when to replace them. Pure except for the random keys.

A `CertificateBundle` holds certificate authorities, oldest first, and the pair that the server uses. Clients
trust a new authority for an hour before the authority signs anything, and trust an old one until it expires. So servers
and clients never have to switch at the same moment.
"""

import ipaddress
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from slinky.kube.tls import CA_CERTIFICATE, CERTIFICATE, PRIVATE_KEY

#: The key of the bundle in a Secret. It is persistent: another name would discard the existing authorities.
BUNDLE_KEY = "pouch.json"

AUTHORITY_LIFE = timedelta(days=365)
SERVING_LIFE = timedelta(days=90)
#: The part of its lifetime after which a certificate is replaced.
RENEW_AT = 2 / 3
#: How long an authority is trusted before it signs, unless it is the only one.
SETTLE = timedelta(hours=1)
#: Certificates are valid from this long before their creation, because clocks differ.
SKEW = timedelta(minutes=5)


class CertificatePair(msgspec.Struct, frozen=True):
    """A certificate and its private key, in PEM."""

    certificate: str
    key: str

    @property
    def parsed(self) -> x509.Certificate:
        """The decoded certificate."""
        return x509.load_pem_x509_certificate(self.certificate.encode())

    def needs_renewal(self, now: datetime) -> bool:
        """Whether the renewal is due."""
        start, end = self.parsed.not_valid_before_utc, self.parsed.not_valid_after_utc
        return now >= start + (end - start) * RENEW_AT

    def is_expired(self, now: datetime) -> bool:
        """Whether the validity of the certificate has ended."""
        return now >= self.parsed.not_valid_after_utc


class CertificateBundle(msgspec.Struct, frozen=True):
    """The authorities and the serving pair; stored as JSON in a Secret, so the field names must not change."""

    authorities: tuple[CertificatePair, ...]
    serving: CertificatePair

    @property
    def ca_bundle(self) -> str:
        """The certificates of all authorities, for those who trust them."""
        return "".join(pair.certificate for pair in self.authorities)


def encode_bundle(bundle: CertificateBundle) -> dict[str, bytes]:
    """The data of the Secret that keeps a bundle; its parts have keys of their own, for those who mount them."""
    return {
        BUNDLE_KEY: msgspec.json.encode(bundle),
        CA_CERTIFICATE: bundle.ca_bundle.encode(),
        CERTIFICATE: bundle.serving.certificate.encode(),
        PRIVATE_KEY: bundle.serving.key.encode(),
    }


def decode_bundle(data: Mapping[str, bytes]) -> CertificateBundle | None:
    """The bundle in the data of a Secret; None if there is none. Raises `ValueError` for another content."""
    raw = data.get(BUNDLE_KEY)
    if not raw:
        return None
    try:
        bundle = msgspec.json.decode(raw, type=CertificateBundle)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"this is no bundle of certificates: {error}") from error
    for pair in (*bundle.authorities, bundle.serving):
        pair.parsed  # noqa: B018 -- raises if it is no certificate
    return bundle


def renew_bundle(bundle: CertificateBundle | None, hosts: tuple[str, ...], now: datetime) -> CertificateBundle:
    """The bundle to use now; the same one if no renewal is due."""
    authorities = tuple(pair for pair in bundle.authorities if not pair.is_expired(now)) if bundle else ()
    if not authorities or authorities[-1].needs_renewal(now):
        authorities = (*authorities, create_authority(now))
    signer = signing_authority(authorities, now)
    if bundle and _is_usable(bundle.serving, signer, hosts, now):
        return CertificateBundle(authorities, bundle.serving)
    return CertificateBundle(authorities, create_serving_pair(signer, hosts, now))


def signing_authority(authorities: tuple[CertificatePair, ...], now: datetime) -> CertificatePair:
    """The newest authority that has been trusted for long enough, or the oldest one."""
    settled = [pair for pair in authorities if now >= pair.parsed.not_valid_before_utc + SKEW + SETTLE]
    return settled[-1] if settled else authorities[0]


def _is_usable(pair: CertificatePair, signer: CertificatePair, hosts: tuple[str, ...], now: datetime) -> bool:
    certificate = pair.parsed
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    same_hosts = set(names) == {_general_name(host) for host in hosts}
    return same_hosts and not pair.needs_renewal(now) and _signed_by(certificate, signer.parsed)


def _signed_by(certificate: x509.Certificate, signer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(signer)
    except Exception:  # the library raises a different type of error for each kind of mismatch
        return False
    return True


def create_authority(now: datetime) -> CertificatePair:
    """Create a self-signed authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"slinky {now.astimezone(UTC):%Y-%m-%dT%H:%M:%S}")])
    usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
    certificate = (
        _builder(name, name, key, now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def create_serving_pair(signer: CertificatePair, hosts: tuple[str, ...], now: datetime) -> CertificatePair:
    """Create a certificate for a server with these DNS names or IP addresses, signed by `signer`."""
    key = ec.generate_private_key(ec.SECP256R1())
    signer_key = serialization.load_pem_private_key(signer.key.encode(), None)
    if not isinstance(signer_key, ec.EllipticCurvePrivateKey):
        raise TypeError("the key of the authority is not an elliptic curve key")
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, hosts[0][:64])])
    life = min(SERVING_LIFE, signer.parsed.not_valid_after_utc - now)
    certificate = (
        _builder(name, signer.parsed.subject, key, now, life)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer_key.public_key()), critical=False)
        .sign(signer_key, hashes.SHA256())
    )
    return _pair(certificate, key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + life)
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> CertificatePair:
    private_key = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return CertificatePair(certificate.public_bytes(serialization.Encoding.PEM).decode(), private_key.decode())
