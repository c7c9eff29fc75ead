{{/* Suffix for names of cluster-scoped objects: the namespace, unless it is muster. */}}
{{- define "muster.suffix" -}}
{{- if ne .Release.Namespace "muster" }}-{{ .Release.Namespace }}{{ end -}}
{{- end }}

{{- define "muster.clusterName" -}}
muster-operator{{ include "muster.suffix" . }}
{{- end }}

{{/* Name of the webhook configurations that the operator registers (docs/operate/admission.md). */}}
{{- define "muster.admissionName" -}}
muster-admission{{ include "muster.suffix" . }}
{{- end }}

{{- define "muster.priorityClassName" -}}
{{- if .Values.priorityClassName -}}
{{ .Values.priorityClassName }}
{{- else if .Values.priorityClass.create -}}
muster{{ include "muster.suffix" . }}
{{- end -}}
{{- end }}

{{- define "muster.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{- define "muster.labels" -}}
app.kubernetes.io/name: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: muster
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* Labels of the pods with an operator; deploy/webhooks.yaml selects them too. */}}
{{- define "muster.selector" -}}
app: muster
component: scheduler
{{- end }}

{{/* Labels of the pods with a core, which serves REST. */}}
{{- define "muster.coreSelector" -}}
app: muster
component: {{ ternary "core" "scheduler" .Values.split.enabled }}
{{- end }}

{{/* Labels of the pod that answers REST. The leader labels its pod; the core of a standby has no state. */}}
{{- define "muster.restSelector" -}}
{{ include "muster.coreSelector" . }}
{{- if not .Values.split.enabled }}
internal.yunikorn.apache.org/role: leader
{{- end }}
{{- end }}

{{/* embedAdmissionController is YuniKorn's name for webhook.enabled. */}}
{{- define "muster.webhookIsOn" -}}
{{ ternary .Values.webhook.enabled .Values.embedAdmissionController (eq .Values.embedAdmissionController nil) }}
{{- end }}

{{/* Whether REST is reachable from outside the pod without a NetworkPolicy. */}}
{{- define "muster.restIsExposed" -}}
{{- $isOnNode := and .Values.hostNetwork (not .Values.split.enabled) }}
{{- and (or $isOnNode (not .Values.networkPolicy.enabled)) (not (has .Values.rest.address (list "127.0.0.1" "::1"))) }}
{{- end }}

{{/* rest.closed; if it is not set, whether no NetworkPolicy protects REST. */}}
{{- define "muster.restIsClosed" -}}
{{ ternary (include "muster.restIsExposed" .) (toString .Values.rest.closed) (eq .Values.rest.closed nil) }}
{{- end }}

{{/* rest.kubernetesAuth, which closed reads need. */}}
{{- define "muster.restAuth" -}}
{{ or .Values.rest.kubernetesAuth (and (eq .Values.rest.closed nil) (eq (include "muster.restIsClosed" .) "true")) }}
{{- end }}

{{/* Secret with the certificates of the webhook; its keys are those of kubernetes.io/tls. */}}
{{- define "muster.webhookSecret" -}}
{{ .Values.webhook.secret | default "muster-webhook-tls" }}
{{- end }}

{{- define "muster.coreTlsSecret" -}}
{{ .Values.split.tls.coreSecret | default "muster-core-tls" }}
{{- end }}

{{- define "muster.operatorTlsSecret" -}}
{{ .Values.split.tls.operatorSecret | default "muster-operator-tls" }}
{{- end }}

{{/* A value as written in the file: Helm reads 1000000 as a float and would write it as 1e+06. */}}
{{- define "muster.text" -}}
{{- if and (kindIs "float64" .) (eq (float64 (int64 .)) .) }}{{ int64 . }}{{ else }}{{ toString . }}{{ end }}
{{- end }}

