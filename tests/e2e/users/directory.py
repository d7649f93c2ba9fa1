# SPDX-License-Identifier: Apache-2.0
"""An LDAP server with one user, and a login host that takes its users from there."""

from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from tests.e2e.operator.site import manifest, secret

from slinky.lab.prepare.images import reference

USER, UID, GROUP, GID = "alice", 5001, "science", 5000
BASE = "dc=site,dc=example"
SSSD = """[sssd]
services = nss, pam, ssh
domains = site

[domain/site]
id_provider = ldap
ldap_uri = ldaps://{host}:1636
ldap_search_base = {base}
ldap_tls_cacert = /etc/directory/ca.crt
ldap_user_ssh_public_key = sshPublicKey
"""
ENTRIES = """dn: {base}
objectClass: domain
dc: site

dn: uid={user},{base}
objectClass: inetOrgPerson
objectClass: posixAccount
objectClass: ldapPublicKey
uid: {user}
cn: {user}
sn: {user}
uidNumber: {uid}
gidNumber: {gid}
homeDirectory: /home/{user}
loginShell: /bin/bash
sshPublicKey: {public}

dn: cn={group},{base}
objectClass: posixGroup
cn: {group}
gidNumber: {gid}
memberUid: {user}
"""


def certificate(host: str) -> tuple[str, str]:
    """A certificate that signs itself, for one host, and its key."""
    key = generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, host)])
    now = datetime.now(UTC)
    built = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return built.public_bytes(serialization.Encoding.PEM).decode(), private.decode()


def server(host: str, public: str) -> list[dict[str, Any]]:
    """The LDAP server, its Service, and the Secret and ConfigMap that it is made from."""
    crt, key = certificate(host)
    entries = ENTRIES.format(base=BASE, user=USER, uid=UID, group=GROUP, gid=GID, public=public)
    labels = {"app": "ldap"}
    container = {
        "name": "slapd",
        "image": reference("slapd"),
        "volumeMounts": [{"name": "site", "mountPath": "/site", "readOnly": True}],
    }
    volume = {"name": "site", "secret": {"secretName": "ldap"}}
    spec = {"terminationGracePeriodSeconds": 1, "containers": [container], "volumes": [volume]}
    ports = {"selector": labels, "ports": [{"port": 1636}]}
    return [
        secret("ldap", **{"site.ldif": entries, "tls.crt": crt, "tls.key": key}),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "directory"}, "data": {"ca.crt": crt}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "ldap", "labels": labels}, "spec": spec},
        {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "ldap"}, "spec": ports},
    ]


def login_set(host: str) -> list[dict[str, Any]]:
    """A login host that asks the LDAP server, and trusts its certificate only."""
    mount = {"name": "directory", "mountPath": "/etc/directory", "readOnly": True}
    volume = {"name": "directory", "configMap": {"name": "directory"}}
    return [
        secret("sssd", **{"sssd.conf": SSSD.format(host=host, base=BASE)}),
        manifest(
            "LoginSet",
            "main",
            controllerRef={"name": "slurm"},
            sssdConfRef={"name": "sssd", "key": "sssd.conf"},
            login={"volumeMounts": [mount]},
            template={"spec": {"volumes": [volume]}},
        ),
    ]
