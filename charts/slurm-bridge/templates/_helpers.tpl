{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "bridge.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "bridge.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else if contains (include "bridge.name" .) .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "bridge.name" .) | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "bridge.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* The selector labels of a component: (list $ "scheduler"). They are those of slurm-bridge 1.2, because the selector of a
     Deployment cannot change. */}}
{{- define "bridge.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "bridge.name" $root }}-{{ index . 1 }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- end -}}

{{- define "bridge.labels" -}}
{{- $root := index . 0 -}}
{{ include "bridge.selector" . }}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: slinky
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{- define "bridge.admission" -}}
{{- printf "%s-admission" (include "bridge.fullname" .) -}}
{{- end -}}

{{/* A CEL expression: whether a request is not from the bridge. */}}
{{- define "bridge.others" -}}
request.userInfo.username != 'system:serviceaccount:{{ include "bridge.namespace" . }}:{{ include "bridge.fullname" . }}-scheduler'
{{- end -}}

{{/* The name and key of the Secret with the token. */}}
{{- define "bridge.token" -}}
{{- $given := .Values.sharedConfig.slurmJwtSecret -}}
{{- if kindIs "map" $given -}}
name: {{ required "sharedConfig.slurmJwtSecret.name: the name of a Secret is required" $given.name }}
key: {{ default "SLURM_JWT" $given.key }}
{{- else -}}
name: {{ required "sharedConfig.slurmJwtSecret: the name of a Secret is required" $given }}
key: auth-token
{{- end -}}
{{- end -}}

{{/* The source of the certificates of the webhook: files, cert-manager or itself. */}}
{{- define "bridge.certificates" -}}
{{- if (.Values.admission.tls).existingSecret -}}files
{{- else if .Values.admission.certManager.enabled -}}cert-manager
{{- else -}}itself
{{- end -}}
{{- end -}}

{{- define "bridge.certificates.secret" -}}
{{- default (printf "%s-tls" (include "bridge.admission" .)) (.Values.admission.tls).existingSecret -}}
{{- end -}}

{{/* The configuration file of all processes. */}}
{{- define "bridge.config" -}}
{{- $own := dict
  "schedulerName" .Values.schedulerConfig.schedulerName
  "slurmRestApi" .Values.sharedConfig.slurmRestApi
  "mcsLabel" .Values.schedulerConfig.mcsLabel
  "partition" .Values.schedulerConfig.partition
  "managedNamespaces" .Values.admission.managedNamespaces
  "managedNamespaceSelector" .Values.admission.managedNamespaceSelector
  "leaderElect" (or .Values.scheduler.leaderElect (gt (int .Values.scheduler.replicaCount) 1))
  "policy" (deepCopy (default dict .Values.policy))
  "leaseNamespace" (include "bridge.namespace" .) -}}
{{- with .Values.sharedConfig.deviceProfiles -}}{{- $_ := set $own "deviceProfiles" . -}}{{- end -}}
{{- if include "bridge.tls" . -}}{{- $_ := set $own "tlsFolder" "/run/slurm-tls" -}}{{- end -}}
{{- if (.Values.completer).enabled -}}{{- $_ := set $own "completerSocket" "/run/slurm-complete/socket" -}}{{- end -}}
{{- mergeOverwrite $own (deepCopy (default dict .Values.extraConfig)) | toYaml -}}
{{- end -}}

{{/* The name of the bridge in its jobs, which is also the name of its Lease. */}}
{{- define "bridge.id" -}}
{{- $config := include "bridge.config" . | fromYaml -}}
{{- default $config.schedulerName $config.bridgeId -}}
{{- end -}}

{{/* The slurm.conf of slurm-complete: the hosts of slurmctld, and authentication by token. */}}
{{- define "bridge.slurm.conf" -}}
{{- $part := .Values.completer -}}
ClusterName={{ $part.clusterName }}
{{- range $index, $host := $part.slurmctldHosts }}
SlurmctldHost=slurmctld{{ $index }}({{ $host }})
{{- else }}
{{- fail "completer.slurmctldHosts: at least one host is required" }}
{{- end }}
SlurmctldPort={{ int $part.slurmctldPort }}
AuthType=auth/jwt
{{- end -}}

{{/* The common part of the pod specs: (list $ values component). */}}
{{- define "bridge.pod" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
serviceAccountName: {{ include "bridge.fullname" $root }}-{{ index . 2 }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with $part.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with $part.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $part.tolerations }}
tolerations: {{- toYaml . | nindent 0 }}
{{- end }}
topologySpreadConstraints:
{{- if $part.topologySpreadConstraints }}
{{- toYaml $part.topologySpreadConstraints | nindent 0 }}
{{- else }}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels: {{- include "bridge.selector" (list $root (index . 2)) | nindent 6 }}
{{- end }}
{{- end -}}

{{/* The common part of all containers: (list $ values image name path). */}}
{{- define "bridge.box" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}{{- $image := default dict (index . 2) -}}
image: {{ include "slinky.image" (list $root $image (index . 3) (index . 4)) | quote }}
imagePullPolicy: {{ default "IfNotPresent" $image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- with $part.resources }}
resources: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The common part of the containers of the bridge and the webhook: (list $ values path). The image is that of the scheduler,
     overridden by the image of the component. */}}
{{- define "bridge.container" -}}
{{- $root := index . 0 -}}{{- $own := default dict (index . 1).image -}}{{- $image := deepCopy (default dict $root.Values.scheduler.image) -}}
{{- if or $own.repository $own.tag -}}{{- $_ := set $image "digest" "" -}}{{- end -}}
{{- range $key, $value := $own -}}
{{- if $value -}}{{- $_ := set $image $key $value -}}{{- end -}}
{{- end -}}
{{ include "bridge.box" (list $root (index . 1) $image "slinky" (index . 2)) }}
startupProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 2
  failureThreshold: 150
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 20
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
{{- end -}}

{{- define "bridge.pdb" -}}
{{- if not (kindIs "invalid" .pdb.maxUnavailable) -}}
maxUnavailable: {{ .pdb.maxUnavailable }}
{{- else -}}
minAvailable: {{ kindIs "invalid" .pdb.minAvailable | ternary 1 .pdb.minAvailable }}
{{- end -}}
{{- end -}}

{{/* The sources of the folder for https: a Secret if one is named, otherwise the ConfigMap. Empty for other schemes. */}}
{{- define "bridge.tls" -}}
{{- $shared := .Values.sharedConfig -}}
{{- if hasPrefix "https:" (toString $shared.slurmRestApi) -}}
{{- if $shared.slurmTlsSecret -}}
- secret: {name: {{ $shared.slurmTlsSecret }}}
{{- else if $shared.slurmCaConfigMap -}}
- configMap: {name: {{ $shared.slurmCaConfigMap }}, optional: true}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The ports of the scheduler as JSON. `helm upgrade --reuse-values` has no defaults for values that the installed chart
     did not have. */}}
{{- define "bridge.ports" -}}
{{- $part := .Values.scheduler -}}
{{- $metrics := kindIs "invalid" $part.metricsPort | ternary 8080 $part.metricsPort -}}
{{- dict "health" (int (default 8081 $part.healthPort)) "metrics" (int $metrics) | toJson -}}
{{- end -}}
