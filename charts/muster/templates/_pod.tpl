{{/* Where and as whom a pod of ours runs. */}}
{{- define "muster.place" -}}
# Never Muster itself: it has to start whatever else is broken.
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
{{- $ours := dict "runAsNonRoot" true "runAsUser" 65532 "runAsGroup" 65532 "fsGroup" 65532 "fsGroupChangePolicy" "OnRootMismatch" "seccompProfile" (dict "type" "RuntimeDefault") -}}
{{- toYaml (mergeOverwrite $ours .Values.podSecurityContext) }}
{{- end }}

{{- define "muster.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
privileged: false
capabilities: {drop: [ALL]}
{{- end }}

{{/* Who cannot serve says why in a line and ends: `kubectl describe pod` shows it. */}}
{{- define "muster.lastWords" -}}
terminationMessagePolicy: FallbackToLogsOnError
{{- end }}

{{/* A token for the API server, of an hour, for the container that mounts it; nobody else in the pod has one. */}}
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
