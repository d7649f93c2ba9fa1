# SPDX-License-Identifier: Apache-2.0
"""The values of the chart slurm-bridge. `extraConfig` has the schema of the configuration file itself."""

from charts.schemas.shapes import (
    ANY_LIST,
    ANY_MAP,
    BUDGET,
    COUNT,
    DIGEST,
    FLAG,
    LABELS,
    PORT,
    REFS,
    TEXT,
    Schema,
    chart,
    choice,
    closed,
    fields_of,
    may,
)

from slinky.bridge.config import Settings

_NAME = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
NAME = may("string", pattern=f"^({_NAME})?$")
SPACES = may("array", items={"type": "string", "pattern": f"^{_NAME}$"})
WORD = may("string", pattern=r"^[^\s,=]*$")
DURATION = may("string", pattern=r"^([0-9]+(\.[0-9]+)?(h|m|s|ms))+$")
TAG = may("string", pattern="^([A-Za-z0-9_][A-Za-z0-9._-]*)?$")
IMAGE = closed(
    repository=may("string", minLength=1),
    tag=TAG,
    digest={"anyOf": [DIGEST, {"const": ""}]},
    pullPolicy=choice("Always", "IfNotPresent", "Never"),
)
DOOR = may("integer", minimum=1, maximum=65535)
KEY = may("string", pattern="^[-._a-zA-Z0-9]+$")

_PLACE: dict[str, Schema] = {
    "priorityClassName": TEXT,
    "resources": ANY_MAP,
    "nodeSelector": LABELS,
    "affinity": ANY_MAP,
    "tolerations": ANY_LIST,
    "topologySpreadConstraints": ANY_LIST,
    "pdb": BUDGET,
}
#: A word or, as other bridges have it, a number.
_LEVEL = {"anyOf": [choice("debug", "info", "warning", "error"), {"type": "integer"}, {"pattern": "^[0-9]+$"}]}
_CONFIG = fields_of(Settings)

BRIDGE = chart(
    "slurm-bridge",
    nameOverride=NAME,
    fullnameOverride=NAME,
    namespaceOverride=NAME,
    imagePullSecrets=REFS,
    scheduler=closed(
        image=IMAGE,
        replicaCount=COUNT,
        leaderElect=FLAG,
        verbosity=_LEVEL,
        healthPort=DOOR,
        metricsPort=PORT,
        featureGates=ANY_MAP,
        **_PLACE,
    ),
    schedulerConfig=closed(schedulerName=may("string", pattern=f"^{_NAME}$"), mcsLabel=WORD, partition=WORD),
    extraConfig=closed(**_CONFIG),
    admission=closed(
        enabled=FLAG,
        certManager=closed(enabled=FLAG, duration=DURATION, renewBefore=DURATION),
        tls=closed(existingSecret=NAME, caBundle=may("string", pattern="^[A-Za-z0-9+/=]*$")),
        replicas=COUNT,
        managedNamespaces=SPACES,
        managedNamespaceSelector=_CONFIG["managedNamespaceSelector"],
        failurePolicy=choice("Fail", "Ignore"),
        timeoutSeconds=may("integer", minimum=1, maximum=30),
        **_PLACE,
    ),
    controllers=closed(
        enabled=FLAG,
        image=IMAGE,
        replicas=COUNT,
        leaderElect=FLAG,
        verbosity=_LEVEL,
        podWorkers=COUNT,
        nodeWorkers=COUNT,
        **_PLACE,
    ),
    sharedConfig=closed(
        slurmRestApi=may("string", pattern=r"^(https?://[^\s/]+|unix:/\S+)/?$"),
        slurmTlsSecret=NAME,
        slurmJwtSecret={"anyOf": [NAME, closed(name=NAME, key=KEY)]},
        token=closed(create=FLAG, username=WORD, lifetime=DURATION, jwtKeyRef=closed(name=NAME, key=KEY)),
    ),
    completer=closed(
        enabled=FLAG,
        image=IMAGE,
        slurmctldHosts=may("array", items={"type": "string", "pattern": "^[A-Za-z0-9.:-]+$"}),
        slurmctldPort=DOOR,
        clusterName=may("string", pattern="^[A-Za-z0-9_-]+$", maxLength=40),
        resources=ANY_MAP,
    ),
)
