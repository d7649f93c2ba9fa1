# SPDX-License-Identifier: Apache-2.0
"""The values of the charts of slurm-operator and slurm-bridge 1.2 and 1.3.

Every documented value is set, to something other than its default where possible.
"""

OPERATOR = """
nameOverride: ""
fullnameOverride: ""
namespaceOverride: ""
imagePullSecrets: [{name: pull}]
imagePullPolicy: Always
priorityClassName: system-cluster-critical
crds: {enabled: false}
propagatedNodeConditions: [GPUUnhealthy, KubeletUnhealthy]
operator: &process
  enabled: true
  replicas: 1
  image: {repository: registry.example/slinky, tag: "", digest: null}
  imagePullPolicy: IfNotPresent
  serviceAccount: {create: true, name: ""}
  nodeSelector: {kubernetes.io/os: linux}
  affinity: {nodeAffinity: {}}
  tolerations: [{key: a, operator: Exists, effect: NoSchedule}]
  topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {matchLabels: {app.kubernetes.io/name: slurm-operator}}
  podSecurityContext: {fsGroup: 1000}
  securityContext: {readOnlyRootFilesystem: true}
  resources: {requests: {cpu: 1, memory: 1Gi}}
  pdb: {enabled: true, minAvailable: 25%, maxUnavailable: null}
  accountingWorkers: 4
  controllerWorkers: 4
  loginsetWorkers: 4
  nodesetWorkers: 8
  restapiWorkers: 4
  tokenWorkers: 4
  slurmclientWorkers: 2
  logLevel: 4
  healthPort: 8081
  metricsPort: "8080"
  metricsSecure: true
  profile: true
  profileAddr: localhost:6060
  leaderElection: false
  namespaces: a, b
webhook:
  enabled: true
  podsBinding: true
  replicas: 1
  image: registry.example/slinky@sha256:{digest}
  imagePullPolicy: IfNotPresent
  serviceAccount: {create: true, name: doorkeeper}
  nodeSelector: {}
  affinity: {}
  tolerations: []
  topologySpreadConstraints: []
  podSecurityContext: {}
  securityContext: {}
  resources: {}
  pdb: {enabled: false, minAvailable: 1, maxUnavailable: 1}
  timeoutSeconds: 10
  failurePolicy: Ignore
  matchPolicy: Exact
  validating:
    failurePolicy: Fail
    matchConditions: [{name: not-mine, expression: "request.userInfo.username != 'me'"}]
    matchPolicy: Equivalent
    namespaceSelector: {matchLabels: {slurm: "yes"}}
  mutating: {failurePolicy: Ignore, matchConditions: [], matchPolicy: Equivalent}
  serverPort: 9443
  logLevel: info
  healthPort: 8081
  metricsPort: 0
  metricsSecure: false
  leaderElection: true
  namespaces: a
certManager: {enabled: true, secretName: slurm-operator-webhook-ca, duration: 43800h0m0s, renewBefore: 8760h0m0s}
extraObjects:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: extra}, data: {at: "{{ .Release.Namespace }}"}}
""".replace("{digest}", "0" * 64)

