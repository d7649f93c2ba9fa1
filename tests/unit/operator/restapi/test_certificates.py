# SPDX-License-Identifier: Apache-2.0
"""Certificates of a RestApi: who is trusted, and that servers and clients never have to change at the same moment."""

import base64
import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from tests.unit.operator.restapi.test_restapi import rest_api

from slinky.kube.certificates import AUTHORITY_LIFE, BUNDLE_KEY, SETTLE, CertificateBundle
from slinky.operator.restapi import certificates
from slinky.operator.slurm.clusters import TlsServer

START = datetime(2026, 1, 1, tzinfo=UTC)
API = rest_api(tls={"enabled": True})


def data(bundle: CertificateBundle) -> dict[str, str]:
    stored: dict[str, str] = certificates.secret(API, bundle)["data"]
    return stored


def test_the_certificate_is_for_every_name_of_the_service() -> None:
    bundle = certificates.renew(None, API, START, "example.org")
    names = bundle.serving.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {
        "slurm-restapi", "slurm-restapi.ns", "slurm-restapi.ns.svc", "slurm-restapi.ns.svc.example.org",
    }  # fmt: skip
    assert API.url == "https://slurm-restapi.ns:6820"


def test_nothing_changes_until_a_renewal_is_due() -> None:
    bundle = certificates.renew(None, API, START)
    assert certificates.renew(data(bundle), API, START + timedelta(days=30)) == bundle


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 9999, b"\xff"])
def test_a_secret_that_cannot_be_read_is_replaced(content: bytes) -> None:
    encoded = base64.b64encode(content).decode()
    for broken in (encoded, encoded + "!", "a"):
        assert certificates.renew({BUNDLE_KEY: broken}, API, START).authorities


def test_clients_get_no_private_key() -> None:
    bundle = certificates.renew(None, API, START)
    config = certificates.ca_config(API, bundle)["data"]
    assert list(config) == ["ca.crt"]
    assert "PRIVATE" not in config["ca.crt"]


def test_a_client_with_an_earlier_list_of_authorities_trusts_the_server_at_any_time() -> None:
    """A server may have the newest Secret while a client still has the ConfigMap of two hours ago."""
    now, step = START, 2 * SETTLE
    bundle = certificates.renew(None, API, now)
    renewals = 0
    while now < START + 2 * AUTHORITY_LIFE:
        earlier, now = bundle, now + step
        bundle = certificates.renew(data(bundle), API, now) if now.hour < 2 else bundle
        renewals += bundle.serving != earlier.serving
        assert any(_signed(bundle.serving.parsed, pair.parsed) for pair in earlier.authorities)
    assert renewals > 8


def _signed(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except Exception:
        return False
    return True


def test_the_operator_trusts_the_authorities_of_this_rest_api_only() -> None:
    bundle = certificates.renew(None, API, datetime.now(UTC))
    context = TlsServer("slurm-restapi.ns", bundle.ca_bundle).context()
    assert context.cert_store_stats()["x509_ca"] == 1
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
