// SPDX-License-Identifier: Apache-2.0

package test

// Bytes of Secrets are sent, and lie in no other object, event or log.

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// greetingFrom sends data that the template names; the server waits for their last bytes.
func greetingFrom(source, ending string) string {
	return strings.NewReplacer("{content: {text: hello}}", "{content: {from: "+source+"}}", "{receive: {bytes: 5}}", "{receiveUntil: {pattern: "+ending+"}}").Replace(loopbackTemplate)
}

// frames is a capture of as many packets that have the content.
func frames(t *testing.T, count int, content string) []byte {
	t.Helper()
	frame := append(slices.Concat([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5}, []byte(content)), make([]byte, 60)...)
	var out bytes.Buffer
	w := pcapgo.NewWriterNanos(&out)
	must(t, w.WriteFileHeader(65536, layers.LinkTypeEthernet))
	for i := range count {
		must(t, w.WritePacket(gopacket.CaptureInfo{Timestamp: time.Unix(0, int64(i)*1e6), CaptureLength: len(frame), Length: len(frame)}, frame))
	}
	return out.Bytes()
}

// plain gives all that an object says: its JSON, its binary data and what they are when unpacked.
func plain(t *testing.T, object client.Object) string {
	t.Helper()
	text, err := json.Marshal(object)
	must(t, err)
	var all strings.Builder
	all.Write(text)
	if c, is := object.(*corev1.ConfigMap); is {
		for _, packed := range c.BinaryData {
			all.Write(packed)
			if r, err := gzip.NewReader(bytes.NewReader(packed)); err == nil {
				unpacked, _ := io.ReadAll(r) // plans of tests have one chunk
				all.Write(unpacked)
			}
		}
	}
	return all.String()
}

// holders are the objects of a namespace other than Secrets that have a word in them, plain or written in the ways JSON and people write
// bytes, and the operator's log if that has it.
func holders(t *testing.T, ns, word string) (found []string) {
	t.Helper()
	ways := []string{word, hex.EncodeToString([]byte(word))}
	for shift := range 3 { // base64 of the word within others
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + word))
		ways = append(ways, encoded[4:len(encoded)-4])
	}
	has := func(name, text string) {
		if slices.ContainsFunc(ways, func(way string) bool { return strings.Contains(text, way) }) {
			found = append(found, name)
		}
	}
	for _, list := range []client.ObjectList{
		&corev1.ConfigMapList{}, &corev1.EventList{}, &corev1.PodList{}, &spatev1.TrafficRunList{}, &spatev1.TrafficProfileList{},
		&spatev1.StatelessStreamList{}, &spatev1.ASTFTemplateList{}, &spatev1.TrafficGeneratorList{},
	} {
		must(t, cluster.kube.List(t.Context(), list, client.InNamespace(ns)))
		items, err := meta.ExtractList(list)
		must(t, err)
		for _, item := range items {
			object := item.(client.Object)
			has(fmt.Sprintf("%T %s", item, object.GetName()), plain(t, object))
		}
	}
	has("the operator's log", cluster.operator.log.lines(1<<20))
	return found
}

func TestBytesOfSecretsAreSentAndLieInNoOtherObject(t *testing.T) {
	ns := ready(t, "")
	const word = "correct-horse-battery"
	content := word + "-staple-END"
	data := map[string][]byte{"hello": []byte(content), "recorded": frames(t, 50, word)}
	must(t, cluster.kube.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "login"}, Data: data}))
	const replayed = `
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: recorded}
spec: {transmit: {replay: {pcap: {from: {secretKeyRef: {name: login, key: recorded}}}, loops: 1}}}
`
	both := strings.Replace(greetingProfile("hello", "  duration: 2s\n"), "  drain:", "  - {name: recorded, stream: {ref: {name: recorded}}, transmitPort: loop}\n  drain:", 1)
	mustApply(t, ns, greetingFrom("{secretKeyRef: {name: login, key: hello}}", "END")+"---"+replayed+"---"+both)
	r := complete(t, runLimit, profileNamed(ns, "hello"))
	if r.Status.Result == nil || len(r.Status.Result.Templates) != 1 {
		t.Fatalf("no result: %+v", r.Status)
	}
	hello := r.Status.Result.Templates["hello"]
	if n := hello.Server.Established; n == 0 || hello.Server.BytesReceived != int64(len(content))*n || hello.Client.BytesReceived != 1000*n {
		t.Errorf("the server received %d bytes in %d connections, its clients %d", hello.Server.BytesReceived, n, hello.Client.BytesReceived)
	}
	if sent := r.Status.Result.Streams; len(sent) != 1 || sent["recorded"].Tx != 50 {
		t.Errorf("replayed %+v, want 50 packets", sent)
	}
	if found := holders(t, ns, word); len(found) > 0 {
		t.Errorf("bytes of the Secret are in %s", strings.Join(found, ", "))
	}
	if s := r.Status.Resolved.Snapshot.Secrets; len(s) != 2 || s[0].Name != "login" || s[0].UID == "" || s[0].ResourceVersion == "" {
		t.Errorf("the run refers to %+v", s)
	}

	// What looks for them does find them where they are in a plan.
	must(t, cluster.kube.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "open"}, BinaryData: map[string][]byte{"hello": []byte("wrong-donkey-generator-END")}}))
	mustApply(t, ns, greetingFrom("{configMapKeyRef: {name: open, key: hello}}", "END")+"---"+greetingProfile("open", "  duration: 500ms\n"))
	complete(t, runLimit, profileNamed(ns, "open"))
	if found := holders(t, ns, "wrong-donkey-generator"); len(found) != 2 || !slices.ContainsFunc(found, func(f string) bool { return strings.Contains(f, "-plan-0") }) {
		t.Errorf("bytes of the ConfigMap are found in %s", strings.Join(found, ", "))
	}
}

func TestASecretThatChangedBeforeTheEnginesHaveItIsNamed(t *testing.T) {
	ns := ready(t, "")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "login"}, Data: map[string][]byte{"hello": []byte("correct-END")}}
	must(t, cluster.kube.Create(t.Context(), secret))
	engine := enginePods(t, ns)[0].UID
	cluster.kubelet.signal(engine, syscall.SIGSTOP)
	defer cluster.kubelet.signal(engine, syscall.SIGCONT)
	mustApply(t, ns, greetingFrom("{secretKeyRef: {name: login, key: hello}}", "END")+"---"+greetingProfile("hello", "  duration: 500ms\n"))
	p := profileNamed(ns, "hello")
	until(t, runLimit, "the run is made", func() (bool, string) {
		err := get(p)
		return err == nil && p.Status.CurrentRun != nil, fmt.Sprint(err, p.Status.Phase, p.Status.Reason)
	})
	secret.Data["hello"] = []byte("changed-END")
	must(t, cluster.kube.Update(t.Context(), secret))
	cluster.kubelet.signal(engine, syscall.SIGCONT)
	expect(t, runLimit, p, spatev1.ConditionValid, metav1.ConditionFalse, spatev1.ReasonSnapshotLost, `Secret "login"`, "has changed since the run was created")
}
