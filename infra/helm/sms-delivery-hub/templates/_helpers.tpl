{{/* The facts of each app that no value changes. A test compares them with the code. */}}
{{- define "hub.apps" -}}
command-api:
  args: ['--max-semi-space-size=32', programs/command-api.mjs]
  ports: [{ name: api, containerPort: 7300 }, { name: admin, containerPort: 7390 }]
  env: [{ name: HUB_PORT, value: '7300' }, { name: HUB_ADMIN_PORT, value: '7390' }]
  secrets: [HUB_DATABASE_URL, HUB_REDIS_URL, HUB_NUMBER_HASH_SECRET, HUB_MASTER_KEY, HUB_TRANSIT_TOKEN, HUB_PREVIOUS_MASTER_KEYS, HUB_KAFKA_PASSWORD]
  service: { name: command-api, port: api }
  # Starts a new pod before it stops an old one, so that the capacity never shrinks.
  rollingUpdate: { maxSurge: 1, maxUnavailable: 0 }
  # Waits until load balancers send no new connections. Part of the grace period.
  preStopSeconds: 5
dispatcher:
  args: ['--max-semi-space-size=8', '--max-old-space-size=768', programs/dispatcher.mjs]
  # callbacks: used only if the operator of live keys uses HTTP.
  ports: [{ name: admin, containerPort: 7390 }, { name: callbacks, containerPort: 7380 }]
  env: [{ name: HUB_ADMIN_PORT, value: '7390' }, { name: HUB_OPERATOR_CALLBACK_HOST, value: 0.0.0.0 }, { name: HUB_OPERATOR_CALLBACK_PORT, value: '7380' }]
  secrets: [HUB_DATABASE_URL, HUB_REDIS_URL, HUB_NUMBER_HASH_SECRET, HUB_MASTER_KEY, HUB_TRANSIT_TOKEN, HUB_PREVIOUS_MASTER_KEYS, HUB_KAFKA_PASSWORD, HUB_OPERATOR_SMPP_PASSWORD, HUB_OPERATOR_HTTP_SECRET]
  # Each dispatcher accepts each report, even if it is not ready, because it only appends the report to the log.
  service: { name: dispatcher-callbacks, port: callbacks, unready: true }
  # One pod at a time: a shard pauses while it moves, so each must move as rarely as possible.
  rollingUpdate: { maxSurge: 0, maxUnavailable: 1 }
projector:
  args: ['--max-semi-space-size=16', programs/projector.mjs]
  ports: [{ name: admin, containerPort: 7390 }]
  env: [{ name: HUB_ADMIN_PORT, value: '7390' }]
  secrets: [HUB_DATABASE_URL, HUB_MASTER_KEY, HUB_TRANSIT_TOKEN, HUB_PREVIOUS_MASTER_KEYS, HUB_KAFKA_PASSWORD]
  rollingUpdate: { maxSurge: 0, maxUnavailable: 1 }
webhook-fanout:
  args: ['--max-semi-space-size=4', '--initial-old-space-size=128', '--no-parallel-scavenge', programs/webhook-fanout.mjs]
  ports: [{ name: admin, containerPort: 7390 }]
  env: [{ name: HUB_ADMIN_PORT, value: '7390' }]
  secrets: [HUB_DATABASE_URL, HUB_MASTER_KEY, HUB_TRANSIT_TOKEN, HUB_PREVIOUS_MASTER_KEYS, HUB_KAFKA_PASSWORD]
  rollingUpdate: { maxSurge: 0, maxUnavailable: 1 }
operations-api:
  args: ['--max-semi-space-size=8', programs/operations-api.mjs]
  ports: [{ name: console, containerPort: 7305 }, { name: admin, containerPort: 7390 }]
  env: [{ name: HUB_OPERATIONS_PORT, value: '7305' }, { name: HUB_ADMIN_PORT, value: '7390' }]
  secrets: [HUB_OIDC_CLIENT_SECRET, HUB_DATABASE_URL, HUB_REDIS_URL, HUB_NUMBER_HASH_SECRET, HUB_MASTER_KEY, HUB_TRANSIT_TOKEN, HUB_PREVIOUS_MASTER_KEYS, HUB_KAFKA_PASSWORD]
  service: { name: operations-api, port: console }
  rollingUpdate: { maxSurge: 1, maxUnavailable: 0 }
  preStopSeconds: 5
{{- end }}

{{/* The name of an object: (list $ "command-api"). */}}
{{- define "hub.name" -}}
{{- with (index . 0).Values.fullnameOverride }}{{ . }}-{{ end }}{{ index . 1 }}
{{- end }}

{{/* The metadata of an object without its own labels: (list $ "command-api"), or (list $ "command-api" (dict "label" "…")). */}}
{{- define "hub.metadata" -}}
name: {{ include "hub.name" . }}
namespace: {{ (index . 0).Release.Namespace }}
labels:
  app.kubernetes.io/part-of: sms-delivery-hub
  {{- if gt (len .) 2 }}
  {{- with index . 2 }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- end }}
{{- end }}

