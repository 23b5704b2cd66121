// SPDX-License-Identifier: Apache-2.0

package mustgather

// This file answers: what may not leave the cluster, and is replaced?

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// hidden stands for what was replaced.
const hidden = "REDACTED"

// rules are what is replaced, for the reader of the archive. redactor has the code of each.
const rules = `- Secrets are not read.
- metadata.managedFields, and the annotation kubectl.kubernetes.io/last-applied-configuration, which repeats the whole object, are omitted.
- Values of environment variables of containers (env[].value).
- Strings in fields whose names end with password, passwd, passphrase, token, secret, credential, credentials, apiKey, accessKey or privateKey, and in annotations
  whose names have one of these words. References to Secrets are kept: they are names.
- In all texts, logs and events included: private keys in PEM, JSON Web Tokens, user names and passwords in URLs, the values of the header fields Authorization, Proxy-Authorization,
  Cookie, Set-Cookie and X-Api-Key, Bearer tokens, and what follows password=, passwd=, passphrase=, token=, secret=, api-key= or access-key= (also with ":").
- Bytes that objects have in hex or base64, such as payloads of streams and captures, are kept as they are.
`

// credential are names of fields that hold one.
var credential = regexp.MustCompile(`(?i)(password|passwd|passphrase|token|secret|credentials?|api[-_]?key|access[-_]?key|private[-_]?key)$`)

// credentialWithin are names of annotations that may hold one.
var credentialWithin = regexp.MustCompile(`(?i)password|passwd|passphrase|token|secret|credential|api[-_]?key|access[-_]?key|private[-_]?key`)

// texts are replaced in every string: of each match the first group is kept, and the second, if there is one.
var texts = []*regexp.Regexp{
	regexp.MustCompile(`(?s)(-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----).*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`),
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*`),
	regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s/@"']+(@)`),
	regexp.MustCompile(`(?i)(\b(?:proxy-)?authorization:[ \t]*)[^\r\n"]+`),
	regexp.MustCompile(`(?i)(\b(?:set-)?cookie:[ \t]*)[^\r\n"]+`),
	regexp.MustCompile(`(?i)(\bx-api-key:[ \t]*)[^\r\n"]+`),
	regexp.MustCompile(`(?i)(\bbearer[ \t]+)[A-Za-z0-9._~+/=-]{8,}`),
	regexp.MustCompile(`(?i)((?:password|passwd|passphrase|token|secret|api[-_]?key|access[-_]?key)"?[=:][ \t]*)(?:"[^"\r\n]+"|[^\s"',;&})\]]+)`),
}

// redactor replaces what may not leave the cluster, and keeps where it did.
type redactor struct{ done []string }

func (r *redactor) note(file, what string) {
	if text := file + ": " + what; !slices.Contains(r.done, text) {
		r.done = append(r.done, text)
	}
}

// object replaces in an object, as it is decoded from JSON, what rules has.
func (r *redactor) object(file string, object map[string]any) {
	if metadata, ok := object["metadata"].(map[string]any); ok {
		delete(metadata, "managedFields")
		if annotations, ok := metadata["annotations"].(map[string]any); ok {
			delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
			for name := range annotations {
				if credentialWithin.MatchString(name) {
					annotations[name] = hidden
					r.note(file, "metadata.annotations."+name)
				}
			}
		}
	}
	r.fields(file, "", object)
}

// fields replaces in a value with the path, and returns what stands for it.
func (r *redactor) fields(file, path string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		for name, inner := range value {
			at := strings.TrimPrefix(path+"."+name, ".")
			if text, ok := inner.(string); ok && text != "" && text != hidden && credential.MatchString(name) {
				value[name] = hidden
				r.note(file, at)
				continue
			}
			value[name] = r.fields(file, at, inner)
		}
	case []any:
		for i, inner := range value {
			at := fmt.Sprintf("%s[%d]", path, i)
			if variable, ok := inner.(map[string]any); ok && (path == "env" || strings.HasSuffix(path, ".env")) && variable["value"] != nil {
				variable["value"] = hidden
				r.note(file, at+".value")
			}
			value[i] = r.fields(file, at, inner)
		}
	case string:
		replaced := redactText(value)
		if replaced != value {
			r.note(file, path)
		}
		return replaced
	}
	return value
}

// text replaces in a file that is no object.
func (r *redactor) text(file, text string) string {
	replaced := redactText(text)
	if replaced != text {
		r.note(file, "parts of the text")
	}
	return replaced
}

func redactText(text string) string {
	for _, pattern := range texts {
		text = pattern.ReplaceAllString(text, "${1}"+hidden+"${2}")
	}
	return text
}
