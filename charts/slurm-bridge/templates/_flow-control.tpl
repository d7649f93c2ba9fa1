{{/* SPDX-License-Identifier: Apache-2.0 */}}
{{/* Made by `python -m charts.generate` from charts/flow-control.tpl. */}}

{{/* A priority level and the schema that gives it to service accounts: (list $ name labels namespace accounts). */}}
{{- define "slinky.flowControl" -}}
{{- $root := index . 0 -}}{{- $name := printf "%s-%s" (index . 3) (index . 1) -}}{{- $space := index . 3 -}}
{{- $values := $root.Values.flowControl -}}
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: PriorityLevelConfiguration
metadata:
  name: {{ $name }}
  labels: {{- index . 2 | nindent 4 }}
spec:
  type: Limited
  limited:
    nominalConcurrencyShares: {{ $values.nominalConcurrencyShares }}
    lendablePercent: 50
    limitResponse:
      type: Queue
      queuing: {queues: 16, handSize: 4, queueLengthLimit: 100}
---
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata:
  name: {{ $name }}
  labels: {{- index . 2 | nindent 4 }}
spec:
  priorityLevelConfiguration: {name: {{ $name }}}
  matchingPrecedence: {{ $values.matchingPrecedence }}
  distinguisherMethod: {type: ByUser}
  rules:
  - subjects:
    {{- range index . 4 }}
    - kind: ServiceAccount
      serviceAccount: {namespace: {{ $space }}, name: {{ . }}}
    {{- end }}
    resourceRules:
    - {apiGroups: ["*"], resources: ["*"], verbs: ["*"], clusterScope: true, namespaces: ["*"]}
    nonResourceRules:
    - {nonResourceURLs: ["*"], verbs: ["*"]}
{{- end -}}