{{- define "hub.image" -}}
{{- with .Values.image -}}
{{ with .registry }}{{ . }}/{{ end }}{{ .repository }}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The image and when it is pulled: fields of a container. */}}
{{- define "hub.imageFields" -}}
image: {{ include "hub.image" . }}
{{- with .Values.image.pullPolicy }}
imagePullPolicy: {{ . }}
{{- end }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{/* The Secret of a setting, and the key in it: (list $ "HUB_DATABASE_URL"). */}}
{{- define "hub.secretOf" -}}
{{- $values := (index . 0).Values.secrets -}}
{{- $setting := index . 1 -}}
{{- $own := index $values.from $setting | default dict -}}
name: {{ $own.name | default (hasPrefix "HUB_OPERATOR_" $setting | ternary $values.operator $values.hub) }}
key: {{ $own.key | default $setting }}
{{- end }}

{{/* Settings from Secrets, or from the files of `secrets.files`: (list $ (list "HUB_DATABASE_URL" …)). */}}
{{- define "hub.secretEnv" -}}
{{- $root := index . 0 -}}
{{- range index . 1 }}
{{- if has . $root.Values.secrets.files }}
- { name: {{ . }}_FILE, value: /secrets/{{ . }} }
{{- else }}
{{- $own := index $root.Values.secrets.from . | default dict }}
{{- $required := or $own (has . (list "HUB_DATABASE_URL" "HUB_REDIS_URL" "HUB_NUMBER_HASH_SECRET")) }}
- name: {{ . }}
  valueFrom:
    secretKeyRef:
      {{- include "hub.secretOf" (list $root .) | nindent 6 }}
      {{- if not $required }}
      optional: true
      {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The settings of a list that are in files, as YAML: (list $ (list "HUB_DATABASE_URL" …)). */}}
{{- define "hub.secretFiles" -}}
{{- $root := index . 0 -}}
{{- range index . 1 }}
{{- if has . $root.Values.secrets.files }}
- {{ . }}
{{- end }}
{{- end }}
{{- end }}

{{/* The volume with the secrets of a pod that are in files: (list $ <its secrets>). An app refuses files for everyone. */}}
{{- define "hub.secretVolume" -}}
{{- $root := index . 0 -}}
{{- with include "hub.secretFiles" . | fromYamlArray }}
- name: secrets
  projected:
    # 0440
    defaultMode: 288
    sources:
      {{- range . }}
      {{- $secret := include "hub.secretOf" (list $root .) | fromYaml }}
      - secret: { name: {{ $secret.name }}, items: [{ key: {{ $secret.key }}, path: {{ . }} }] }
      {{- end }}
{{- end }}
{{- end }}

{{/* All files of the pod, which Kubernetes replaces after a change: (list $ <the secrets of the pod>). */}}
{{- define "hub.secretMount" -}}
{{- if include "hub.secretFiles" . }}
- { name: secrets, mountPath: /secrets, readOnly: true }
{{- end }}
{{- end }}

{{/* Only the files of an init container: (list $ <its secrets>). */}}
{{- define "hub.secretMounts" -}}
{{- range include "hub.secretFiles" . | fromYamlArray }}
- { name: secrets, mountPath: /secrets/{{ . }}, subPath: {{ . }}, readOnly: true }
{{- end }}
{{- end }}

{{/* The pods of a workload: (list $ <name>). A value of `apps.<name>` wins over that of `pods`. */}}
{{- define "hub.podValues" -}}
{{- $root := index . 0 -}}
{{- $values := dict }}
{{- range $key, $common := $root.Values.pods }}
{{- $_ := set $values $key (index $root.Values.apps (index $ 1) $key | default $common) }}
{{- end }}
{{- toYaml $values }}
{{- end }}

{{/* The metadata of the pods: (list $ <name> <pod values>). All pods restart after a change of a setting. */}}
{{- define "hub.podMetadata" -}}
labels:
  app.kubernetes.io/name: {{ index . 1 }}
  app.kubernetes.io/part-of: sms-delivery-hub
  {{- with (index . 2).labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
annotations:
  checksum/settings: {{ include "hub.settings" (index . 0) | sha256sum | trunc 16 }}
  {{- with (index . 2).annotations }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* The fields of the pods that all workloads share: (list $ <name> <pod values>). */}}
{{- define "hub.podFields" -}}
{{- $root := index . 0 -}}
{{- $pod := index . 2 -}}
serviceAccountName: {{ include "hub.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with $root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  {{- toYaml $pod.securityContext | nindent 2 }}
{{- range $key := list "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with index $pod $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{/* The data of the config map. */}}
{{- define "hub.settings" -}}
{{- toYaml .Values.settings }}
{{- if include "hub.caMount" . }}
NODE_EXTRA_CA_CERTS: /ca/ca.crt
{{- end }}
{{- end }}

{{- define "hub.settingsFrom" -}}
- configMapRef: { name: {{ include "hub.name" (list . "hub-settings") }} }
{{- end }}

{{/* The volume with the private authorities, and where it is mounted. */}}
{{- define "hub.caVolume" -}}
{{- with .Values.ca }}
{{- if .secret }}
- name: ca
  secret: { secretName: {{ .secret }}, optional: true{{ if ne .key "ca.crt" }}, items: [{ key: {{ .key }}, path: ca.crt }]{{ end }} }
{{- else if .configMap }}
- name: ca
  configMap: { name: {{ .configMap }}, optional: true{{ if ne .key "ca.crt" }}, items: [{ key: {{ .key }}, path: ca.crt }]{{ end }} }
{{- end }}
{{- end }}
{{- end }}

{{- define "hub.caMount" -}}
{{- if or .Values.ca.configMap .Values.ca.secret }}
- { name: ca, mountPath: /ca, readOnly: true }
{{- end }}
{{- end }}
