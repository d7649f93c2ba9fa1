# SPDX-License-Identifier: Apache-2.0
"""The certificate of a RestApi: a Secret for the server, and a ConfigMap with the authorities for clients. Pure.

Every RestApi has an authority of its own, which signs only its certificate. A new authority is in the ConfigMap for an
hour before it signs, so that all clients trust it by then.
"""

import base64
import binascii
from collections.abc import Mapping
from datetime import datetime

from slinky.api.names import child_names
from slinky.api.names.child_names import SLURMRESTD
from slinky.api.restapi import REST_APIS, RestApi
from slinky.kube.certificates import CertificateBundle, decode_bundle, encode_bundle, renew_bundle
from slinky.kube.tls import CA_CERTIFICATE
from slinky.kube.types import Key
from slinky.kube.views import CONFIG_MAPS, SECRETS
from slinky.operator.build.child_metadata import child_manifest
from slinky.operator.build.pod_parts import JsonObject

#: Seconds until the age of the certificates is looked at again; they are replaced weeks before they expire.
RENEWAL_CHECK_SECONDS = 3600.0


def host_names(rest_api: RestApi, cluster_domain: str) -> tuple[str, ...]:
    """Return the DNS names under which clients reach the Service."""
    service, namespace = rest_api.service_name, rest_api.metadata.namespace
    full_name = f"{service}.{namespace}.svc"
    names = (rest_api.host, service, f"{service}.{namespace}", full_name, f"{full_name}.{cluster_domain}")
    return tuple(dict.fromkeys(names))


def renew(
    data: Mapping[str, str] | None, rest_api: RestApi, now: datetime, cluster_domain: str = child_names.FALLBACK_DOMAIN
) -> CertificateBundle:
    """Return the bundle to use now; `data` is that of the Secret. A content that cannot be read is replaced."""
    try:
        current = decode_bundle({name: base64.b64decode(value) for name, value in (data or {}).items()})
    except (ValueError, binascii.Error):
        current = None
    return renew_bundle(current, host_names(rest_api, cluster_domain), now)


def secret(rest_api: RestApi, bundle: CertificateBundle) -> JsonObject:
    """Return the Secret of the server."""
    data = {name: base64.b64encode(value).decode() for name, value in encode_bundle(bundle).items()}
    key = Key(rest_api.metadata.namespace, rest_api.tls_secret_name)
    return child_manifest(REST_APIS, rest_api, SLURMRESTD, SECRETS, key, data=data)


def ca_config(rest_api: RestApi, bundle: CertificateBundle) -> JsonObject:
    """Return the ConfigMap of the clients."""
    key = Key(rest_api.metadata.namespace, rest_api.ca_config_name)
    return child_manifest(REST_APIS, rest_api, SLURMRESTD, CONFIG_MAPS, key, data={CA_CERTIFICATE: bundle.ca_bundle})
