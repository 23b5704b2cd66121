{{- define "spate.labels" -}}
app.kubernetes.io/name: spate-operator
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "spate.selector" -}}
app.kubernetes.io/name: spate-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "spate.image" -}}
{{ .image.repository }}:{{ .image.tag | default .appVersion }}
{{- end }}
