// SPDX-License-Identifier: Apache-2.0

package test

// Does every field that names a Secret take the right to get it, whatever object it is in?

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// secretTypes are the types of fields that name a Secret.
var secretTypes = []reflect.Type{reflect.TypeFor[corev1.SecretKeySelector](), reflect.TypeFor[spatev1.SecretVolume](), reflect.TypeFor[corev1.LocalObjectReference]()}

// secretPaths gives the paths of all fields of a type that name a Secret, with `[]` for the items of lists.
func secretPaths(of reflect.Type, path string) []string {
	switch of.Kind() {
	case reflect.Pointer:
		return secretPaths(of.Elem(), path)
	case reflect.Slice, reflect.Map:
		return secretPaths(of.Elem(), path+"[]")
	case reflect.Struct:
	default:
		return nil
	}
	if slices.Contains(secretTypes, of) {
		return []string{path}
	}
	if !strings.HasPrefix(of.PkgPath(), "spate.dev/") {
		return nil // of Kubernetes: affinity, tolerations, selectors
	}
	var paths []string
	for field := range of.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "" {
			paths = append(paths, secretPaths(field.Type, path)...) // inlined
			continue
		}
		paths = append(paths, secretPaths(field.Type, path+"."+name)...)
	}
	return paths
}

const ofLogin = "{secretKeyRef: {name: login, key: k}}"

// Specs in flow style that name the Secret login, by the paths at which they do.
func streamsWithSecrets() map[string]string {
	return map[string]string{".transmit.replay.pcap.from.secretKeyRef": "{transmit: {replay: {pcap: {from: " + ofLogin + "}}}}"}
}

func templatesWithSecrets() map[string]string {
	template := func(source string) string {
		return "{destinationPort: 80, connectionRate: 1cps, source: " + source +
			", pools: {clients: [{name: c, start: 198.18.0.1, count: 1}], servers: [{name: s, start: 198.19.0.1, count: 1}]}}"
	}
	programs := func(transport, client, server string) string {
		return template("{programs: {transport: " + transport + ", client: [{delay: {min: 1ms}}, " + client + "], server: [{delay: {min: 1ms}}, " + server + "]}}")
	}
	send, message := "{send: {content: {from: "+ofLogin+"}}}", "{sendMessage: {from: "+ofLogin+"}}"
	return map[string]string{
		".source.pcap.from.secretKeyRef":                           template("{pcap: {from: " + ofLogin + "}}"),
		".source.programs.client[].send.content.from.secretKeyRef": programs("TCP", send, "{waitForPeerClose: {}}"),
		".source.programs.server[].send.content.from.secretKeyRef": programs("TCP", "{close: {}}", send),
		".source.programs.client[].sendMessage.from.secretKeyRef":  programs("UDP", message, "{receiveMessages: {messages: 1}}"),
		".source.programs.server[].sendMessage.from.secretKeyRef":  programs("UDP", "{receiveMessages: {messages: 1}}", message),
	}
}

// The paths that take no right to get the Secret of the profile or generator, or are refused to all.
const (
	pullSecrets   = ".podTemplate.spec.imagePullSecrets[]" // shown by the kubelet to the image's registry alone
	volumeSecret  = ".volumes[].secret"
	withinProfile = "TrafficProfile.spec.generator" // an inline generator has no Secret's volume, and no password (spate-inline-secret-volumes)
)

// withPassword is appended to the fields of a session.
const withPassword = ", passwordFrom: " + ofLogin

// sessionsWithSecrets gives the routing of a port that names a Secret, by the paths at which it does.
func sessionsWithSecrets() map[string]string {
	return map[string]string{
		".ports[].routing.bgp[].passwordFrom.secretKeyRef":  "{bgp: [{name: s, localAS: 65001, neighbor: {address: 10.99.0.2, as: 65002}" + withPassword + "}]}",
		".ports[].routing.ospf[].passwordFrom.secretKeyRef": "{ospf: [{name: s, version: 2" + withPassword + "}]}",
		".ports[].routing.rip[].passwordFrom.secretKeyRef":  "{rip: [{name: s, version: RIPv2" + withPassword + "}]}",
	}
}

// manifestsWithSecrets gives an object for each path at which a kind can name a Secret whose bytes are sent.
func manifestsWithSecrets() map[string]string {
	object := func(kind, spec string) string {
		return "apiVersion: spate.dev/v1alpha1\nkind: " + kind + "\nmetadata: {}\nspec: " + spec + "\n"
	}
	entry := func(what string) string {
		return "traffic: [{name: a, transmitPort: loop, stream: {ref: {name: small}}}, {name: b, transmitPort: loop, " + what + "}]"
	}
	all := map[string]string{
		"TrafficGenerator.spec" + volumeSecret: object("TrafficGenerator", "{ports: [{name: loop, attachment: {loopback: {}}}], volumes: [{name: a, configMap: {name: login}}, {name: b, secret: {secretName: login}}]}"),
	}
	for path, routing := range sessionsWithSecrets() {
		all["TrafficGenerator.spec"+path] = object("TrafficGenerator", "{ports: [{name: east, attachment: {kernel: {network: east}}, addresses: [10.99.0.1/24], routing: "+routing+"}]}")
	}
	for path, spec := range streamsWithSecrets() {
		all["StatelessStream.spec"+path] = object("StatelessStream", spec)
		all["TrafficProfile.spec.traffic[].stream.inline"+path] = object("TrafficProfile", "{"+entry("stream: {inline: "+spec+"}")+"}")
		all["TrafficRun.spec.profile.traffic[].stream.inline"+path] = object("TrafficRun", "{profile: {"+entry("stream: {inline: "+spec+"}")+"}}")
	}
	for path, spec := range templatesWithSecrets() {
		all["ASTFTemplate.spec"+path] = object("ASTFTemplate", spec)
		all["TrafficProfile.spec.traffic[].application.inline"+path] = object("TrafficProfile", "{"+entry("application: {inline: "+spec+"}")+"}")
		all["TrafficRun.spec.profile.traffic[].application.inline"+path] = object("TrafficRun", "{profile: {"+entry("application: {inline: "+spec+"}")+"}}")
	}
	return all
}

