{{- /* The image of all processes. */ -}}
{{- define "bursar.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* Not empty if a part needs the webhook. */ -}}
{{- define "bursar.hasWebhook" -}}
{{- if or (and .Values.quota.enabled (eq .Values.quota.gate "webhooks")) (and .Values.peerPods.enabled (eq .Values.peerPods.mode "webhook")) -}}
true
{{- end }}
{{- end }}

{{- /* Not empty if a part needs the controller, which also makes the certificates of webhook and extender. */ -}}
{{- define "bursar.hasController" -}}
{{- if or .Values.quota.enabled .Values.capacity.enabled .Values.extender.enabled (and (include "bursar.hasWebhook" .) (not .Values.certManager.enabled)) -}}
true
{{- end }}
{{- end }}

{{- /* The requirements of quota.namespaceSelector as a JSON array, sorted by key. Labels become expressions. */ -}}
{{- define "bursar.requirements" -}}
{{- $selector := .Values.quota.namespaceSelector -}}
{{- if kindIs "invalid" $selector -}}
{{- $selector = dict "matchExpressions" (list (dict "key" "application-aware-quota/enable-gating" "operator" "Exists")) -}}
{{- end -}}
{{- $found := list -}}
{{- range $key, $value := $selector.matchLabels -}}
{{- $found = append $found (dict "key" $key "operator" "In" "values" (list $value) | toJson) -}}
{{- end -}}
{{- range $selector.matchExpressions -}}
{{- $requirement := dict "key" .key "operator" .operator -}}
{{- with .values -}}
{{- $requirement = set $requirement "values" (. | uniq | sortAlpha) -}}
{{- end -}}
{{- $found = append $found (toJson $requirement) -}}
{{- end -}}
[{{ $found | sortAlpha | join "," }}]
{{- end }}

{{- /* quota.namespaceSelector as kubectl takes it, for the controller's option. */ -}}
{{- define "bursar.selectorText" -}}
{{- $texts := list -}}
{{- range include "bursar.requirements" . | fromJsonArray -}}
{{- if eq .operator "In" -}}
{{- $texts = append $texts (printf "%s in (%s)" .key (join "," .values)) -}}
{{- else if eq .operator "NotIn" -}}
{{- $texts = append $texts (printf "%s notin (%s)" .key (join "," .values)) -}}
{{- else if eq .operator "Exists" -}}
{{- $texts = append $texts .key -}}
{{- else -}}
{{- $texts = append $texts (printf "!%s" .key) -}}
{{- end -}}
{{- end -}}
{{- join "," $texts -}}
{{- end }}

{{- /* An expression that selects all namespaces except that of the release and kube-system. */ -}}
{{- define "bursar.otherNamespaces" -}}
- key: kubernetes.io/metadata.name
  operator: NotIn
  values:
  {{- range list "kube-system" .Release.Namespace | uniq | sortAlpha }}
  - {{ . | quote }}
  {{- end }}
{{- end }}

{{- /* The selector of webhooks: quota.namespaceSelector and nothing else. */ -}}
{{- define "bursar.selectedNamespaces" -}}
{{- $requirements := include "bursar.requirements" . | fromJsonArray -}}
{{- if $requirements -}}
matchExpressions:
{{- range $requirements }}
- {{- toYaml . | nindent 2 }}
{{- end }}
{{- else -}}
{}
{{- end }}
{{- end }}

{{- /* Expressions that select the namespaces whose pods are gated. */ -}}
{{- define "bursar.gatedNamespaces" -}}
{{- range include "bursar.requirements" . | fromJsonArray }}
- {{- toYaml . | nindent 2 }}
{{- end }}
{{ include "bursar.otherNamespaces" . }}
{{- end }}

{{- /* Refuses a folder in which kubelet has a socket of the name that the agent's has. */ -}}
{{- define "bursar.checkAgent" -}}
{{- range list "pod-resources" "device-plugins" -}}
{{- if eq $.Values.agent.socketDir (printf "%s/%s" $.Values.agent.kubeletDir .) -}}
{{- fail (printf "agent.socketDir: %s is a folder of kubelet, whose socket the agent would replace" $.Values.agent.socketDir) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- /* Refuses names without a CA, with which the webhook would answer any caller. */ -}}
{{- define "bursar.checkWebhook" -}}
{{- if and $.Values.webhook.clientNames (not $.Values.webhook.clientCAConfig) -}}
{{- fail "webhook.clientNames: needs webhook.clientCAConfig" -}}
{{- end -}}
{{- end }}

{{- /* Not empty if the API server has no policies that change pods. Helm knows its kinds only if it
talks to it, so `helm template` finds nothing missing, unless it is told kinds by --api-versions. */ -}}
{{- define "bursar.lacksMutatingPolicies" -}}
{{- $policy := "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
{{- if and ($.Capabilities.APIVersions.Has "v1/Pod") (not ($.Capabilities.APIVersions.Has $policy)) -}}
true
{{- end -}}
{{- end }}

{{- define "bursar.checkGate" -}}
{{- if include "bursar.lacksMutatingPolicies" $ -}}
{{- fail (printf "quota.gate: the API server (%s) has no MutatingAdmissionPolicy v1, which Kubernetes has from 1.36 on, so policies cannot gate pods; set quota.gate to webhooks" $.Capabilities.KubeVersion) -}}
{{- end -}}
{{- end }}

{{- define "bursar.checkPeerPods" -}}
{{- if and (eq $.Values.peerPods.mode "policy") (include "bursar.lacksMutatingPolicies" $) -}}
{{- fail (printf "peerPods.mode: the API server (%s) has no MutatingAdmissionPolicy v1, which Kubernetes has from 1.36 on, so a policy cannot rewrite pods; set peerPods.mode to webhook" $.Capabilities.KubeVersion) -}}
{{- end -}}
{{- end }}
