// SPDX-License-Identifier: Apache-2.0

package mustgather

// This file answers: what is gathered, and where is it in the archive? Files are written in the order of this file, and by name.

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/doctor"
	"spate.dev/operator/internal/plugin/events"
	"spate.dev/operator/internal/podspec"
)

// kinds are all of Spate's, sorted: those that have lists.
func kinds(scheme *runtime.Scheme) (all []string) {
	known := scheme.KnownTypes(spatev1.GroupVersion)
	for kind := range known {
		if _, listed := known[kind+"List"]; listed {
			all = append(all, kind)
		}
	}
	slices.Sort(all)
	return all
}

// pluralOf is the name of a kind's resource.
func pluralOf(kind string) string {
	if strings.HasSuffix(kind, "ch") {
		return strings.ToLower(kind) + "es"
	}
	return strings.ToLower(kind) + "s"
}

// gathering is what is read, and the archive that it is written to.
type gathering struct {
	*archive
	client kube.Client
	pods   typedcorev1.PodsGetter
	// namespace is empty for all.
	namespace, operatorNamespace string
	logBytes                     int64
	versions                     []string

	generators []spatev1.TrafficGenerator
	nodes      map[string]bool
	// readable counts kinds of Spate's objects that could be read.
	readable int
}

// all writes the whole archive but for its end.
func (g *gathering) all(ctx context.Context) {
	g.nodes = map[string]bool{}
	g.objects(ctx)
	g.events(ctx)
	g.enginePods(ctx)
	for i := range g.generators {
		of := &g.generators[i]
		var checks bytes.Buffer
		if err := doctor.Write(&checks, of); err != nil {
			fmt.Fprintln(&checks, "\nerror:", err)
		}
		g.text(path.Join("namespaces", of.Namespace, "doctor", of.Name+".txt"), checks.String())
	}
	g.nodeFacts(ctx)
	g.operator(ctx)
	g.text("versions.txt", strings.Join(g.versions, "\n")+"\n")
	g.text("errors.txt", cmp.Or(strings.Join(g.missing, "\n"), "nothing: all could be read")+"\n")
	g.add("README.md", []byte(g.readme()))
}

// where names the namespaces in messages.
func (g *gathering) where() string {
	if g.namespace == "" {
		return "all namespaces"
	}
	return "namespace " + g.namespace
}

func byName[T any](all []T, of func(*T) (namespace, name string)) {
	slices.SortFunc(all, func(a, b T) int {
		inA, nameA := of(&a)
		inB, nameB := of(&b)
		return cmp.Or(cmp.Compare(inA, inB), cmp.Compare(nameA, nameB))
	})
}

func (g *gathering) objects(ctx context.Context) {
	for _, kind := range kinds(g.client.Scheme()) {
		plural := pluralOf(kind)
		list, err := g.list(ctx, spatev1.GroupVersion.WithKind(kind), kube.InNamespace(g.namespace))
		if err != nil {
			g.lacks(fmt.Sprintf("%s of %s", plural, g.where()), err)
			continue
		}
		g.readable++
		for i := range list {
			if kind == "TrafficGenerator" {
				generator := spatev1.TrafficGenerator{}
				if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list[i].Object, &generator); err != nil {
					g.lacks("the status of generator "+list[i].GetName(), err)
				}
				g.generators = append(g.generators, generator)
			}
			g.object(path.Join("namespaces", list[i].GetNamespace(), plural, list[i].GetName()+".yaml"), &list[i])
		}
	}
	for i := range g.generators {
		if version := g.generators[i].Status.EngineVersion; version != "" {
			g.versions = append(g.versions, fmt.Sprintf("engines of generator %s/%s: %s", g.generators[i].Namespace, g.generators[i].Name, version))
		}
	}
}

func (g *gathering) list(ctx context.Context, kind schema.GroupVersionKind, options ...kube.ListOption) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := g.client.List(ctx, list, options...); err != nil {
		return nil, err
	}
	byName(list.Items, func(o *unstructured.Unstructured) (string, string) { return o.GetNamespace(), o.GetName() })
	return list.Items, nil
}

// events writes those of each namespace into a file.
func (g *gathering) events(ctx context.Context) {
	of := "events of " + g.where()
	list, err := events.List(ctx, g.client, g.namespace, func(note string) { g.missing = append(g.missing, of+": "+note) })
	if err != nil {
		g.lacks(of, err)
		return
	}
	g.eventFiles(list.Items, func(namespace string) string { return path.Join("namespaces", namespace, "events.yaml") })
}

