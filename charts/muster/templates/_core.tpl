{{/* The core's container, in the operator's pod or in a separate pod. */}}
{{- define "muster.coreContainer" -}}
{{- $scheme := ternary "HTTPS" "HTTP" (ne .Values.rest.tlsSecret "") -}}
name: core
image: {{ include "muster.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{ include "muster.lastWords" . }}
command: [muster-core]
args:
  {{- if .Values.split.enabled }}
  - --listen=0.0.0.0:{{ .Values.split.port }}
  - --tls-cert=/run/secrets/si/tls.crt
  - --tls-key=/run/secrets/si/tls.key
  - --tls-ca=/run/secrets/si/ca.crt
  {{- else }}
  - --listen=unix:///run/muster/core.sock
  {{- end }}
  - --rest-address={{ .Values.rest.address }}
  - --rest-port=9080
  {{- if .Values.rest.tlsSecret }}
  - --rest-tls-cert=/run/secrets/rest/tls.crt
  - --rest-tls-key=/run/secrets/rest/tls.key
  {{- end }}
  {{- if (eq (include "muster.restAuth" $) "true") }}
  - --rest-kubernetes-auth
  {{- end }}
  {{- if (eq (include "muster.restIsClosed" $) "true") }}
  - --rest-closed
  {{- end }}
  {{- if ne .Values.rest.compatibilityMode "closed" }}
  - --rest-compatibility-mode={{ .Values.rest.compatibilityMode }}
  {{- end }}
  {{- if not .Values.rest.ui }}
  - --no-rest-ui
  {{- end }}
  - --rest-simulation-mib={{ int .Values.rest.simulationMiB }}
  - --log-level={{ .Values.log.level }}
  - --log-format={{ .Values.log.format }}
  {{- range .Values.core.extraArgs }}
  - {{ . | quote }}
  {{- end }}
{{- with .Values.core.extraEnv }}
env:
  {{- toYaml . | nindent 2 }}
{{- end }}
ports:
  - {name: rest, containerPort: 9080}
  {{- if .Values.split.enabled }}
  - {name: si, containerPort: {{ .Values.split.port }}}
  {{- end }}
startupProbe:
  httpGet: {path: /livez, port: rest, scheme: {{ $scheme }}}
  periodSeconds: 1
  failureThreshold: 120
livenessProbe:
  httpGet: {path: /livez, port: rest, scheme: {{ $scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
# Not /readyz: the core of a standby has no state (docs/operate/high-availability.md).
readinessProbe:
  httpGet: {path: /livez, port: rest, scheme: {{ $scheme }}}
  periodSeconds: 5
  timeoutSeconds: 5
lifecycle:
  # The core outlives the operator, which finishes its writes and unregisters.
  preStop: {sleep: {seconds: {{ ternary 10 5 (eq (include "muster.webhookIsOn" .) "true") }}}}
resources:
  {{- toYaml .Values.core.resources | nindent 2 }}
securityContext:
  {{- include "muster.containerSecurity" . | nindent 2 }}
volumeMounts:
  {{- if .Values.split.enabled }}
  - {name: si-tls, mountPath: /run/secrets/si, readOnly: true}
  {{- else }}
  - {name: socket, mountPath: /run/muster}
  {{- end }}
  {{- if .Values.rest.tlsSecret }}
  - {name: rest-tls, mountPath: /run/secrets/rest, readOnly: true}
  {{- end }}
  {{- if .Values.core.ldapSecret }}
  - {name: ldap, mountPath: /run/secrets/ldap, readOnly: true}
  {{- end }}
  {{- if (eq (include "muster.restAuth" $) "true") }}
  {{- if .Values.split.enabled }}
  {{- include "muster.tokenMount" . | nindent 2 }}
  {{- else }}
  - {name: core-token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
  {{- end }}
  {{- end }}
  {{- with .Values.core.extraVolumeMounts }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{/* Volumes of the core's container, without the token. The operator's pod adds extraVolumes. */}}
{{- define "muster.coreVolumes" -}}
{{ if .Values.split.enabled -}}
- name: si-tls
  secret: {secretName: {{ include "muster.coreTlsSecret" . }}, defaultMode: 0440}
{{- else -}}
- name: socket
  emptyDir: {medium: Memory, sizeLimit: 1Mi}
{{- if (eq (include "muster.restAuth" $) "true") }}
- name: core-token
  secret: {secretName: muster-core-token, defaultMode: 0440}
{{- end }}
{{- end }}
{{- with .Values.rest.tlsSecret }}
- name: rest-tls
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- with .Values.core.ldapSecret }}
- name: ldap
  secret: {secretName: {{ . }}, defaultMode: 0440}
{{- end }}
{{- if .Values.split.enabled }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}
