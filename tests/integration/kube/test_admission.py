# SPDX-License-Identifier: Apache-2.0
"""A real API server calls the admission server."""

import base64
import itertools
from pathlib import Path
from typing import Any

import pytest
from tests.integration.kube.objects import config_map
from tests.support.waiting import eventually
from tests.unit.kube.pki import self_signed

from slinky.kube import (
    CONFIG_MAPS,
    AdmissionRequest,
    AdmissionResponse,
    ApiError,
    ConfigMap,
    Key,
    KubeClient,
    Object,
    Resource,
    deny,
)
from slinky.kube.admission import application, serve
from slinky.observe import ManualClock

pytestmark = pytest.mark.plane


def hooks(kind: str) -> Resource[Object]:
    plural = f"{kind.lower()}s"
    return Resource("admissionregistration.k8s.io/v1", kind, plural, Object, namespaced=False)


def webhook(url: str, ca: bytes, namespace: str) -> dict[str, Any]:
    return {
        "name": "test.slinky.dev",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca).decode()},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "timeoutSeconds": 5,
        "failurePolicy": "Fail",
    }


async def review(request: AdmissionRequest) -> AdmissionResponse:
    match request.new(ConfigMap).data.get("answer"):
        case "no":
            return deny("the test says no")
        case "bug":
            raise ZeroDivisionError
        case "change":
            return AdmissionResponse(patch=({"op": "add", "path": "/data/added", "value": request.user_info.username},))
    return AdmissionResponse(warnings=("mind the gap",))


async def test_objects_are_admitted_refused_and_changed_also_after_a_rotation(
    client: KubeClient, namespace: str, tmp_path: Path
) -> None:
    (certificate, key), (new_certificate, new_key) = self_signed("one"), self_signed("two")
    (tmp_path / "crt").write_bytes(certificate)
    (tmp_path / "key").write_bytes(key)
    clock, kind = ManualClock(), hooks("MutatingWebhookConfiguration")
    app = application({"/review": review})
    async with serve(app, tmp_path / "crt", tmp_path / "key", host="127.0.0.1", port=0, clock=clock) as port:
        url = f"https://127.0.0.1:{port}/review"

        async def configure(ca: bytes) -> None:
            hook = webhook(url, ca, namespace)
            await client.apply(kind, kind.manifest(Key("", namespace), webhooks=[hook]))

        async def create(name: str, answer: str) -> ConfigMap | str:
            try:
                return await client.create(CONFIG_MAPS, config_map(namespace, name, {"answer": answer}))
            except ApiError as error:
                return str(error)

        await configure(certificate)
        numbers = itertools.count()

        async def refused() -> bool:  # the server takes a moment to call its new webhook
            return "the test says no" in str(await create(f"probe-{next(numbers)}", "no"))

        await eventually(refused, "a refusal by the webhook")
        changed = await create("changed", "change")
        assert isinstance(changed, ConfigMap)
        assert changed.data["added"] == "kubernetes-admin"
        assert "failed calling webhook" in str(await create("bug", "bug"))

        (tmp_path / "crt").write_bytes(new_certificate)
        (tmp_path / "key").write_bytes(new_key)
        await clock.advance(6.0)
        await configure(new_certificate)

        async def trusted() -> bool:  # the server takes a moment to read the new bundle
            rotated = await create("rotated", "change")
            return isinstance(rotated, ConfigMap) and rotated.data["added"] == "kubernetes-admin"

        await eventually(trusted, "a call with the new certificate")
    await client.delete(kind, Key("", namespace))