func TestEveryFieldThatNamesASecretIsKnown(t *testing.T) {
	var found []string
	for kind, spec := range map[string]reflect.Type{
		"StatelessStream": reflect.TypeFor[spatev1.StatelessStreamSpec](), "ASTFTemplate": reflect.TypeFor[spatev1.ASTFTemplateSpec](),
		"TrafficGenerator": reflect.TypeFor[spatev1.TrafficGeneratorSpec](), "TrafficProfile": reflect.TypeFor[spatev1.TrafficProfileSpec](),
		"TrafficRun": reflect.TypeFor[spatev1.TrafficRunSpec](), "TrafficCapture": reflect.TypeFor[spatev1.TrafficCaptureSpec](),
		"TrafficPing":          reflect.TypeFor[spatev1.TrafficPingSpec](),
		"TrafficRecordsReader": reflect.TypeFor[spatev1.TrafficRecordsReaderSpec](),
		"TrafficStatsReader":   reflect.TypeFor[spatev1.TrafficStatsReaderSpec](),
	} {
		found = append(found, secretPaths(spec, kind+".spec")...)
	}
	known := append(slices.Collect(maps.Keys(manifestsWithSecrets())),
		"TrafficGenerator.spec"+pullSecrets, withinProfile+pullSecrets, withinProfile+volumeSecret)
	for path := range sessionsWithSecrets() {
		known = append(known, withinProfile+path)
	}
	slices.Sort(found)
	slices.Sort(known)
	if !slices.Equal(found, known) {
		t.Errorf("fields that name a Secret:\n%s\nknown here, and to the policy spate-secrets:\n%s", strings.Join(found, "\n"), strings.Join(known, "\n"))
	}
}

func TestEveryFieldThatNamesASecretTakesTheRightToGetIt(t *testing.T) {
	ns := bareNamespace(t)
	roles := []string{"spate-editor", "spate-generator-editor"}
	editor := person(t, ns, "eve", roles)
	reader := person(t, ns, "ray", roles, reads("login"))
	number := 0
	for path, manifest := range manifestsWithSecrets() {
		number++
		manifest = strings.Replace(manifest, "metadata: {}", fmt.Sprintf("metadata: {name: s%d}", number), 1)
		answered(t, path, creates(t, editor, ns, manifest), `Secret "login" is named`, "you may not get it")
		answered(t, path+", by who may get it", creates(t, reader, ns, manifest))
		open := strings.NewReplacer("metadata: {name: s", "metadata: {name: c", withPassword, "", "secretKeyRef", "configMapKeyRef", "secret: {secretName: login}", "persistentVolumeClaim: {claimName: login}").Replace(manifest)
		answered(t, path+" of a ConfigMap or claim, or no password", creates(t, editor, ns, open))
	}
}

func TestARunWithASecretIsChangedOnlyByWhoMayGetIt(t *testing.T) {
	ns := bareNamespace(t)
	editor := person(t, ns, "eve", []string{"spate-editor"})
	reader := person(t, ns, "ray", []string{"spate-editor"}, reads("login"))
	manifest := manifestsWithSecrets()["TrafficRun.spec.profile.traffic[].stream.inline.transmit.replay.pcap.from.secretKeyRef"]
	answered(t, "a run", creates(t, reader, ns, strings.Replace(manifest, "metadata: {}", "metadata: {name: r}", 1)))
	run := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "r"}}
	paused := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"paused": true}}`))
	answered(t, "a pause", editor.Patch(t.Context(), run, paused), `Secret "login" is named`)
	labels := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"labels": {"team": "a"}}}`))
	answered(t, "a label", editor.Patch(t.Context(), run, labels))
	answered(t, "a pause, by who may get the Secret", reader.Patch(t.Context(), run, paused))
}

func TestEditorsCreateRunsAndTheOperatorAloneWritesTheirStatus(t *testing.T) {
	ns := bareNamespace(t)
	admin := person(t, ns, "adam", nil, rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	const manifest = `
apiVersion: spate.dev/v1alpha1
kind: TrafficRun
metadata: {name: r}
spec: {profileRef: {name: absent}}
status: {paused: true}
`
	answered(t, "a run", creates(t, person(t, ns, "eve", []string{"spate-editor"}), ns, manifest))
	run := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "r"}}
	must(t, get(run))
	if run.Status.Paused {
		t.Error("a run was created with a status of its author's")
	}
	forged := client.RawPatch(types.MergePatchType, []byte(`{"status": {"phase": "Preparing"}}`))
	// The role that was just bound is waited for by a change that it allows.
	answered(t, "a change of the spec", creates(t, admin, ns, strings.Replace(manifest, "name: r}", "name: q}", 1)))
	answered(t, "a status", admin.Status().Patch(t.Context(), run, forged), "written by the operator only")
	answered(t, "a status, by the operator", operatorsClient(t).Status().Patch(t.Context(), run, forged))
}
