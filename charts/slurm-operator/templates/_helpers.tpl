{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "op.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "op.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "op.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "op.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "op.webhook" -}}
{{- printf "%s-webhook" (include "op.fullname" . | trunc 55 | trimSuffix "-") -}}
{{- end -}}

{{- define "op.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{/* Selector labels of a part: those of slurm-operator 1.2, because the selector of a Deployment is immutable:
     (list $ "operator"). */}}
{{- define "op.selector" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
app.kubernetes.io/name: {{ include "op.name" $root }}{{ if ne $part "operator" }}-{{ $part }}{{ end }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- end -}}

{{- define "op.labels" -}}
{{- $root := index . 0 -}}
{{ include "op.selector" . }}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/part-of: slinky
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end -}}

{{/* The image of Slurm containers that name none; empty for the operator's own default. */}}
{{- define "op.daemonImage" -}}
{{- if .Values.operator.daemonImage -}}
{{- .Values.operator.daemonImage -}}
{{- else if (.Values.global).registry -}}
{{- include "slinky.image" (list . (dict "tag" .Values.global.tag) "{daemon}" "operator.daemonImage") -}}
{{- end -}}
{{- end -}}

{{- define "op.account" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}{{- $name := index . 2 -}}
{{- if $part.serviceAccount.create -}}
{{- default $name $part.serviceAccount.name -}}
{{- else -}}
{{- default "default" $part.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* Namespaces separated by commas, as a JSON list. */}}
{{- define "op.namespaces" -}}
{{- $found := list -}}
{{- range splitList "," (default "" .) -}}
{{- if trim . -}}{{- $found = append $found (trim .) -}}{{- end -}}
{{- end -}}
{{- $found | toJson -}}
{{- end -}}

{{/* The part of spec.template.spec that both Deployments share: (list $ part component account). */}}
{{- define "op.pod" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
serviceAccountName: {{ index . 3 }}
{{- with $root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 0 }}
{{- end }}
{{- with $root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
securityContext:
  {{- mergeOverwrite (dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532 "seccompProfile" (dict "type" "RuntimeDefault")) (default dict $part.podSecurityContext) | toYaml | nindent 2 }}
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
    matchLabels: {{- include "op.selector" (list $root (index . 2)) | nindent 6 }}
{{- end }}
{{- end -}}

{{/* The part of the container that both Deployments share: (list $ part component). */}}
{{- define "op.container" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
image: {{ include "slinky.image" (list $root $part.image "slinky" (printf "%s.image" (index . 2))) | quote }}
imagePullPolicy: {{ default $root.Values.imagePullPolicy $part.imagePullPolicy }}
env:
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: POD_NAMESPACE
  valueFrom: {fieldRef: {fieldPath: metadata.namespace}}
securityContext:
  {{- mergeOverwrite (dict "allowPrivilegeEscalation" false "readOnlyRootFilesystem" true "capabilities" (dict "drop" (list "ALL"))) (default dict $part.securityContext) | toYaml | nindent 2 }}
{{- with $part.resources }}
resources: {{- toYaml . | nindent 2 }}
{{- end }}
livenessProbe:
  httpGet: {path: /healthz, port: health}
  periodSeconds: 20
readinessProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 5
volumeMounts:
- {name: tmp, mountPath: /tmp}
{{- end -}}

{{/* The port of health checks; null means the default, as for the ports below. */}}
{{- define "op.health" -}}
{{- default 8081 .healthPort -}}
{{- end -}}

{{- define "op.ports" -}}
- {name: health, containerPort: {{ include "op.health" . }}}
{{- if int .metricsPort }}
- {name: metrics, containerPort: {{ .metricsPort }}}
{{- end }}
{{- end -}}

{{/* The ports of the Service. */}}
{{- define "op.doors" -}}
- {name: health, port: {{ include "op.health" . }}, targetPort: health}
{{- if int .metricsPort }}
- {name: metrics, port: {{ .metricsPort }}, targetPort: metrics}
{{- end }}
{{- end -}}

{{/* The name of a log level; numbers are levels of zap, where a number above 0 means debug. */}}
{{- define "op.level" -}}
{{- if has . (list "debug" "info" "warning" "error") -}}{{- . -}}
{{- else -}}{{- int . | lt 0 | ternary "debug" "info" -}}
{{- end -}}
{{- end -}}

{{/* Flags of the metrics. */}}
{{- define "op.metrics" -}}
- --metrics-addr={{ if int .metricsPort }}:{{ .metricsPort }}{{ else }}0{{ end }}
{{- if .metricsSecure }}
- --metrics-secure
{{- end }}
{{- end -}}

{{/* Fails if secure metrics have no port of their own: (list name part). */}}
{{- define "op.secured" -}}
{{- $name := index . 0 -}}{{- $part := index . 1 -}}
{{- if and $part.metricsSecure (not (int $part.metricsPort)) -}}
{{- fail (printf "%s.metricsSecure needs a port: set %s.metricsPort" $name $name) -}}
{{- end -}}
{{- if eq (int $part.metricsPort) (int (include "op.health" $part)) -}}
{{- fail (printf "%s.metricsPort and %s.healthPort must differ" $name $name) -}}
{{- end -}}
{{- end -}}

{{/* Rules for secure metrics: the process asks the API server whether a client is authorized. */}}
{{- define "op.reviews" -}}
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{- define "op.pdb" -}}
{{- if not (kindIs "invalid" .pdb.maxUnavailable) -}}
maxUnavailable: {{ .pdb.maxUnavailable }}
{{- else -}}
minAvailable: {{ kindIs "invalid" .pdb.minAvailable | ternary 1 .pdb.minAvailable }}
{{- end -}}
{{- end -}}