func (g *gathering) eventFiles(all []corev1.Event, file func(namespace string) string) {
	by := map[string][]corev1.Event{}
	for i := range all {
		kindOf(g.client.Scheme(), &all[i])
		by[all[i].Namespace] = append(by[all[i].Namespace], all[i])
	}
	for _, namespace := range slices.Sorted(maps.Keys(by)) {
		g.object(file(namespace), &corev1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}, Items: by[namespace]})
	}
}

// enginePods writes the pods of generators, and their logs. Those that may not be listed are known by their generators.
func (g *gathering) enginePods(ctx context.Context) {
	known := map[kube.ObjectKey]bool{}
	for i := range g.generators {
		for _, pod := range g.generators[i].Status.Pods {
			known[kube.ObjectKey{Namespace: g.generators[i].Namespace, Name: pod.Name}] = true
			g.nodes[pod.Node] = true
		}
	}
	pods, err := cluster.EnginePods(ctx, g.client, g.namespace, "")
	if err != nil {
		g.lacks("engine pods of "+g.where(), err)
	}
	for i := range pods {
		folder := path.Join("namespaces", pods[i].Namespace, "pods")
		g.pod(folder, &pods[i])
		g.log(ctx, path.Join(folder, pods[i].Name+".log"), &pods[i], &corev1.PodLogOptions{Container: podspec.EngineContainer})
		if podspec.HasRouting(&pods[i]) {
			g.containerLogs(ctx, path.Join(folder, pods[i].Name+"."+podspec.RoutingContainer), &pods[i], podspec.RoutingContainer, pods[i].Status.InitContainerStatuses)
		}
		delete(known, kube.ObjectKeyFromObject(&pods[i]))
	}
	if err == nil { // the others no longer exist
		return
	}
	for _, key := range slices.SortedFunc(maps.Keys(known), func(a, b kube.ObjectKey) int { return cmp.Compare(a.String(), b.String()) }) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
		g.log(ctx, path.Join("namespaces", key.Namespace, "pods", key.Name+".log"), pod, &corev1.PodLogOptions{Container: podspec.EngineContainer})
	}
}

// pod writes a pod, and notes its node and its images.
func (g *gathering) pod(folder string, pod *corev1.Pod) {
	kindOf(g.client.Scheme(), pod)
	g.object(path.Join(folder, pod.Name+".yaml"), pod)
	g.nodes[pod.Spec.NodeName] = true
	for _, status := range pod.Status.ContainerStatuses {
		g.versions = append(g.versions, fmt.Sprintf("container %s of pod %s/%s: %s %s", status.Name, pod.Namespace, pod.Name, status.Image, status.ImageID))
	}
}

// containerLogs writes the log of a container, and of the one before if it was restarted.
func (g *gathering) containerLogs(ctx context.Context, name string, pod *corev1.Pod, container string, statuses []corev1.ContainerStatus) {
	g.log(ctx, name+".log", pod, &corev1.PodLogOptions{Container: container})
	restarted := func(s corev1.ContainerStatus) bool { return s.Name == container && s.RestartCount > 0 }
	if slices.ContainsFunc(statuses, restarted) {
		g.log(ctx, name+".previous.log", pod, &corev1.PodLogOptions{Container: container, Previous: true})
	}
}

// log writes the log of a container.
func (g *gathering) log(ctx context.Context, name string, pod *corev1.Pod, options *corev1.PodLogOptions) {
	options.Timestamps = true
	stream, err := g.pods.Pods(pod.Namespace).GetLogs(pod.Name, options).Stream(ctx)
	if err != nil {
		g.lacks(name, err)
		return
	}
	defer func() { _ = stream.Close() }()
	text, err := bounded(stream, g.logBytes)
	if err != nil {
		g.lacks("the end of "+name, err)
	}
	g.text(name, text)
}

