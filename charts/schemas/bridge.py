# SPDX-License-Identifier: Apache-2.0
"""The schema of the values of the chart slurm-bridge. `extraConfig` has the schema of the configuration file."""

from charts.schemas.shapes import (
    ANY_MAP,
    BUDGET,
    COUNT,
    DIGEST,
    FLAG,
    FLOW_CONTROL,
    LEVEL,
    MONITORING,
    PLACE,
    PORT,
    PULL,
    REFS,
    RESOURCES,
    SERVICE_MONITOR,
    TAG,
    TEXT,
    Schema,
    chart,
    choice,
    closed,
    fields_of,
    may,
    needing,
)

from slinky.bridge.config import BridgeSettings, CompatProfiles

_NAME = "[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
NAME = may("string", pattern=f"^({_NAME})?$")
NAMESPACES = may("array", items={"type": "string", "pattern": f"^{_NAME}$"})
WORD = may("string", pattern=r"^[^\s,=]*$")
DURATION = may("string", pattern=r"^([0-9]+(\.[0-9]+)?(h|m|s|ms))+$")
IMAGE = closed(repository=TEXT, tag=TAG, digest=DIGEST, pullPolicy=PULL)
REQUIRED_PORT = may("integer", minimum=1, maximum=65535)
KEY = may("string", pattern="^[-._a-zA-Z0-9]+$")

_POD_SETTINGS: dict[str, Schema] = {"priorityClassName": TEXT, "resources": RESOURCES, "pdb": BUDGET, **PLACE}
_SETTINGS = fields_of(BridgeSettings)
#: Device profiles in the current format or in that of slurm-bridge 1.3.
PROFILES = {
    "description": _SETTINGS["deviceProfiles"].pop("description"),
    "anyOf": [_SETTINGS["deviceProfiles"], fields_of(CompatProfiles)["deviceProfiles"]],
}

_SCHEDULER = closed(
    image=IMAGE,
    replicaCount=COUNT,
    leaderElect=FLAG,
    verbosity=LEVEL,
    healthPort=REQUIRED_PORT,
    metricsPort=PORT,
    serviceMonitor=SERVICE_MONITOR,
    featureGates=ANY_MAP,
    **_POD_SETTINGS,
)
_ADMISSION = closed(
    enabled=FLAG,
    image=IMAGE,
    certManager=closed(enabled=FLAG, duration=DURATION, renewBefore=DURATION),
    tls=closed(existingSecret=NAME, caBundle=may("string", pattern="^[A-Za-z0-9+/=]*$")),
    replicas=COUNT,
    managedNamespaces=NAMESPACES,
    managedNamespaceSelector=_SETTINGS["managedNamespaceSelector"],
    metadataPolicy=closed(enabled=FLAG),
    failurePolicy=choice("Fail", "Ignore"),
    timeoutSeconds=may("integer", minimum=1, maximum=30),
    metricsPort=PORT,
    serviceMonitor=SERVICE_MONITOR,
    **_POD_SETTINGS,
)

BRIDGE = chart(
    "slurm-bridge",
    "scheduler",
    "schedulerConfig",
    "admission",
    "sharedConfig",
    nameOverride=NAME,
    fullnameOverride=NAME,
    namespaceOverride=NAME,
    imagePullSecrets=REFS,
    scheduler=_SCHEDULER,
    schedulerConfig=closed(
        schedulerName=may("string", pattern=f"^{_NAME}$"),
        mcsLabel=WORD,
        partition=WORD,
        clientQPS=may("number"),
        clientBurst=COUNT,
    ),
    policy=_SETTINGS["policy"],
    networkPolicy=closed(enabled=FLAG),
    flowControl=FLOW_CONTROL,
    extraConfig=closed(**{**_SETTINGS, "deviceProfiles": PROFILES}),
    admission=needing(_ADMISSION, "certManager"),
    **MONITORING,
    controllers=closed(
        enabled=FLAG,
        image=IMAGE,
        replicas=COUNT,
        leaderElect=FLAG,
        verbosity=LEVEL,
        podWorkers=COUNT,
        nodeWorkers=COUNT,
        **_POD_SETTINGS,
    ),
    sharedConfig=closed(
        slurmRestApi=may("string", pattern=r"^(https?://[^\s/]+|unix:/\S+)/?$"),
        deviceProfiles=PROFILES,
        slurmTlsSecret=NAME,
        slurmCaConfigMap=NAME,
        slurmJwtSecret={"anyOf": [NAME, closed(name=NAME, key=KEY)]},
        token=closed(create=FLAG, username=WORD, lifetime=DURATION, jwtKeyRef=closed(name=NAME, key=KEY)),
    ),
    completer=closed(
        enabled=FLAG,
        image=IMAGE,
        slurmctldHosts=may("array", items={"type": "string", "pattern": "^[A-Za-z0-9.:-]+$"}),
        slurmctldPort=REQUIRED_PORT,
        clusterName=may("string", pattern="^[A-Za-z0-9_-]+$", maxLength=40),
        resources=RESOURCES,
    ),
)
