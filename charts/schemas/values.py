# SPDX-License-Identifier: Apache-2.0
"""The values of each chart."""

from charts.schemas.shapes import (
    ANY_LIST,
    ANY_MAP,
    BUDGET,
    CONTAINER,
    COUNT,
    FLAG,
    FLOW_CONTROL,
    IMAGE,
    KEY_REF,
    LABELS,
    LEVEL,
    META,
    MONITORING,
    NAMES,
    PLACE,
    POD,
    PORT,
    PULL,
    REFS,
    RESOURCES,
    SERVICE,
    SERVICE_MONITOR,
    SETTINGS,
    TEXT,
    TEXTS,
    Schema,
    chart,
    choice,
    closed,
    digits,
    entries,
    fields_of,
    may,
    needing,
)

from slinky.api import AccountingSpec, ControllerSpec, LoginSetSpec, NodeSetSpec, RestApiSpec, TokenSpec

# --- slurm-operator

FAILURE = choice("Fail", "Ignore")
MATCH = choice("Equivalent", "Exact")

_PROCESS: dict[str, Schema] = {
    "enabled": FLAG,
    "replicas": COUNT,
    "image": IMAGE,
    "imagePullPolicy": PULL,
    "serviceAccount": closed(create=FLAG, name=TEXT),
    **PLACE,
    "podSecurityContext": ANY_MAP,
    "securityContext": ANY_MAP,
    "resources": RESOURCES,
    "pdb": BUDGET,
    "logLevel": LEVEL,
    "healthPort": may("integer", minimum=1, maximum=65535),
    "metricsPort": digits(PORT),
    "metricsSecure": FLAG,
    "serviceMonitor": SERVICE_MONITOR,
    "leaderElection": FLAG,
    "namespaces": TEXT,
    "extraArgs": NAMES,
}
_KINDS = ("accounting", "controller", "loginset", "nodeset", "restapi", "token", "slurmclient")
_WORKERS = {f"{kind}Workers": may("integer", minimum=1) for kind in _KINDS}

_SECONDS = may("number", minimum=0)
_LIMITS: dict[str, Schema] = {
    "daemonImage": TEXT,
    "proxyImage": TEXT,
    "slurmUser": TEXT,
    "clusterDomain": TEXT,
    "deletionLimitShare": may("number", minimum=0, maximum=1),
    "deletionLimitMinimum": may("integer", minimum=1),
    "deletionLimitWindow": may("number", exclusiveMinimum=0),
    "unregisteredSeconds": _SECONDS,
    "trialSeconds": _SECONDS,
    "keySettle": _SECONDS,
    "keyRetire": _SECONDS,
}

_OPERATOR = closed(**_PROCESS, **_WORKERS, **_LIMITS, profile=FLAG, profileAddr=TEXT)
_WEBHOOK = closed(
    **_PROCESS,
    podsBinding=FLAG,
    timeoutSeconds=may("integer", minimum=1, maximum=30),
    serverPort=may("integer", minimum=1, maximum=65535),
    externalMetrics=closed(enabled=FLAG, port=may("integer", minimum=1, maximum=65535)),
    failurePolicy=FAILURE,
    matchPolicy=MATCH,
    validating=closed(failurePolicy=FAILURE, matchConditions=ANY_LIST, matchPolicy=MATCH, namespaceSelector=ANY_MAP),
    mutating=closed(failurePolicy=FAILURE, matchConditions=ANY_LIST, matchPolicy=MATCH),
)

OPERATOR = chart(
    "slurm-operator",
    "operator",
    "webhook",
    "certManager",
    nameOverride=TEXT,
    fullnameOverride=TEXT,
    namespaceOverride=TEXT,
    imagePullSecrets=REFS,
    imagePullPolicy=PULL,
    priorityClassName=TEXT,
    crds=closed(enabled=FLAG),
    metadataPolicy=closed(enabled=FLAG),
    networkPolicy=closed(enabled=FLAG),
    flowControl=FLOW_CONTROL,
    aggregateRoles=closed(view=FLAG, edit=FLAG, admin=FLAG),
    propagatedNodeConditions=NAMES,
    operator=needing(_OPERATOR, "serviceAccount"),
    webhook=needing(_WEBHOOK, "serviceAccount", "validating", "mutating"),
    **MONITORING,
    certManager=closed(enabled=FLAG, secretName=TEXT, duration=TEXT, renewBefore=TEXT),
    extraObjects=ANY_LIST,
    **{"slurm-operator-crds": ANY_MAP},
)

# --- slurm-operator-crds

DEFINITIONS = chart("slurm-operator-crds")

# --- slurm

_TEMPLATE = {"metadata": META, "podSpec": POD}
_CONF = {"extraConf": TEXT, "extraConfMap": SETTINGS}
_HOST = closed(host=TEXT, port=PORT)
_KEY = closed(create=FLAG, annotations=LABELS, secretRef=KEY_REF)

