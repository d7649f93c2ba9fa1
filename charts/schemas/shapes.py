# SPDX-License-Identifier: Apache-2.0
"""Small pieces of JSON Schema for chart values.

Every object is closed, so that a misspelt value is refused by name; every field may be null, because that is how Helm
takes a default away. What goes into one of our kinds unchanged has the schema of that kind.
"""

from typing import Any

from slinky.kube.openapi import schema_of

Schema = dict[str, Any]


def may(kind: str, **more: Any) -> Schema:
    """A value of that type, or null."""
    return {"type": [kind, "null"], **more}


TEXT = may("string")
FLAG = may("boolean")
COUNT = may("integer", minimum=0)
PORT = may("integer", minimum=0, maximum=65535)
ANY_MAP = may("object")
ANY_LIST = may("array")
NAMES = may("array", items={"type": "string"})
LABELS = may("object", additionalProperties={"type": ["string", "null"]})
TEXTS = LABELS
SCALAR = {"type": ["string", "number", "boolean", "null"]}
SHARE = {"type": ["integer", "string", "null"]}
SETTINGS = may("object", additionalProperties={"anyOf": [SCALAR, {"type": "array", "items": SCALAR}]})


def choice(*values: str) -> Schema:
    """One of these words."""
    return {"enum": [*values, None]}


def digits(number: Schema) -> Schema:
    """That number, or its digits as a text: people quote numbers."""
    return {"anyOf": [number, {"type": "string", "pattern": "^(0|[1-9][0-9]*)$"}]}


def closed(**fields: Schema) -> Schema:
    """An object with these fields and no others."""
    return may("object", properties=fields, additionalProperties=False)


def needing(of: Schema, *names: str) -> Schema:
    """That object, but not without these sections: a bare `name:` in a file takes all their defaults away."""
    return {**of, "required": list(names)}


def entries(of: Schema) -> Schema:
    """An object whose keys are names that become part of host names."""
    return may("object", patternProperties={"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": of}, additionalProperties=False)


def fields_of(kind: type, *names: str, without: tuple[str, ...] = ()) -> dict[str, Schema]:
    """Fields of one of our kinds, as values: closed, and each may be null."""
    found = schema_of(kind)["properties"]
    return {name: strict(found[name]) for name in names or found if name not in without}


def strict(schema: Schema) -> Schema:
    """A structural schema as JSON Schema that refuses unknown fields."""
    if schema.get("x-kubernetes-int-or-string"):
        return SHARE
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return ANY_MAP
    kept = ("minimum", "maximum", "pattern", "minItems", "description")
    out: Schema = {str(name): schema[name] for name in kept if name in schema}
    if "enum" in schema:
        return {**out, "enum": [*schema["enum"], None]}
    out["type"] = [schema["type"], "null"]
    if "properties" in schema:
        out["properties"] = {name: strict(inner) for name, inner in schema["properties"].items()}
        out["additionalProperties"] = False
    elif isinstance(schema.get("additionalProperties"), dict):
        out["additionalProperties"] = strict(schema["additionalProperties"])
    if "items" in schema:
        out["items"] = strict(schema["items"])
    return out


PULL = choice("Always", "IfNotPresent", "Never")
#: A word or, as in values written for others, a number.
LEVEL = digits({"enum": ["debug", "info", "warning", "error", None, *range(11)]})
#: Empty is none, as null is.
TAG = may("string", pattern="^([A-Za-z0-9_][A-Za-z0-9._-]*)?$")
DIGEST = may("string", pattern="^(sha256:[0-9a-f]{64})?$")
IMAGE = {"anyOf": [TEXT, closed(repository=TEXT, tag=TAG, digest=DIGEST)]}

#: Where the images come from, the same for every chart; `make images` writes it.
GLOBAL = may(
    "object",
    properties={
        "registry": may("string", pattern=r"^([a-z0-9][a-z0-9.-]*(:[0-9]+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*/?)?$"),
        "tag": TAG,
        "digests": may("object", additionalProperties=DIGEST),
    },
)

#: A priority level of the API server for our processes.
FLOW_CONTROL = closed(
    enabled=FLAG,
    matchingPrecedence=may("integer", minimum=1, maximum=10000),
    nominalConcurrencyShares=may("integer", minimum=1, maximum=1000),
)


def fields(names: str) -> dict[str, Schema]:
    """Fields of core/v1 by name; what is inside is the API server's to judge."""
    return {name: {} for name in names.split()}


#: What people write by hand and the API server only warns about.
RESOURCES = closed(limits=ANY_MAP, requests=ANY_MAP, claims=ANY_LIST)
PLACE: dict[str, Schema] = {
    "nodeSelector": LABELS,
    "affinity": closed(**fields("nodeAffinity podAffinity podAntiAffinity")),
    "tolerations": may("array", items=closed(**fields("effect key operator tolerationSeconds value"))),
    "topologySpreadConstraints": may(
        "array",
        items=closed(
            **fields(
                "labelSelector matchLabelKeys maxSkew minDomains nodeAffinityPolicy nodeTaintsPolicy topologyKey "
                "whenUnsatisfiable"
            )
        ),
    ),
}

_CONTAINER = """
args command env envFrom imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy
restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath
terminationMessagePolicy tty volumeDevices volumeMounts workingDir
"""
_POD = """
activeDeadlineSeconds automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks
ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets
initContainers nodeName os overhead preemptionPolicy priority priorityClassName readinessGates
resourceClaims restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup securityContext
serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain terminationGracePeriodSeconds
volumes workloadRef
"""

CONTAINER = closed(image=IMAGE, resources=RESOURCES, **fields(_CONTAINER))
POD = closed(resources=RESOURCES, **PLACE, **fields(_POD))
META = closed(labels=LABELS, annotations=LABELS)
SERVICE = closed(metadata=META, spec=ANY_MAP, port=PORT, nodePort=PORT)
BUDGET = closed(enabled=FLAG, minAvailable=SHARE, maxUnavailable=SHARE)
SERVICE_MONITOR = closed(enabled=FLAG, interval=TEXT, labels=LABELS)
#: What every chart delivers for Grafana and Prometheus.
MONITORING: dict[str, Schema] = {
    "dashboards": closed(enabled=FLAG, labels=LABELS, annotations=LABELS),
    "prometheusRule": closed(enabled=FLAG, labels=LABELS, runbookUrl=TEXT),
}
KEY_REF = closed(name=TEXT, key=TEXT)
REFS = may("array", items=closed(name={"type": "string", "minLength": 1}))


def chart(title: str, *sections: str, **fields: Schema) -> Schema:
    """The schema of a whole values file, which must not do without these sections."""
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": title,
        "type": "object",
        "properties": {"global": GLOBAL, **fields},
        "required": list(sections),
        "additionalProperties": False,
    }