{{/* The entries of `settings`, else of yunikornDefaults, by their keys with dots, as JSON. They may be written as nested
     maps and lists: {service: {schedulerNames: [a, b]}} is service.schedulerNames: "a,b". */}}
{{- define "muster.settings" -}}
{{- $found := dict }}
{{- $group := ternary "yunikornDefaults" "settings" (not (empty .Values.yunikornDefaults)) }}
{{- include "muster.addSettings" (dict "into" $found "group" $group "prefix" "" "values" (get .Values $group)) }}
{{- toJson $found }}
{{- end }}

{{/* Adds the entries of `values` to `into`, with a prefix for their keys. Fails if a key is written twice. */}}
{{- define "muster.addSettings" -}}
{{- range $key, $value := .values }}
{{- $full := printf "%s%s" $.prefix $key }}
{{- if and (eq $full "queues") (or (kindIs "map" $value) (kindIs "slice" $value)) }}
{{- /* configuration.yaml rejects it. */ -}}
{{- else if kindIs "map" $value }}
{{- include "muster.addSettings" (dict "into" $.into "group" $.group "prefix" (printf "%s." $full) "values" $value) }}
{{- else if not (kindIs "invalid" $value) }}
{{- if hasKey $.into $full }}
{{- fail (printf "%s.%s: written twice, as a key with dots and as a nested key; remove one of them" $.group $full) }}
{{- end }}
{{- $text := include "muster.text" $value }}
{{- if kindIs "slice" $value }}
{{- $items := list }}
{{- range $value }}
{{- if or (kindIs "map" .) (kindIs "slice" .) }}
{{- fail (printf "%s.%s: an item of the list is not a single value; write a list of texts" $.group $full) }}
{{- end }}
{{- $items = append $items (include "muster.text" .) }}
{{- end }}
{{- $text = join "," $items }}
{{- end }}
{{- $_ := set $.into $full $text }}
{{- end }}
{{- end }}
{{- end }}

{{/* The settings that are read at startup, and their values. All others apply immediately. */}}
{{- define "muster.settingsAtStart" -}}
{{- $given := include "muster.settings" . | fromJson }}
{{- if eq (toString (get $given "service.enableConfigHotRefresh")) "false" }}
{{- toJson (list $given .Values.queues) }}
{{- end }}
{{- if .Values.yunikornDefaults }}
yunikornDefaults
{{- end }}
{{- range $key := splitList "\n" (.Files.Get "files/at-start.txt" | trim) }}
{{- if hasKey $given $key }}
{{ $key }}={{ get $given $key }}
{{- end }}
{{- end }}
{{- end }}

{{- define "muster.cleanupHook" -}}
labels:
  {{- include "muster.labels" . | nindent 2 }}
annotations:
  helm.sh/hook: post-delete
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{- define "muster.unregisterHook" -}}
labels:
  {{- include "muster.labels" . | nindent 2 }}
annotations:
  helm.sh/hook: post-upgrade
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* Not empty: the webhook is disabled, but an earlier revision of the release registered it. Always empty without a
     cluster, as in helm template. */}}
{{- define "muster.leftRegistration" -}}
{{- if and .Release.IsUpgrade (ne (include "muster.webhookIsOn" .) "true") }}
{{- $name := include "muster.admissionName" . }}
{{- range $kind := list "MutatingWebhookConfiguration" "ValidatingWebhookConfiguration" }}
{{- if lookup "admissionregistration.k8s.io/v1" $kind "" $name }}{{ $name }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "muster.testHook" -}}
labels:
  {{- include "muster.labels" . | nindent 2 }}
annotations:
  helm.sh/hook: test
  helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* A comma-separated setting as a YAML string that holds a CEL list of strings. */}}
{{- define "muster.celList" -}}
{{- $items := list }}
{{- range $item := splitList "," (toString .) }}
{{- with trim $item }}{{ $items = append $items . }}{{ end }}
{{- end }}
{{- $items | toJson | toJson }}
{{- end }}

{{/* The scheduler names that this installation serves. */}}
{{- define "muster.schedulerNames" -}}
{{ get (include "muster.settings" . | fromJson) "service.schedulerNames" | default "muster,yunikorn" | nospace }}
{{- end }}
