{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{- define "slurm.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "slurm.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 41 | trimSuffix "-" -}}
{{- else if contains (include "slurm.name" .) .Release.Name -}}
{{- .Release.Name | trunc 41 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "slurm.name" .) | trunc 41 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "slurm.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "slurm.labels" -}}
app.kubernetes.io/part-of: slurm
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{/* apiVersion, kind and metadata of an object: (list $ apiVersion kind name). */}}
{{- define "slurm.head" -}}
{{- $root := index . 0 -}}
apiVersion: {{ index . 1 }}
kind: {{ index . 2 }}
metadata:
  name: {{ index . 3 }}
  namespace: {{ include "slurm.namespace" $root }}
  labels: {{- include "slurm.labels" $root | nindent 4 }}
{{- end -}}

{{/* apiVersion, kind and metadata of one of our kinds: (list $ kind name). */}}
{{- define "slurm.kind" -}}
{{ include "slurm.head" (list (index . 0) "slinky.slurm.net/v1beta1" (index . 1) (index . 2)) }}
{{- end -}}

{{/* A container: (list $ container name path fallback). Without an image it has that of the fallback, a container with the
     same name of an image. */}}
{{- define "slurm.container" -}}
{{- $root := index . 0 -}}{{- $container := default dict (index . 1) -}}{{- $path := index . 3 -}}
{{- $image := $container.image -}}
{{- if and (not $image) (gt (len .) 4) -}}{{- $image = (index . 4).image -}}{{- end -}}
{{- $reference := include "slinky.image" (list $root $image (index . 2) (printf "%s.image" $path)) -}}
{{- $built := dict "image" $reference "imagePullPolicy" $root.Values.imagePullPolicy -}}
{{- range $key, $value := omit $container "image" -}}
{{- if not (or (kindIs "invalid" $value) (and (or (kindIs "map" $value) (kindIs "slice" $value)) (empty $value))) -}}
{{- $_ := set $built $key $value -}}
{{- end -}}
{{- end -}}
{{- if eq $root.Values.logFormat "plain" -}}
{{- $_ := set $built "env" (append (default list $built.env) (dict "name" "SLINKY_LOG_FORMAT" "value" "plain")) -}}
{{- end -}}
{{- toYaml $built -}}
{{- end -}}

{{/* A pod template: (list $ part). */}}
{{- define "slurm.template" -}}
{{- $root := index . 0 -}}{{- $part := index . 1 -}}
{{- $spec := deepCopy (default dict $part.podSpec) -}}
{{- with $root.Values.imagePullSecrets -}}
{{- $_ := set $spec "imagePullSecrets" (concat (default list $spec.imagePullSecrets) .) -}}
{{- end -}}
{{- if and ($root.Values.priorityClass).enabled (not $spec.priorityClassName) -}}
{{- $_ := set $spec "priorityClassName" $root.Values.priorityClass.name -}}
{{- end -}}
{{- toYaml (dict "metadata" (default dict $part.metadata) "spec" $spec) -}}
{{- end -}}

{{/* The sorted Key=Value pairs of a map, joined by a separator: (list map separator). Zero and false are values; null
     and empty values are skipped, because Slurm cannot parse a key without a value. */}}
{{- define "slurm.settings" -}}
{{- $found := list -}}
{{- range $key, $value := default dict (index . 0) -}}
{{- $words := list -}}
{{- range kindIs "slice" $value | ternary $value (list $value) -}}
{{- with include "slurm.scalar" . -}}{{- $words = append $words . -}}{{- end -}}
{{- end -}}
{{- with $words -}}{{- $found = append $found (printf "%s=%s" $key (join "," .)) -}}{{- end -}}
{{- end -}}
{{- join (index . 1) $found -}}
{{- end -}}

{{/* A value as it was written: Helm parses 1000000 as 1e+06, and NO as false. */}}
{{- define "slurm.scalar" -}}
{{- if kindIs "invalid" . -}}
{{- else if kindIs "bool" . -}}{{- ternary "YES" "NO" . -}}
{{- else if and (kindIs "float64" .) (eq . (floor .)) -}}{{- int64 . -}}
{{- else -}}{{- . -}}
{{- end -}}
{{- end -}}

{{- define "slurm.slurmKey" -}}
{{- $ref := default dict (.Values.slurmKey).secretRef -}}
name: {{ default (printf "%s-auth-slurm" (include "slurm.fullname" .)) $ref.name }}
key: {{ default "slurm.key" $ref.key }}
{{- end -}}

{{- define "slurm.jwtKey" -}}
{{- $ref := default dict (.Values.jwtKey).secretRef -}}
name: {{ default (printf "%s-auth-jwt" (include "slurm.fullname" .)) $ref.name }}
key: {{ default "jwt.key" $ref.key }}
{{- end -}}

{{- define "slurm.jwks" -}}
{{- $ref := default dict (.Values.jwksKeys).configMapRef -}}
name: {{ default (printf "%s-auth-jwks" (include "slurm.fullname" .)) $ref.name }}
key: {{ default "jwks.json" $ref.key }}
{{- end -}}

{{- define "slurm.sssd" -}}
{{- $ref := default dict (.Values.sssd).secretRef -}}
name: {{ default (printf "%s-sssd-conf" (include "slurm.fullname" .)) $ref.name }}
key: {{ default "sssd.conf" $ref.key }}
{{- end -}}

{{/* The enabled entries of a map, merged over the defaults, as JSON: (list entries defaults). */}}
{{- define "slurm.entries" -}}
{{- $found := dict -}}
{{- $defaults := index . 1 -}}
{{- range $name, $given := default dict (index . 0) -}}
{{- $entry := mergeOverwrite (deepCopy $defaults) (deepCopy (default dict $given)) -}}
{{- if $entry.enabled -}}{{- $_ := set $found $name $entry -}}{{- end -}}
{{- end -}}
{{- include "slurm.pruned" $found -}}
{{- end -}}

{{/* Sets of workers, as JSON, in which `image` and `resources` of a set are those of its slurmd. */}}
{{- define "slurm.workerEntries" -}}
{{- $found := dict -}}
{{- range $name, $given := . -}}
{{- $entry := deepCopy (default dict $given) -}}
{{- $slurmd := default dict $entry.slurmd -}}
{{- range $key := list "image" "resources" -}}
{{- if and (index $entry $key) (not (index $slurmd $key)) -}}{{- $_ := set $slurmd $key (index $entry $key) -}}{{- end -}}
{{- end -}}
{{- $_ := set $found $name (set (omit $entry "image" "resources") "slurmd" $slurmd) -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/* Not empty if the workers of a set have NVIDIA GPUs. */}}
{{- define "slurm.hasGpus" -}}
{{- range $part := list .slurmd .podSpec -}}
{{- range $kind := list "limits" "requests" -}}
{{- if dig "resources" $kind "nvidia.com/gpu" "" (default dict $part) -}}yes{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A map without nulls, as JSON: Helm removes only nulls that have a default, and the API server accepts none. */}}
{{- define "slurm.pruned" -}}
{{- $kept := dict -}}
{{- range $key, $value := . -}}
{{- if kindIs "map" $value -}}{{- $_ := set $kept $key (include "slurm.pruned" $value | fromJson) -}}
{{- else if not (kindIs "invalid" $value) -}}{{- $_ := set $kept $key $value -}}
{{- end -}}
{{- end -}}
{{- toJson $kept -}}
{{- end -}}
