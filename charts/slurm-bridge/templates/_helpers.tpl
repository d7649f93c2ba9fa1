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

{{/* Labels that pick the pods of a part: (list $ "scheduler"). */}}
{{- define "bridge.selector" -}}
{{- $root := index . 0 -}}
app.kubernetes.io/name: {{ include "bridge.name" $root }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{- define "bridge.labels" -}}
{{- $root := index . 0 -}}
{{ include "bridge.selector" . }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: slinky
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{/* The configuration file that all processes read. */}}
{{- define "bridge.config" -}}
{{- $own := dict
  "schedulerName" .Values.schedulerConfig.schedulerName
  "slurmRestApi" .Values.sharedConfig.slurmRestApi
  "mcsLabel" .Values.schedulerConfig.mcsLabel
  "partition" .Values.schedulerConfig.partition
  "managedNamespaces" .Values.admission.managedNamespaces
  "managedNamespaceSelector" .Values.admission.managedNamespaceSelector
  "leaderElect" (or .Values.scheduler.leaderElect (gt (int .Values.scheduler.replicaCount) 1))
  "leaseNamespace" (include "bridge.namespace" .) -}}
{{- mergeOverwrite $own (deepCopy .Values.extraConfig) | toYaml -}}
{{- end -}}

{{/* What both Deployments share below spec.template.spec: (list $ part account). */}}
{{- define "bridge.pod" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
serviceAccountName: {{ index . 2 }}
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
{{- end -}}

{{/* What both containers share: (list $ part). */}}
{{- define "bridge.container" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
{{- $image := $root.Values.scheduler.image -}}
image: {{ printf "%s:%s" $image.repository (default $root.Chart.AppVersion $image.tag) | quote }}
imagePullPolicy: {{ $image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- with $part.resources }}
resources: {{- toYaml . | nindent 2 }}
{{- end }}
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 20
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
{{- end -}}
