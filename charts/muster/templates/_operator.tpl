{{- define "muster.operatorContainer" -}}
name: operator
image: {{ include "muster.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{ include "muster.lastWords" . }}
command: [muster-operator]
args:
  {{- if .Values.split.enabled }}
  - --core=muster-core.{{ .Release.Namespace }}.svc:{{ .Values.split.port }}
  - --tls-cert=/run/secrets/si/tls.crt
  - --tls-key=/run/secrets/si/tls.key
  - --tls-ca=/run/secrets/si/ca.crt
  {{- else }}
  - --core=unix:///run/muster/core.sock
  {{- end }}
  - --health-port=8081
  - --lease-name={{ .Values.leaderElection.leaseName }}
  - --lease-duration={{ .Values.leaderElection.leaseDurationSeconds }}
  {{- if (eq (include "muster.webhookIsOn" .) "true") }}
  - --webhook-service=muster-webhook
  - --webhook-port=9089
  {{- if ne .Values.webhook.certificates "self" }}
  - --webhook-cert=/run/secrets/webhook/tls.crt
  - --webhook-key=/run/secrets/webhook/tls.key
  - --webhook-ca=/run/secrets/webhook/ca.crt
  {{- end }}
  {{- end }}
  {{- if .Values.tracing.enabled }}
  - --tracing
  {{- end }}
  - --log-level={{ .Values.log.level }}
  - --log-format={{ .Values.log.format }}
  {{- range .Values.operator.extraArgs }}
  - {{ . | quote }}
  {{- end }}
env:
  - {name: NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
  - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
  - {name: POD_UID, valueFrom: {fieldRef: {fieldPath: metadata.uid}}}
  # The identity stays the same when the container restarts, so that it renews its own Lease immediately.
  - {name: MUSTER_IDENTITY, value: $(POD_NAME)_$(POD_UID)}
  {{- if .Values.tracing.enabled }}
  {{- include "muster.tracingEnv" . | nindent 2 }}
  {{- end }}
  {{- with .Values.operator.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
ports:
  - {name: health, containerPort: 8081}
  {{- if (eq (include "muster.webhookIsOn" .) "true") }}
  - {name: webhook, containerPort: 9089}
  {{- end }}
# Ready after recovery, or as a standby that can take over.
startupProbe:
  httpGet: {path: /readyz, port: health}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: {{ max 1 (div (int .Values.startupSeconds) 2) }}
livenessProbe:
  httpGet: {path: /livez, port: health}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  {{- if (eq (include "muster.webhookIsOn" .) "true") }}
  # Admission must not depend on the core (docs/operate/admission.md).
  httpGet: {path: /health, port: webhook, scheme: HTTPS}
  {{- else }}
  httpGet: {path: /readyz, port: health}
  {{- end }}
  periodSeconds: 5
  timeoutSeconds: 5
{{- if (eq (include "muster.webhookIsOn" .) "true") }}
lifecycle:
  # API servers learn that the endpoint is gone only after a short delay.
  preStop: {sleep: {seconds: 5}}
{{- end }}
resources:
  {{- toYaml .Values.operator.resources | nindent 2 }}
securityContext:
  {{- include "muster.containerSecurity" . | nindent 2 }}
volumeMounts:
  {{- include "muster.tokenMount" . | nindent 2 }}
  {{- if .Values.split.enabled }}
  - {name: si-tls, mountPath: /run/secrets/si, readOnly: true}
  {{- else }}
  - {name: socket, mountPath: /run/muster}
  {{- end }}
  {{- if and (eq (include "muster.webhookIsOn" .) "true") (ne .Values.webhook.certificates "self") }}
  - {name: webhook-tls, mountPath: /run/secrets/webhook, readOnly: true}
  {{- end }}
  {{- with .Values.operator.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- define "muster.tracingEnv" -}}
- name: OTEL_EXPORTER_OTLP_ENDPOINT
  value: {{ required "tracing.endpoint: tracing.enabled needs the OTLP endpoint of a collector; set tracing.endpoint" .Values.tracing.endpoint | quote }}
- {name: OTEL_EXPORTER_OTLP_PROTOCOL, value: {{ .Values.tracing.protocol | quote }}}
- {name: OTEL_RESOURCE_ATTRIBUTES, value: "k8s.namespace.name=$(NAMESPACE),k8s.pod.name=$(POD_NAME),k8s.pod.uid=$(POD_UID)"}
{{- with .Values.tracing.headersSecret }}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom: {secretKeyRef: {{ toJson . }}}
{{- end }}
{{- end }}
