# SPDX-License-Identifier: Apache-2.0
"""The certificates of a lab: two authorities and the certificates of its components."""

import base64
import datetime
import ipaddress
from collections.abc import Iterable
from pathlib import Path

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFE = datetime.timedelta(days=365)
_SKEW = datetime.timedelta(minutes=5)


class Authority:
    """Signs certificates into a folder, as NAME.crt and NAME.key."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self._key = _new_key(folder / f"{name}.key")
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        self._certificate = (
            _builder(subject, subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        (folder / f"{name}.crt").write_bytes(_pem(self._certificate))

    def issue(self, name: str, common_name: str, organization: str = "", hosts: Iterable[str] = ()) -> None:
        """Issue a certificate for a client and, with `hosts`, for a server."""
        key = _new_key(self.folder / f"{name}.key")
        parts = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
        if organization:
            parts.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
        names = [_general(host) for host in hosts]
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if names else [])]
        builder = (
            _builder(x509.Name(parts), self._certificate.subject, key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        (self.folder / f"{name}.crt").write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def kubeconfig(self, path: Path, name: str, server: str) -> None:
        """Write a kubeconfig with the certificate `name`, readable only by its owner."""
        read = {part: (self.folder / f"{name}.{part}").read_bytes() for part in ("crt", "key")}
        write_kubeconfig(
            path,
            server,
            (self.folder / f"{self.name}.crt").read_bytes(),
            {"client-certificate-data": read["crt"], "client-key-data": read["key"]},
        )


def write_kubeconfig(path: Path, server: str, authority: bytes, user: dict[str, bytes | str]) -> None:
    """Write a kubeconfig of one cluster and one user; byte values are stored in base64."""
    encoded = {name: base64.b64encode(v).decode() if isinstance(v, bytes) else v for name, v in user.items()}
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(authority).decode()}
    text = yaml.safe_dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": "lab", "user": encoded}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
            "current-context": "lab",
        }
    )
    private(path, text.encode())


def service_account_keys(folder: Path) -> None:
    """Create the key pair that signs service account tokens: sa.key and sa.pub."""
    key = _new_key(folder / "sa.key")
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    (folder / "sa.pub").write_bytes(public)


def private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, from its first byte on."""
    path.touch(mode=0o600)
    path.write_bytes(content)


def _new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    key = ec.generate_private_key(ec.SECP256R1())
    # Not PKCS 8: the controller manager reads the service account key in the traditional form.
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    private(path, text)
    return key


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFE)
    )


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
