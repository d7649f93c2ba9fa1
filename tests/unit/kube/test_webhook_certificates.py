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


def trusted(pouch: CertificateBundle) -> bool:
    authorities = x509.load_pem_x509_certificates(pouch.trust.encode())
    return any(_issued(pouch.serving.parsed, by) for by in authorities)


def _issued(certificate: x509.Certificate, by: x509.Certificate) -> bool:
    return certificate.issuer == by.subject


def test_the_first_pouch_serves_its_names_and_is_trusted() -> None:
    pouch = renew_bundle(None, HOSTS, NOW)
    names = pouch.serving.parsed.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["hook.slinky.svc"]
    assert trusted(pouch)


def test_nothing_changes_while_nothing_is_due() -> None:
    pouch = renew_bundle(None, HOSTS, NOW)
    assert renew_bundle(pouch, HOSTS, NOW + timedelta(hours=2)) == pouch
    assert renew_bundle(pouch, HOSTS, NOW + SERVING_LIFE / 2) == pouch


def test_the_serving_pair_is_renewed_in_time() -> None:
    pouch = renew_bundle(None, HOSTS, NOW)
    later = renew_bundle(pouch, HOSTS, NOW + SERVING_LIFE * 0.7)
    assert later.serving != pouch.serving
    assert later.authorities == pouch.authorities


def test_a_new_name_gets_a_new_pair() -> None:
    pouch = renew_bundle(None, HOSTS, NOW)
    assert renew_bundle(pouch, (*HOSTS, "more"), NOW).serving != pouch.serving


def test_through_two_years_of_hours_the_server_is_always_trusted_and_never_out_of_date() -> None:
    now, pouch = NOW, renew_bundle(None, HOSTS, NOW)
    seen = {pouch.authorities[0]}
    while now < NOW + 2 * AUTHORITY_LIFE:
        now += timedelta(hours=36)
        before, pouch = pouch, renew_bundle(pouch, HOSTS, now)
        seen |= set(pouch.authorities)
        assert trusted(pouch)
        assert not pouch.serving.ended(now)
        # Whoever still has yesterday's trust can talk to today's server.
        assert trusted(CertificateBundle(before.authorities, pouch.serving)) or len(before.authorities) == len(
            pouch.authorities
        )
        assert len(pouch.authorities) <= 2
    assert len(seen) >= 3


def test_a_new_authority_signs_nothing_until_it_had_time_to_be_known() -> None:
    pouch = renew_bundle(None, HOSTS, NOW)
    due = NOW + AUTHORITY_LIFE * 0.7
    grown = renew_bundle(pouch, HOSTS, due)
    assert len(grown.authorities) == 2
    assert signing_authority(grown.authorities, due) == grown.authorities[0]
    assert signing_authority(grown.authorities, due + SETTLE) == grown.authorities[1]


def test_every_webhook_is_made_to_trust_and_none_is_touched_twice() -> None:
    entries = [WebhookEntry("a", ClientConfig(b"old")), WebhookEntry("b", ClientConfig(b"new"))]
    patch = ca_bundle_patch(entries, b"new")
    assert [(item["op"], item["path"]) for item in patch] == [
        ("test", "/webhooks/0/name"),
        ("add", "/webhooks/0/clientConfig/caBundle"),
    ]
    assert ca_bundle_patch(entries[1:], b"new") == []
