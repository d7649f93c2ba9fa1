# SPDX-License-Identifier: Apache-2.0
"""Certificates are replaced in time, and never before they are trusted."""

from datetime import UTC, datetime, timedelta

from cryptography import x509

from slinky.kube.certificates import (
    AUTHORITY_LIFE,
    SERVING_LIFE,
    SETTLE,
    CertificateBundle,
    renew_bundle,
    signing_authority,
)
from slinky.kube.webhook_certificates import ClientConfig, WebhookEntry, ca_bundle_patch

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOSTS = ("hook.slinky.svc", "127.0.0.1")


def trusted(bundle: CertificateBundle) -> bool:
    authorities = x509.load_pem_x509_certificates(bundle.ca_bundle.encode())
    return any(_issued(bundle.serving.parsed, authority) for authority in authorities)


def _issued(certificate: x509.Certificate, signer: x509.Certificate) -> bool:
    return certificate.issuer == signer.subject


def test_the_first_bundle_serves_its_names_and_is_trusted() -> None:
    bundle = renew_bundle(None, HOSTS, NOW)
    names = bundle.serving.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hook.slinky.svc"]
    assert trusted(bundle)


def test_nothing_changes_while_nothing_is_due() -> None:
    bundle = renew_bundle(None, HOSTS, NOW)
    assert renew_bundle(bundle, HOSTS, NOW + timedelta(hours=2)) == bundle
    assert renew_bundle(bundle, HOSTS, NOW + SERVING_LIFE / 2) == bundle


def test_the_serving_pair_is_renewed_in_time() -> None:
    bundle = renew_bundle(None, HOSTS, NOW)
    later = renew_bundle(bundle, HOSTS, NOW + SERVING_LIFE * 0.7)
    assert later.serving != bundle.serving
    assert later.authorities == bundle.authorities


def test_a_new_name_gets_a_new_pair() -> None:
    bundle = renew_bundle(None, HOSTS, NOW)
    assert renew_bundle(bundle, (*HOSTS, "more"), NOW).serving != bundle.serving


def test_for_two_years_the_server_is_always_trusted_and_never_expired() -> None:
    now, bundle = NOW, renew_bundle(None, HOSTS, NOW)
    authorities = {bundle.authorities[0]}
    while now < NOW + 2 * AUTHORITY_LIFE:
        now += timedelta(hours=36)
        before, bundle = bundle, renew_bundle(bundle, HOSTS, now)
        authorities |= set(bundle.authorities)
        assert trusted(bundle)
        assert not bundle.serving.is_expired(now)
        # An API server with the previous CA bundle still trusts the current server.
        assert trusted(CertificateBundle(before.authorities, bundle.serving)) or len(before.authorities) == len(
            bundle.authorities
        )
        assert len(bundle.authorities) <= 2
    assert len(authorities) >= 3


def test_a_new_authority_signs_only_after_it_has_been_trusted_for_an_hour() -> None:
    bundle = renew_bundle(None, HOSTS, NOW)
    due = NOW + AUTHORITY_LIFE * 0.7
    renewed = renew_bundle(bundle, HOSTS, due)
    assert len(renewed.authorities) == 2
    assert signing_authority(renewed.authorities, due) == renewed.authorities[0]
    assert signing_authority(renewed.authorities, due + SETTLE) == renewed.authorities[1]


def test_the_patch_sets_the_ca_bundle_only_where_it_differs() -> None:
    entries = [WebhookEntry("a", ClientConfig(b"old")), WebhookEntry("b", ClientConfig(b"new"))]
    patch = ca_bundle_patch(entries, b"new")
    assert [(item["op"], item["path"]) for item in patch] == [
        ("test", "/webhooks/0/name"),
        ("add", "/webhooks/0/clientConfig/caBundle"),
    ]
    assert ca_bundle_patch(entries[1:], b"new") == []
