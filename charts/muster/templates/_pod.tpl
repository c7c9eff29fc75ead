{{/* Scheduling and security of all pods of the chart. */}}
{{- define "muster.podScheduling" -}}
# Not Muster: its own pods must start without it.
schedulerName: default-scheduler
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - {{ kindIs "string" . | ternary (dict "name" .) . | toJson }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
enableServiceLinks: false
automountServiceAccountToken: false
{{- end }}

{{/* Pod Security "restricted". */}}
{{- define "muster.podSecurity" -}}
{{- $default := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532 "fsGroupChangePolicy" "OnRootMismatch" "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- toYaml (mergeOverwrite $default .Values.podSecurityContext) }}
{{- end }}

{{- define "muster.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
capabilities: {drop: [ALL]}
{{- end }}

{{/* A process that cannot start logs the reason and exits; `kubectl describe pod` shows the last log line. */}}
{{- define "muster.lastWords" -}}
terminationMessagePolicy: FallbackToLogsOnError
{{- end }}

{{/* A token for the API server, valid for an hour, only for the container that mounts it. */}}
{{- define "muster.tokenVolume" -}}
- name: token
  projected:
    defaultMode: 0440
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3607}
      - configMap:
          name: kube-root-ca.crt
          items: [{key: ca.crt, path: ca.crt}]
      - downwardAPI:
          items: [{path: namespace, fieldRef: {fieldPath: metadata.namespace}}]
{{- end }}

{{- define "muster.tokenMount" -}}
- {name: token, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}

{{/* Job of a Helm hook that runs muster uninstall. root: the chart; name: of the Job and its account; hook: its labels
     and annotations; args: of the command. */}}
{{- define "muster.cleanupJob" -}}
apiVersion: batch/v1
kind: Job
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  {{- .hook | nindent 2 }}
    helm.sh/hook-weight: "1"
spec:
  backoffLimit: 3
  activeDeadlineSeconds: 240
  # A failed Job is kept for this time, because its log has the reason.
  ttlSecondsAfterFinished: 3600
  template:
    metadata:
      labels:
        {{- include "muster.labels" .root | nindent 8 }}
        app: muster
        component: cleanup
    spec:
      restartPolicy: Never
      serviceAccountName: {{ .name }}
      {{- include "muster.podScheduling" .root | nindent 6 }}
      securityContext:
        {{- include "muster.podSecurity" .root | nindent 8 }}
      containers:
        - name: cleanup
          image: {{ include "muster.image" .root }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          {{- include "muster.lastWords" .root | nindent 10 }}
          command: [muster, uninstall]
          args:
            {{- toYaml .args | nindent 12 }}
          resources:
            requests: {cpu: 50m, memory: 128Mi}
            limits: {memory: 512Mi}
          securityContext:
            {{- include "muster.containerSecurity" .root | nindent 12 }}
          volumeMounts:
            {{- include "muster.tokenMount" .root | nindent 12 }}
      volumes:
        {{- include "muster.tokenVolume" .root | nindent 8 }}
{{- end }}
