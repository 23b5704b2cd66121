// SPDX-License-Identifier: Apache-2.0

package test

// Who may name Secrets, write generators into profiles, and make runs: policies of the API server, as they are shipped, and what the operator
// refuses besides.

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/yaml"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/podspec"
)

// person is a user with roles in a namespace; rules are beside the ClusterRoles.
func person(t *testing.T, ns, name string, roles []string, rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	subject := []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: name, APIGroup: rbacv1.GroupName}}
	bind := func(kind, role string) {
		must(t, cluster.kube.Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name + "-" + role}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		}))
	}
	for _, role := range roles {
		bind("ClusterRole", role)
	}
	if len(rules) > 0 {
		must(t, cluster.kube.Create(t.Context(), &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Rules: rules}))
		bind("Role", name)
	}
	return as(t, rest.ImpersonationConfig{UserName: name, Groups: []string{"system:authenticated"}})
}

// operatorsClient acts with the operator's own service account.
func operatorsClient(t *testing.T) client.Client {
	t.Helper()
	return as(t, rest.ImpersonationConfig{UserName: operatorAccount, Groups: []string{"system:serviceaccounts", "system:authenticated"}})
}

func as(t *testing.T, who rest.ImpersonationConfig) client.Client {
	t.Helper()
	config := rest.CopyConfig(cluster.env.Config)
	config.Impersonate = who
	kube, err := client.New(config, client.Options{Scheme: cluster.kube.Scheme()})
	must(t, err)
	return kube
}

func reads(secrets ...string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}, ResourceNames: secrets}
}