CLUSTER = """
nameOverride: null
fullnameOverride: null
namespaceOverride: null
asciiArt: false
imagePullSecrets: [{name: pull}]
imagePullPolicy: Always
priorityClass:
  {enabled: true, create: true, name: familiar, description: a, value: 1000000, preemptionPolicy: Never}
slurmKey: {create: true, annotations: {helm.sh/resource-policy: keep}, secretRef: {name: my-slurm-key, key: my.key}}
jwtKey: {create: true, annotations: {}, secretRef: {}}
jwksKeys: {enabled: true, configMapRef: {name: jwks, key: keys.json}}
clusterName: linux
configFiles: {gres.conf: "AutoDetect=nvidia"}
prologScripts: {00-empty.sh: "#!/bin/sh"}
prologScriptRefs: [{name: my-prolog}]
epilogScripts: {00-empty.sh: "#!/bin/sh"}
epilogScriptRefs: [{name: my-epilog}]
prologSlurmctldScripts: {00-empty.sh: "#!/bin/sh"}
prologSlurmctldScriptRefs: []
epilogSlurmctldScripts: {00-empty.sh: "#!/bin/sh"}
epilogSlurmctldScriptRefs: []
controller:
  external: false
  externalConfig: {host: slurmctld.example.com, port: null}
  slurmctld: {image: {repository: registry.example/slurmctld, tag: 26.05-ubuntu26.04}, args: [-vvv], resources: {}}
  inplaceReconfigure: true
  reconfigure: {image: registry.example/slurmctld:1, resources: {requests: {cpu: 500m}}}
  logfile: {image: {repository: registry.example/alpine, tag: "3.22"}, resources: {}}
  ha: {enabled: false, backups: 1}
  persistence:
    enabled: true
    existingClaim: ""
    storageClassName: "-"
    accessModes: [ReadWriteOnce]
    resources: {requests: {storage: 4Gi}}
  extraConf: null
  extraConfMap: {DebugFlags: [], MinJobAge: 2, SchedulerParameters: [bf_continue, defer], SlurmctldDebug: debug2}
  metadata: {annotations: {a: b}, labels: {c: d}}
  podSpec: &pod
    resources: {}
    initContainers: []
    nodeSelector: {kubernetes.io/os: linux}
    affinity: {}
    tolerations: [{key: a, operator: Exists, effect: NoSchedule}]
  service: {metadata: {annotations: {a: b}}, spec: {type: NodePort}, port: 6817, nodePort: 30817}
  metrics:
    enabled: true
    serviceMonitor:
      enabled: true
      annotations: {}
      labels: {release: prometheus}
      interval: 30s
      scrapeTimeout: 25s
      endpoints: [{path: /metrics/jobs}, {path: /metrics/nodes}]
restapi:
  replicas: 2
  pdb: {enabled: true, minAvailable: 1, maxUnavailable: null}
  slurmrestd:
    image: {repository: registry.example/slurmrestd, tag: a, digest: null}
    env: [{name: SLURMRESTD_YAML, value: pretty}]
    args: []
    resources: {}
  metadata: {}
  podSpec: *pod
  service: {metadata: {}, spec: {}}
accounting:
  enabled: true
  external: false
  externalConfig: {host: slurmdbd.example.com, port: null}
  slurmdbd: {image: {repository: registry.example/slurmdbd, tag: a}, args: [], resources: {}}
  storageConfig:
    host: mariadb
    port: 3306
    database: slurm_acct_db
    username: slurm
    passwordKeyRef: {name: mariadb-password, key: password}
  extraConf: null
  extraConfMap: {CommitDelay: 1, DebugFlags: []}
  metadata: {}
  podSpec: *pod
  service: {metadata: {}, spec: {}}
sssd: {secretRef: {}, conf: "[sssd]\\n"}
loginsetDefaults: &login
  enabled: true
  replicas: 1
  strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}
  login:
    image: {repository: registry.example/login, tag: a}
    env: [{name: SACKD_DEBUG, value: debug2}]
    securityContext: {privileged: false}
    resources: {}
    volumeMounts: [{name: home, mountPath: /home}]
  initconf: {image: {repository: registry.example/alpine, tag: "3.22"}, resources: {}}
  rootSshAuthorizedKeys: null
  extraSshdConfig: null
  metadata: {}
  podSpec: {initContainers: [], volumes: [{name: home, nfs: {server: nfs.example.com, path: /home}}]}
  service: {metadata: {}, spec: {type: LoadBalancer}, port: 22}
loginsets: {slinky: *login}
nodesetDefaults: &nodes
  enabled: true
  scalingMode: StatefulSet
  replicas: 1
  pinToNode: false
  workloadDisruptionProtection: true
  pruneSlurmNodeRecords: NodeNotFound
  ordinalPadding: 3
  oversubscribeNode: true
  slurmd:
    image: {repository: registry.example/slurmd, tag: a}
    args: [-vvv]
    env: [{name: PAM_SLURM_ADOPT_OPTIONS, value: action_adopt_failure=deny}]
    resources: {limits: {cpu: 1, memory: 1Gi, nvidia.com/gpu: 1}}
    volumeMounts: []
  logfile: {image: {repository: registry.example/alpine, tag: "3.22"}, resources: {}}
  extraConf: null
  extraConfMap: {Features: [a, b], Gres: ["gpu:1"], Weight: 0}
  partition: {enabled: false, config: null, configMap: {State: UP, MaxTime: UNLIMITED, OverSubscribe: NO}}
  ssh: {enabled: true, extraSshdConfig: null}
  updateStrategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 25%}
    scheduledUpdate: {startTime: null, duration: 30m, flags: []}
  metadata: {}
  podSpec: *pod
nodesets:
  slinky: *nodes
  other: {partition: {enabled: true}}
partitions:
  all: {enabled: true, nodesets: [ALL], config: null, configMap: {State: UP, Default: "YES", MaxTime: UNLIMITED}}
vendor:
  nvidia: {dcgm: {enabled: true, jobMappingDir: /var/lib/dcgm-exporter/job-mapping, scriptPriority: "90"}}
  google:
    a3mega: []
    a3ultra: [{targetNodeSet: slinky, nodePool: pool, networks: [a, b, c, d, e, f, g, h, i]}]
extraObjects:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: extra}, data: {at: "{{ .Release.Namespace }}"}}
"""

BRIDGE = """
nameOverride: ""
fullnameOverride: ""
namespaceOverride: ""
scheduler:
  image: {repository: registry.example/slinky, tag: "", pullPolicy: Always}
  replicaCount: 1
  leaderElect: false
  featureGates: {DRAExtendedResource: true, DynamicResourceAllocation: true}
  pdb: &pdb {enabled: true, minAvailable: 1, maxUnavailable: null}
  priorityClassName: ""
  resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 4Gi}}
  nodeSelector: {kubernetes.io/os: linux}
  affinity: {}
  tolerations: []
  verbosity: 4
schedulerConfig: {schedulerName: my-scheduler, mcsLabel: kubernetes, partition: gpu, clientQPS: 50, clientBurst: 100}
admission:
  enabled: true
  image: {repository: registry.example/doorkeeper, tag: "2", pullPolicy: IfNotPresent}
  certManager: {enabled: true, duration: 43800h0m0s, renewBefore: 8760h0m0s}
  tls: {existingSecret: "", caBundle: ""}
  replicas: 2
  pdb: *pdb
  priorityClassName: ""
  resources: {}
  nodeSelector: {}
  affinity: {}
  tolerations: []
  managedNamespaces: [slurm-bridge]
  managedNamespaceSelector: {matchLabels: {bridge: "yes"}}
controllers:
  image: {repository: registry.example/controllers, tag: "", pullPolicy: IfNotPresent}
  replicas: 1
  leaderElect: false
  podWorkers: null
  pdb: *pdb
  priorityClassName: ""
  resources: {}
  nodeSelector: {}
  affinity: {}
  tolerations: []
  verbosity: null
sharedConfig:
  slurmRestApi: http://slurm-restapi.slurm:6820
  deviceProfiles:
  - {name: cpu, driver: dra.cpu, selector: 'device.driver == "dra.cpu"', backend: {type: core-bitmap}}
  - {name: rdma, driver: dra.net, backend: {type: indexed-gres, gresName: nic}}
  slurmJwtSecret: {name: slurm-bridge-token, key: SLURM_JWT}
"""