_CONTROLLER = closed(
    external=FLAG,
    externalConfig=_HOST,
    slurmctld=CONTAINER,
    reconfigure=CONTAINER,
    logfile=CONTAINER,
    service=SERVICE,
    **fields_of(ControllerSpec, "inplaceReconfigure", "ha", "persistence", "metrics", "outage"),
    **_CONF,
    **_TEMPLATE,
)
_REST_API = closed(
    replicas=COUNT, pdb=BUDGET, slurmrestd=CONTAINER, service=SERVICE, **fields_of(RestApiSpec, "tls"), **_TEMPLATE
)
_ACCOUNTING = closed(
    enabled=FLAG,
    external=FLAG,
    externalConfig=_HOST,
    slurmdbd=CONTAINER,
    service=SERVICE,
    **fields_of(AccountingSpec, "storageConfig", "backup"),
    **_CONF,
    **_TEMPLATE,
)
_LOGIN_SET = closed(
    enabled=FLAG,
    login=CONTAINER,
    initconf=CONTAINER,
    service=SERVICE,
    **fields_of(LoginSetSpec, "replicas", "rootSshAuthorizedKeys", "extraSshdConfig", "strategy"),
    **_TEMPLATE,
)
_NODE_SET = closed(
    enabled=FLAG,
    slurmd=CONTAINER,
    # Values written for slurm-operator have these beside slurmd.
    image=IMAGE,
    resources=RESOURCES,
    logfile=CONTAINER,
    ssh=closed(enabled=FLAG, extraSshdConfig=TEXT),
    partition=closed(enabled=FLAG, config=TEXT, configMap=SETTINGS),
    **fields_of(
        NodeSetSpec,
        without=("controllerRef", "slurmd", "logfile", "ssh", "template", "extraConf", "partition"),
    ),
    **_CONF,
    **_TEMPLATE,
)
_SCRIPTS = {
    f"{name}{what}": shape
    for name in ("prolog", "epilog", "prologSlurmctld", "epilogSlurmctld")
    for what, shape in (("Scripts", TEXTS), ("ScriptRefs", REFS))
}
_GOOGLE = may(
    "array",
    items={
        "type": "object",
        "properties": {
            "targetNodeSet": {"type": "string", "minLength": 1},
            "nodePool": {"type": "string", "minLength": 1},
            "networks": {"type": "array", "items": {"type": "string", "minLength": 1}, "minItems": 9, "maxItems": 9},
        },
        "required": ["targetNodeSet", "nodePool", "networks"],
        "additionalProperties": False,
    },
)

CLUSTER = chart(
    "slurm",
    "controller",
    "restapi",
    "accounting",
    "loginsetDefaults",
    "nodesetDefaults",
    nameOverride=TEXT,
    fullnameOverride=TEXT,
    namespaceOverride=TEXT,
    networkPolicy=closed(enabled=FLAG, namespaces=NAMES, allowFrom=ANY_LIST),
    asciiArt=FLAG,
    imagePullSecrets=REFS,
    imagePullPolicy=PULL,
    priorityClass=closed(
        enabled=FLAG,
        create=FLAG,
        name=TEXT,
        description=TEXT,
        value=may("integer"),
        preemptionPolicy=choice("PreemptLowerPriority", "Never"),
    ),
    slurmKey=_KEY,
    jwtKey=_KEY,
    jwksKeys=closed(enabled=FLAG, configMapRef=KEY_REF),
    clusterName=may("string", maxLength=40),
    logFormat=choice("json", "plain"),
    configFiles=TEXTS,
    **_SCRIPTS,
    controller=needing(_CONTROLLER, "slurmctld"),
    restapi=needing(_REST_API, "slurmrestd"),
    exporter=closed(
        enabled=FLAG,
        image=IMAGE,
        port=PORT,
        username=may("string", minLength=1, maxLength=32),
        accounts=FLAG,
        users=FLAG,
        jobs=FLAG,
        nodesMax=COUNT,
        seriesMax=may("integer", minimum=2),
        jobsMax=may("integer", minimum=1),
        slurmctldMetrics=closed(enabled=FLAG),
        logLevel=LEVEL,
        resources=RESOURCES,
        **PLACE,
        web=closed(
            enabled=FLAG,
            port=PORT,
            tokenReview=FLAG,
            proxyAddresses=NAMES,
            proxyUserHeader=TEXT,
            proxyGroupsHeader=TEXT,
            userPrefix=TEXT,
            userSuffix=TEXT,
            operators=NAMES,
            operatorGroups=NAMES,
            nodesets=FLAG,
            certificateSecret=TEXT,
        ),
        serviceMonitor=closed(
            enabled=FLAG,
            interval=TEXT,
            labels=LABELS,
            compat=may("array", items=choice("slurm-exporter", "slurmctld", "vpenso")),
        ),
    ),
    **MONITORING,
    accounting=needing(_ACCOUNTING, "slurmdbd"),
    sssd=closed(secretRef=KEY_REF, conf=TEXT),
    loginsetDefaults=needing(_LOGIN_SET, "login"),
    loginsets=entries(_LOGIN_SET),
    nodesetDefaults=needing(_NODE_SET, "slurmd"),
    nodesets=entries(_NODE_SET),
    partitions=may(
        "object",
        patternProperties={
            "^[A-Za-z0-9_][-A-Za-z0-9_.]*$": closed(enabled=FLAG, nodesets=NAMES, config=TEXT, configMap=SETTINGS)
        },
        additionalProperties=False,
    ),
    tokens=entries(closed(**fields_of(TokenSpec, "username", "lifetime", "refresh", "secretRef"))),
    vendor=closed(
        nvidia=closed(dcgm=closed(enabled=FLAG, jobMappingDir=TEXT, scriptPriority=digits(COUNT))),
        google=closed(a3mega=_GOOGLE, a3ultra=_GOOGLE),
    ),
    extraObjects=ANY_LIST,
)