// creates tries to make the object of a manifest; roles that were just bound are waited for.
func creates(t *testing.T, kube client.Client, ns, manifest string) error {
	t.Helper()
	object := &unstructured.Unstructured{}
	must(t, yaml.Unmarshal([]byte(manifest), &object.Object))
	object.SetNamespace(ns)
	var err error
	for range 50 {
		if err = kube.Create(context.Background(), object.DeepCopy()); !apierrors.IsForbidden(err) || strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func streamFrom(name, source string) string {
	return fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: StatelessStream
metadata: {name: %s}
spec: {transmit: {replay: {pcap: {from: %s}}}}
`, name, source)
}

func templateFrom(name string, secrets ...string) string {
	var sends []string
	for _, secret := range secrets {
		sends = append(sends, fmt.Sprintf("{send: {content: {from: {secretKeyRef: {name: %s, key: k}}}}}", secret))
	}
	text := strings.Replace(loopbackTemplate, "name: greeting", "name: "+name, 1)
	return strings.Replace(text, "{send: {content: {text: hello}}}", strings.Join(sends, ", "), 1)
}

func inlineProfile(name, generator, traffic string) string {
	return fmt.Sprintf(`
apiVersion: spate.dev/v1alpha1
kind: TrafficProfile
metadata: {name: %s}
spec:
%s
  traffic:
  - {name: a, transmitPort: loop, %s}
`, name, generator, traffic)
}

const (
	loopbackInline = `  generator:
    cpuPolicy: Shared
    packetMemory: {size: 64Mi, backing: Standard}
    ports: [{name: loop, attachment: {loopback: {}}}]`
	referring = "  generatorRef: {name: loop}"
	ofSmall   = "stream: {ref: {name: small}}"
)

// answered checks the API server's answer.
func answered(t *testing.T, what string, err error, words ...string) {
	t.Helper()
	if len(words) == 0 {
		if err != nil {
			t.Errorf("%s is refused: %v", what, err)
		}
		return
	}
	if !apierrors.IsForbidden(err) {
		t.Errorf("%s: %v, want it to be forbidden", what, err)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v; it should say %q", what, err, word)
		}
	}
}

func TestWhoNamesASecretMustBeAllowedToGetIt(t *testing.T) {
	ns := bareNamespace(t)
	editor := person(t, ns, "edith", []string{"spate-editor", "spate-generator-editor"})
	reader := person(t, ns, "rita", []string{"spate-editor", "spate-generator-editor"}, reads("login"))
	all := person(t, ns, "alma", []string{"spate-editor"}, reads())
	const login = "{secretKeyRef: {name: login, key: k}}"
	templateText, _, _ := strings.Cut(strings.Replace(loopbackTemplate, "greeting", "c", 1), "  source:")
	for name, manifest := range map[string]string{
		"a stream":                  streamFrom("s", login),
		"a template's capture":      templateText + "  source: {pcap: {from: " + login + "}}\n",
		"a template's payload":      templateFrom("p", "login"),
		"a template's message":      strings.NewReplacer("send: {content: {from", "sendMessage: {from", "key: k}}}}", "key: k}}}", "TCP", "UDP", "{receive: {bytes: 1000}}", "{receiveMessages: {messages: 1}}", "[{receive: {bytes: 5}}, {send: {content: {size: 1000}}}, {waitForPeerClose: {}}]", "[{receiveMessages: {messages: 1}}, {sendMessage: {size: 100}}]").Replace(templateFrom("m", "login")),
		"the server's payload":      strings.Replace(strings.Replace(loopbackTemplate, "greeting", "v", 1), "{size: 1000}", "{from: "+login+"}", 1),
		"a stream within a profile": inlineProfile("i", referring, "stream: {inline: {transmit: {replay: {pcap: {from: "+login+"}}}}}"),
		"a volume of a generator":   strings.Replace(loopbackGenerator, "name: loop}", "name: vol}", 1) + "  volumes: [{name: v, secret: {secretName: login}}]\n",
	} {
		answered(t, name, creates(t, editor, ns, manifest), `Secret "login" is named`, "you may not get it")
		answered(t, name+", by who may get it", creates(t, reader, ns, manifest))
	}
	answered(t, "data of a ConfigMap", creates(t, editor, ns, streamFrom("open", "{configMapKeyRef: {name: login, key: k}}")))
	answered(t, "a second Secret", creates(t, reader, ns, templateFrom("two", "login", "login", "other")), `Secret "other" is named`)
	nine := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	eight := person(t, ns, "otto", []string{"spate-editor"}, reads(nine...))
	answered(t, "eight Secrets", creates(t, eight, ns, templateFrom("eight", nine[:8]...)))
	answered(t, "nine Secrets", creates(t, eight, ns, templateFrom("nine", nine...)), "more than eight Secrets")
	answered(t, "nine Secrets, by who may get all", creates(t, all, ns, templateFrom("nine", nine...)))

	stream := &spatev1.StatelessStream{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "open"}}
	must(t, editor.Get(t.Context(), client.ObjectKeyFromObject(stream), stream))
	stream.Spec.Transmit.Replay.Pcap.From = &spatev1.DataSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "login"}, Key: "k"}}
	answered(t, "an update", editor.Update(t.Context(), stream), `Secret "login" is named`)
	stream.Name = "s"
	must(t, editor.Get(t.Context(), client.ObjectKeyFromObject(stream), stream))
	stream.Labels = map[string]string{"team": "a"}
	answered(t, "a label on what another wrote", editor.Update(t.Context(), stream))
	// The operator's own writes, here its finalizer and status, go on.
	expect(t, answerLimit, profileNamed(ns, "i"), spatev1.ConditionReady, metav1.ConditionFalse, "")
	p := profileNamed(ns, "i")
	must(t, get(p))
	if len(p.Finalizers) != 1 {
		t.Errorf("finalizers %v", p.Finalizers)
	}
}

func TestInlineGeneratorsAreForWhoMayCreateGenerators(t *testing.T) {
	ns := bareNamespace(t)
	editor := person(t, ns, "edith", []string{"spate-editor"})
	allowed := person(t, ns, "gina", []string{"spate-editor", "spate-generator-editor"}, reads("login"))
	inline := inlineProfile("inline", loopbackInline, ofSmall)
	answered(t, "an inline generator", creates(t, editor, ns, inline), "you may not create one in this namespace", "generatorRef")
	answered(t, "a reference", creates(t, editor, ns, inlineProfile("refers", referring, ofSmall)))
	answered(t, "an inline generator, by who may create one", creates(t, allowed, ns, inline))
	secret := loopbackInline + "\n    volumes: [{name: v, secret: {secretName: login}}]"
	answered(t, "a Secret's volume", creates(t, allowed, ns, inlineProfile("volume", secret, ofSmall)), "must not name a Secret")
	password := strings.Replace(loopbackInline, "{loopback: {}}", "{kernel: {network: east}}, addresses: [10.99.0.1/24], routing: {ospf: [{name: s, version: 2, passwordFrom: "+ofLogin+"}]}", 1)
	answered(t, "a password", creates(t, allowed, ns, inlineProfile("password", password, ofSmall)), "spec.generator.ports of a profile must not name a Secret")
	foreign := strings.Replace(loopbackInline, "loopback: {}", "kernel: {network: east, namespace: infra}", 1)
	answered(t, "another namespace's network", creates(t, allowed, ns, inlineProfile("foreign", foreign, ofSmall)), "another namespace's network")
	device := strings.Replace(foreign, "kernel:", "sriov:", 1)
	answered(t, "another namespace's network of devices", creates(t, allowed, ns, inlineProfile("device", device, ofSmall)), "another namespace's network")
	own := strings.Replace(foreign, "infra", ns, 1)
	answered(t, "a network by the namespace's own name", creates(t, allowed, ns, inlineProfile("own", own, ofSmall)))

	p := profileNamed(ns, "inline")
	must(t, editor.Get(t.Context(), client.ObjectKeyFromObject(p), p))
	suspend := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"suspend": true}}`))
	answered(t, "another field beside a generator that stays", editor.Patch(t.Context(), p, suspend))
	larger := client.RawPatch(types.MergePatchType, []byte(`{"spec": {"generator": {"replicas": 2}}}`))
	answered(t, "a changed inline generator", editor.Patch(t.Context(), p, larger), "you may not create one")
}

