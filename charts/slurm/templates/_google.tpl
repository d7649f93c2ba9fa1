{{/* SPDX-License-Identifier: Apache-2.0 */}}

{{/* Fails if an entry of vendor.google does not name an enabled set of workers: (list $ sets). */}}
{{- define "slurm.googleChecked" -}}
{{- $root := index . 0 -}}{{- $sets := index . 1 -}}
{{- range $type := list "a3mega" "a3ultra" -}}
{{- range $index, $entry := index (default dict ($root.Values.vendor).google) $type -}}
{{- if not (hasKey $sets $entry.targetNodeSet) -}}
{{- fail (printf "vendor.google.%s[%d].targetNodeSet: %s is not an enabled entry of nodesets" $type $index $entry.targetNodeSet) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* A set of workers with the settings of its Google machine type, as JSON; explicit values take precedence: (list $ name set). */}}
{{- define "slurm.google" -}}
{{- $root := index . 0 -}}{{- $name := index . 1 -}}{{- $set := index . 2 -}}
{{- $facts := $root.Files.Get "files/google.yaml" | fromYaml -}}
{{- range $type := list "a3mega" "a3ultra" -}}
{{- range $entry := index (default dict ($root.Values.vendor).google) $type -}}
{{- if eq $entry.targetNodeSet $name -}}
{{- $set = include "slurm.googleLaid" (list $set $entry (index $facts $type)) | fromJson -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $set -}}
{{- end -}}

{{- define "slurm.googleLaid" -}}
{{- $set := index . 0 -}}{{- $entry := index . 1 -}}{{- $fact := index . 2 -}}
{{- $interfaces := list -}}
{{- range $index, $network := $entry.networks -}}
{{- $number := ternary 0 (add $index $fact.skip) (eq $index 0) -}}
{{- $interfaces = append $interfaces (dict "interfaceName" (printf "eth%d" (int $number)) "network" $network) -}}
{{- end -}}
{{- $marks := dict "networking.gke.io/default-interface" "eth0" "networking.gke.io/interfaces" (toJson $interfaces) -}}
{{- $marks = mergeOverwrite $marks $fact.annotations -}}
{{- $gpus := dict "nvidia.com/gpu" 8 -}}
{{- $given := list -}}
{{- range default list $set.slurmd.env -}}{{- $given = append $given .name -}}{{- end -}}
{{- $env := list -}}
{{- range $key, $value := $fact.env -}}
{{- if not (has $key $given) -}}{{- $env = append $env (dict "name" $key "value" $value) -}}{{- end -}}
{{- end -}}
{{- $volumes := list -}}
{{- range $key, $path := $fact.volumes -}}{{- $volumes = append $volumes (dict "name" $key "hostPath" (dict "path" $path)) -}}{{- end -}}
{{- $mounts := list -}}
{{- range $key, $path := $fact.mounts -}}{{- $mounts = append $mounts (dict "name" $key "mountPath" $path) -}}{{- end -}}
{{- $pod := default dict $set.podSpec -}}
{{- $laid := dict
    "metadata" (dict "annotations" $marks)
    "podSpec" (dict "nodeSelector" (dict "cloud.google.com/gke-nodepool" $entry.nodePool))
    "slurmd" (dict "resources" (dict "limits" $gpus "requests" $gpus)) -}}
{{- $out := mergeOverwrite $laid (deepCopy $set) -}}
{{- $_ := set $out.podSpec "volumes" (concat (default list $pod.volumes) $volumes) -}}
{{- with concat (default list $pod.containers) (default list $fact.containers) -}}
{{- $_ := set $out.podSpec "containers" . -}}
{{- end -}}
{{- $_ := set $out.slurmd "env" (concat (default list $set.slurmd.env) $env) -}}
{{- $_ := set $out.slurmd "volumeMounts" (concat (default list $set.slurmd.volumeMounts) $mounts) -}}
{{- if not (or $set.extraConf (dig "Gres" "" (default dict $set.extraConfMap)) (dig "gres" "" (default dict $set.extraConfMap))) -}}
{{- $_ := set $out "extraConfMap" (mergeOverwrite (dict "Gres" $fact.gres) (default dict $set.extraConfMap)) -}}
{{- end -}}
{{- toJson $out -}}
{{- end -}}