// keyEnd is the end of a private key, whose beginning may have been omitted.
var keyEnd = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY-----`)

// bounded reads a log to its end, and keeps as many bytes as most: a quarter of them from the beginning, the rest from the end.
func bounded(from io.Reader, most int64) (string, error) {
	head, err := io.ReadAll(io.LimitReader(from, most/4))
	if err != nil {
		return string(head), err
	}
	var tail []byte
	left, size := int64(0), int(most-most/4)
	chunk := make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = from.Read(chunk)
		if tail = append(tail, chunk[:n]...); len(tail) > 2*size {
			left += int64(len(tail) - size)
			tail = append(tail[:0], tail[len(tail)-size:]...)
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	if len(tail) > size {
		left += int64(len(tail) - size)
		tail = tail[len(tail)-size:]
	}
	if left == 0 {
		return string(head) + string(tail), err
	}
	if end := keyEnd.FindIndex(tail); end != nil && !bytes.Contains(tail[:end[0]], []byte("-----BEGIN ")) {
		tail = append([]byte(hidden), tail[end[1]:]...)
	}
	return fmt.Sprintf("%s\n[%d bytes are omitted: --log-bytes]\n%s", head, left, tail), err
}

// nodeFacts writes what is of use of the nodes: no addresses, no annotations, no identifiers of machines.
func (g *gathering) nodeFacts(ctx context.Context) {
	delete(g.nodes, "")
	for _, name := range slices.Sorted(maps.Keys(g.nodes)) {
		node := &corev1.Node{}
		file := path.Join("nodes", name+".yaml")
		if err := g.client.Get(ctx, kube.ObjectKey{Name: name}, node); err != nil {
			g.lacks(file, err)
			continue
		}
		facts := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: node.Labels}}
		facts.Spec.Taints, facts.Spec.Unschedulable = node.Spec.Taints, node.Spec.Unschedulable
		facts.Status = corev1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable, Conditions: node.Status.Conditions, NodeInfo: node.Status.NodeInfo}
		facts.Status.NodeInfo.MachineID, facts.Status.NodeInfo.SystemUUID, facts.Status.NodeInfo.BootID = "", "", ""
		kindOf(g.client.Scheme(), facts)
		g.object(file, facts)
	}
}

// operator writes the operator's Deployment, its pods with their events, and their logs: also those before their last restarts.
func (g *gathering) operator(ctx context.Context) {
	const folder = "operator"
	deployments, err := g.list(ctx, schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, kube.InNamespace(g.operatorNamespace), cluster.OperatorLabels())
	if err != nil {
		g.lacks("the operator's Deployment in namespace "+g.operatorNamespace, err)
	}
	for i := range deployments {
		g.object(path.Join(folder, "deployments", deployments[i].GetName()+".yaml"), &deployments[i])
	}
	pods, err := cluster.OperatorPods(ctx, g.client, g.operatorNamespace)
	switch {
	case err != nil:
		g.lacks("the operator's pods in namespace "+g.operatorNamespace, err)
		return
	case len(pods) == 0:
		g.lacks("the operator's pods in namespace "+g.operatorNamespace, errors.New("there are none; --operator-namespace names another"))
		return
	}
	var list corev1.EventList
	if err := g.client.List(ctx, &list, kube.InNamespace(g.operatorNamespace)); err != nil {
		g.lacks("events of the operator's pods", err)
	}
	ofPods := slices.DeleteFunc(list.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Kind != "Pod" || !slices.ContainsFunc(pods, func(p corev1.Pod) bool { return p.Name == e.InvolvedObject.Name })
	})
	byName(ofPods, func(e *corev1.Event) (string, string) { return e.Namespace, e.Name })
	g.eventFiles(ofPods, func(string) string { return path.Join(folder, "events.yaml") })
	for i := range pods {
		g.pod(path.Join(folder, "pods"), &pods[i])
		for _, container := range pods[i].Spec.Containers {
			g.containerLogs(ctx, path.Join(folder, "pods", pods[i].Name+"."+container.Name), &pods[i], container.Name, pods[i].Status.ContainerStatuses)
		}
	}
}

// readme says what is in the archive, and what is not.
func (g *gathering) readme() string {
	slices.Sort(g.done)
	list := func(all []string) string {
		if len(all) == 0 {
			return "- nothing\n"
		}
		return "- " + strings.Join(all, "\n- ") + "\n"
	}
	return "# Spate: what was gathered\n\n" +
		"By `kubectl spate must-gather` at " + g.at.Format(time.RFC3339) + ", of " + g.where() + ".\n\n" +
		"| file | is |\n|---|---|\n" +
		"| `namespaces/NAMESPACE/KIND/NAME.yaml` | Spate's objects |\n" +
		"| `namespaces/NAMESPACE/events.yaml` | events of Spate's objects and of generators' pods, the oldest first |\n" +
		"| `namespaces/NAMESPACE/pods/POD.yaml`, `POD.log` | generators' pods; what their engines have logged, with the times of the node |\n" +
		"| `namespaces/NAMESPACE/doctor/GENERATOR.txt` | the output of `kubectl spate doctor` |\n" +
		"| `nodes/NODE.yaml` | labels, taints, resources, conditions and versions of the nodes that pods are on; no addresses, no annotations |\n" +
		"| `operator/` | the operator's Deployment, pods, events and logs |\n" +
		"| `versions.txt` | versions of the plugin, the API server, engines and images |\n" +
		"| `errors.txt` | what could not be read, and why |\n\n" +
		fmt.Sprintf("Of each log at most %d bytes are kept. Results of runs that are too large for their status are in ConfigMaps, which are not read: `kubectl spate result RUN -o json` prints them.\n\n", g.logBytes) +
		"## Rules of redaction\n\nThe value is replaced by `" + hidden + "`.\n\n" + rules + "\n## Redacted\n\n" + list(g.done) + "\n"
}