// withoutPolicies is a namespace's life where they are not installed: the operator alone.
func withoutPolicies(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		binding := &unstructured.Unstructured{}
		binding.SetAPIVersion("admissionregistration.k8s.io/v1")
		binding.SetKind("ValidatingAdmissionPolicyBinding")
		binding.SetName(name)
		must(t, cluster.kube.Delete(t.Context(), binding))
	}
	t.Cleanup(func() { must(t, installPolicies(context.Background())) })
}

func TestTheOperatorItselfRefusesWhatInlineGeneratorsMustNotHave(t *testing.T) {
	withoutPolicies(t, "spate-inline-secret-volumes", "spate-inline-foreign-networks")
	ns := bareNamespace(t)
	both := strings.Replace(loopbackInline, "loopback: {}", "kernel: {network: east, namespace: infra}", 1) + "\n    volumes: [{name: v, secret: {secretName: login}}]"
	until(t, answerLimit, "the policies are gone", func() (bool, string) {
		err := creates(t, cluster.kube, ns, inlineProfile("both", both, ofSmall))
		return err == nil, fmt.Sprint(err)
	})
	expect(t, answerLimit, profileNamed(ns, "both"), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonNotAllowed,
		"spec.generator.volumes[0].secret", "--inline-secret-volumes", "spec.generator.ports[0].attachment.kernel.namespace", "--inline-foreign-networks")
	if err := get(generatorNamed(ns, "both")); !apierrors.IsNotFound(err) {
		t.Errorf("the generator: %v", err)
	}
}

func TestImagesAreAllowedByTheirWholeNameOrBeginning(t *testing.T) {
	ns := bareNamespace(t)
	restartOperator(t, "--engine-images=example.org/spate/engine:*,other:1")
	t.Cleanup(func() { restartOperator(t) })
	for image, runs := range map[string]bool{"example.org/spate/engine:2": true, "other:1": true, "other:12": false, "example.org/spate/enginex:2": false} {
		name := strings.NewReplacer("/", "-", ":", "-", ".", "-").Replace(image)
		mustApply(t, ns, strings.Replace(loopbackGenerator, "name: loop}", "name: "+name+"}", 1)+"  image: "+image+"\n")
		if runs {
			podNamed(t, ns, name+"-0")
		} else {
			expect(t, answerLimit, generatorNamed(ns, name), spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonNotAllowed, image)
		}
	}
}

func TestANameThatIsTakenIsReported(t *testing.T) {
	object := func(kind string, ns string) client.Object {
		switch kind {
		case "Pod":
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "loop-0"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		case "Secret":
			return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: podspec.TLSSecretName("loop")}}
		case "PodMonitor":
			return podspec.PodMonitor(generatorNamed(ns, "loop"), podspec.Scrapes{})
		}
		g := generatorNamed(ns, "loop")
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: podspec.PolicyName(g.Name)}}
	}
	type taken struct {
		foreign   client.Object
		generator *spatev1.TrafficGenerator
		version   string
	}
	var all []*taken
	for _, kind := range []string{"Pod", "Secret", "NetworkPolicy", "PodMonitor"} {
		ns := bareNamespace(t)
		foreign := object(kind, ns)
		owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "lab"}}
		must(t, cluster.kube.Create(t.Context(), owner))
		must(t, controllerutil.SetControllerReference(owner, foreign, cluster.kube.Scheme()))
		must(t, cluster.kube.Create(t.Context(), foreign))
		mustApply(t, ns, loopbackGenerator)
		g := generatorNamed(ns, "loop")
		expect(t, answerLimit, g, spatev1.ConditionStalled, metav1.ConditionTrue, spatev1.ReasonNameTaken, kind+" "+foreign.GetName()+" exists and belongs to ConfigMap lab", "rename the generator")
		all = append(all, &taken{foreign: foreign, generator: g, version: g.ResourceVersion})
	}
	reconciled := func() float64 {
		return cluster.operator.metric("controller_runtime_reconcile_total", `controller="trafficgenerator"`)
	}
	before := reconciled()
	time.Sleep(3 * time.Second)
	if more := reconciled() - before; more > 20 {
		t.Errorf("in 3 s %d generators were looked at %v times", len(all), more)
	}
	for _, one := range all {
		must(t, get(one.generator))
		if one.generator.ResourceVersion != one.version {
			t.Errorf("%T: the generator was written while it waited", one.foreign)
		}
		must(t, cluster.kube.Delete(t.Context(), one.foreign, client.GracePeriodSeconds(0)))
	}
	for _, one := range all {
		expect(t, 4*answerLimit, one.generator, spatev1.ConditionReady, metav1.ConditionFalse, spatev1.ReasonPodsPending)
	}
}
