# SPDX-License-Identifier: Apache-2.0
"""The smallest valid object of each kind, with changes; and manifests as users of the incumbent have them."""

from typing import Any

KEY = {"name": "keys", "key": "slurm.key"}
JWT = {"name": "keys", "key": "jwt.key"}

SMALLEST: dict[str, dict[str, Any]] = {
    "Controller": {"slurmKeyRef": KEY, "jwtKeyRef": JWT},
    "Accounting": {
        "slurmKeyRef": KEY,
        "jwtKeyRef": JWT,
        "storageConfig": {"host": "mariadb", "passwordKeyRef": {"name": "mariadb", "key": "password"}},
    },
    "RestApi": {"controllerRef": {"name": "slurm"}},
    "LoginSet": {"controllerRef": {"name": "slurm"}, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}},
    "NodeSet": {"controllerRef": {"name": "slurm"}},
    "Token": {"jwtKeyRef": JWT, "username": "alice"},
}


def manifest(kind: str, space: str, name: str = "slurm", **changes: Any) -> dict[str, Any]:
    """An object of `kind`; a change of None takes the field away."""
    spec = {key: value for key, value in {**SMALLEST[kind], **changes}.items() if value is not None}
    meta = {"name": name, "namespace": space}
    return {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind, "metadata": meta, "spec": spec}


FAMILIAR = """
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata:
  name: slurm
spec:
  clusterName: slurm_slurm
  slurmKeyRef: {name: slurm-auth-slurm, key: slurm.key}
  jwtHs256KeyRef: {name: slurm-auth-jwths256, key: jwt_hs256.key}
  accountingRef: {name: slurm}
  slurmctld:
    image: ghcr.io/slinkyproject/slurmctld:25.11-ubuntu24.04
    imagePullPolicy: IfNotPresent
    resources: {}
  reconfigure:
    image: ghcr.io/slinkyproject/slurmctld:25.11-ubuntu24.04
  logfile:
    image: docker.io/library/alpine:latest
  template:
    metadata: {labels: null, annotations: {}}
    spec:
      nodeSelector: {kubernetes.io/os: linux}
      tolerations: [{key: dedicated, operator: Exists}]
  extraConf: |
    SelectTypeParameters=CR_Core_Memory
    SlurmctldDebug=debug
  configFileRefs: null
  prologScriptRefs: [{name: slurm-prolog-scripts}]
  epilogScriptRefs: []
  persistence:
    enabled: true
    existingClaim: ""
    storageClassName: standard
    accessModes: [ReadWriteOnce]
    resources: {requests: {storage: 4Gi}}
  service:
    metadata: {}
    spec: {type: LoadBalancer}
    port: 6817
  metrics:
    enabled: true
    serviceMonitor:
      enabled: true
      interval: 30s
      scrapeTimeout: 25s
      endpoints: [{path: /metrics/jobs, interval: 1m, scrapeTimeout: 30s}]
---
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata:
  name: elsewhere
spec:
  external: true
  externalConfig: {host: slurmctld.example.org, port: 6817}
---
apiVersion: slinky.slurm.net/v1beta1
kind: Accounting
metadata:
  name: slurm
spec:
  slurmKeyRef: {name: slurm-auth-slurm, key: slurm.key}
  jwtHs256KeyRef: {name: slurm-auth-jwths256, key: jwt_hs256.key}
  slurmdbd: {image: "ghcr.io/slinkyproject/slurmdbd:25.11-ubuntu24.04"}
  storageConfig:
    host: mariadb
    port: 3306
    database: slurm_acct_db
    username: slurm
    passwordKeyRef: {name: mariadb-password, key: password}
---
apiVersion: slinky.slurm.net/v1beta1
kind: RestApi
metadata:
  name: slurm
spec:
  controllerRef: {name: slurm}
  replicas: 2
  slurmrestd: {image: "ghcr.io/slinkyproject/slurmrestd:25.11-ubuntu24.04", args: [], env: []}
  service: {spec: {type: ClusterIP}}
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata:
  name: slurm-worker-gpu
spec:
  controllerRef: {name: slurm}
  replicas: 4
  slurmd:
    image: ghcr.io/slinkyproject/slurmd:25.11-ubuntu24.04
    resources: {limits: {nvidia.com/gpu: 8}}
  logfile: {image: "docker.io/library/alpine:latest"}
  template:
    spec: {hostname: gpu-, nodeSelector: {kubernetes.io/os: linux}}
  extraConf: Weight=10 Gres=gpu:8
  ssh: {enabled: true, extraSshdConfig: "", sssdConfRef: {name: slurm-sssd-conf, key: sssd.conf}}
  partition: {enabled: true, config: State=UP MaxTime=UNLIMITED}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 25%}}
  volumeClaimTemplates:
  - metadata: {name: scratch}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
  persistentVolumeClaimRetentionPolicy: {whenDeleted: Delete, whenScaled: Retain}
  ordinalPadding: 3
  workloadDisruptionProtection: true
---
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata:
  name: slurm-worker-everywhere
spec:
  controllerRef: {name: slurm}
  scalingMode: DaemonSet
  pruneSlurmNodeRecords: NodeNotFound
  updateStrategy:
    type: ScheduledUpdate
    scheduledUpdate: {startTime: "2026-12-01T10:00:00Z", duration: 30m, flags: [daily]}
---
apiVersion: slinky.slurm.net/v1beta1
kind: LoginSet
metadata:
  name: slurm-login-main
spec:
  controllerRef: {name: slurm}
  replicas: 1
  login:
    image: ghcr.io/slinkyproject/login:25.11-ubuntu24.04
    securityContext: {privileged: false}
  initconf: {image: "ghcr.io/slinkyproject/sackd:25.11-ubuntu24.04"}
  rootSshAuthorizedKeys: ssh-ed25519 AAAA someone
  extraSshdConfig: "X11Forwarding no"
  sssdConfRef: {name: slurm-sssd-conf, key: sssd.conf}
  strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 25%}}
  service: {spec: {type: LoadBalancer}, port: 2222, nodePort: 32222}
---
apiVersion: slinky.slurm.net/v1beta1
kind: Token
metadata:
  name: alice
spec:
  jwtHs256KeyRef: {name: slurm-auth-jwths256, key: jwt_hs256.key}
  username: alice
  lifetime: 12h0m0s
  refresh: true
  secretRef: {name: alice-token, key: SLURM_JWT}
"""
