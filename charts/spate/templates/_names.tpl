{{- /* Labels of all objects of the release. Those of users never replace the chart's own. */}}
{{- define "spate.labels" -}}
{{- $own := dict "app.kubernetes.io/name" "spate-operator" "app.kubernetes.io/instance" .Release.Name "app.kubernetes.io/version" .Chart.AppVersion "app.kubernetes.io/managed-by" .Release.Service }}
{{- toYaml (merge $own (default dict .Values.commonLabels)) }}
{{- end }}

{{- define "spate.selector" -}}
app.kubernetes.io/name: spate-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* A reference by digest has no tag: some registries and runtimes refuse both. */}}
{{- define "spate.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .appVersion }}
{{- end }}
{{- end }}

{{- /* Labels of nodes that can execute the operator's image, and those that the user requires. */}}
{{- define "spate.nodeSelector" -}}
{{- $platform := dict "kubernetes.io/os" "linux" }}
{{- with .Values.image.architecture }}{{ $_ := set $platform "kubernetes.io/arch" . }}{{ end }}
{{- toYaml (merge (default dict (deepCopy .Values.nodeSelector)) $platform) }}
{{- end }}

{{- /* Whether an object of the Prometheus operator is created: "true", or empty. */}}
{{- define "spate.monitored" -}}
{{- if or (eq (toString .enabled) "true") (and (eq (toString .enabled) "auto") (.root.Capabilities.APIVersions.Has "monitoring.coreos.com/v1")) }}true{{ end }}
{{- end }}

{{- /* Labels and annotations of an object of the Prometheus operator. */}}
{{- define "spate.monitorMetadata" -}}
labels:
  {{- $own := include "spate.labels" .root | fromYaml }}
  {{- toYaml (merge $own (default dict .of.labels) (default dict .root.Values.metrics.labels)) | nindent 2 }}
{{- with .of.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A Role or ClusterRole with its binding to a service account of the release's namespace. */}}
{{- define "spate.role" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "spate.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
rules:
{{ toYaml .rules }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "spate.labels" .root | nindent 4 }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
- kind: ServiceAccount
  name: {{ .account }}
  namespace: {{ .root.Release.Namespace }}
{{- end }}
