// SPDX-License-Identifier: Apache-2.0

// Package test runs the operator's own binary, with the rights of its own role, against a real API server and the real
// garbage collector. The tests play the kubelet: an engine pod becomes a real spate-engine process on a loopback address.
package test

// This file answers: what is brought up for the tests?

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	operatorNamespace = "spate-system"
	// operatorAccount is the service account that role_binding.yaml names.
	operatorAccount = "system:serviceaccount:" + operatorNamespace + ":spate-operator"
	auditLog        = "audit.log"
)

// cluster is what TestMain brought up.
var cluster struct {
	env        *envtest.Environment
	kube       client.WithWatch
	kubelet    *kubelet
	operator   *operator
	api        *link  // from the operator to the API server
	kubeconfig []byte // the operator's user, by that link
	dir        string
}

func TestMain(m *testing.M) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		fmt.Fprintln(os.Stderr, "KUBEBUILDER_ASSETS, the folder of a real API server and etcd, is not set, and none of these tests runs without them: run `make operator-test`, which brings both")
		os.Exit(1)
	}
	flag.Parse()
	if flag.Lookup("test.list").Value.String() != "" {
		os.Exit(m.Run()) // which needs no API server
	}
	ctrl.SetLogger(zap.New(zap.WriteTo(io.Discard)))
	if err := takePart(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code, err := setUp(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func setUp(m *testing.M) (code int, err error) {
	if cluster.dir, err = os.MkdirTemp("", "spate-test-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(cluster.dir)
	cluster.env = &envtest.Environment{
		CRDDirectoryPaths: []string{"../../crds", "testdata/crds"}, ErrorIfCRDPathMissing: true,
		// Ample time: the machine may be busy building.
		ControlPlaneStartTimeout: time.Minute, ControlPlaneStopTimeout: time.Minute,
	}
	// The audit log has all requests of the operator.
	audit := cluster.env.ControlPlane.GetAPIServer().Configure()
	audit.Set("audit-policy-file", "../../e2e/cluster/audit-policy.yaml").Set("audit-log-path", filepath.Join(cluster.dir, auditLog))
	config, err := cluster.env.Start()
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.env.Stop()) }()
	config.QPS, config.Burst = 200, 400
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), spatev1.AddToScheme(scheme)); err != nil {
		return 1, err
	}
	if cluster.kube, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return 1, err
	}
	stop, err := startGarbageCollector()
	if err != nil {
		return 1, err
	}
	defer stop()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if cluster.kubelet, err = startKubelet(ctx, cluster.kube, filepath.Join(cluster.dir, "kubelet")); err != nil {
		return 1, err
	}
	defer cluster.kubelet.stop()
	if err := installOperator(ctx); err != nil {
		return 1, err
	}
	if cluster.operator, err = startOperator(); err != nil {
		return 1, err
	}
	defer func() { cluster.operator.stop() }()
	return m.Run(), nil
}

// startGarbageCollector runs the controllers of the real controller manager that deletion needs.
func startGarbageCollector() (stop func(), err error) {
	user, err := cluster.env.AddUser(envtest.User{Name: "system:kube-controller-manager", Groups: []string{"system:masters"}}, nil)
	if err != nil {
		return nil, err
	}
	config, err := user.KubeConfig()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(cluster.dir, "controller-manager.conf")
	if err := os.WriteFile(path, config, 0o600); err != nil {
		return nil, err
	}
	kube, err := filepath.EvalSymlinks(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-apiserver"))
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(cluster.dir, "controller-manager.log"))
	if err != nil {
		return nil, err
	}
	command := exec.Command(kube)
	command.Args = []string{"kube-controller-manager", "--kubeconfig=" + path, "--leader-elect=false", "--secure-port=0",
		"--controllers=garbage-collector-controller,namespace-controller"}
	command.Stdout, command.Stderr = log, log
	if err := startChild(command); err != nil {
		return nil, err
	}
	return func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		_ = log.Close()
	}, nil
}

// installOperator makes the operator's namespace, applies its roles and policies as they are shipped, and makes its user.
func installOperator(ctx context.Context) error {
	if err := cluster.kube.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: operatorNamespace}}); err != nil {
		return err
	}
	if err := installPolicies(ctx); err != nil {
		return err
	}
	for _, file := range []string{"role.yaml", "role_binding.yaml", "viewer_role.yaml", "editor_role.yaml", "generator_editor_role.yaml", "capturer_role.yaml", "pinger_role.yaml", "records_reader_role.yaml", "live_role.yaml"} {
		if err := applyFile(ctx, filepath.Join("../../config/rbac", file)); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	user, err := cluster.env.AddUser(envtest.User{Name: operatorAccount, Groups: []string{"system:serviceaccounts"}}, nil)
	if err != nil {
		return err
	}
	config, err := user.KubeConfig()
	if err != nil {
		return err
	}
	server, err := url.Parse(cluster.env.Config.Host)
	if err != nil {
		return err
	}
	if cluster.api, err = newLink("127.0.0.1:0", server.Host); err != nil {
		return err
	}
	cluster.kubeconfig = bytes.ReplaceAll(config, []byte(server.Host), []byte(cluster.api.address))
	if bytes.Equal(cluster.kubeconfig, config) {
		return fmt.Errorf("the operator's kubeconfig does not name %s", server.Host)
	}
	return nil
}

// installPolicies applies the admission policies as they are shipped.
func installPolicies(ctx context.Context) error {
	if err := applyFile(ctx, "../../config/admission/policies.yaml"); err != nil {
		return fmt.Errorf("policies.yaml: %w", err)
	}
	return nil
}

func applyFile(ctx context.Context, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return apply(ctx, "", string(text))
}

// apply creates or updates the objects of a manifest, as `kubectl apply --server-side` does.
func apply(ctx context.Context, namespace, manifest string) error {
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		var object unstructured.Unstructured
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue
		}
		if namespace != "" {
			object.SetNamespace(namespace)
		}
		err := cluster.kube.Apply(ctx, client.ApplyConfigurationFromUnstructured(&object), client.FieldOwner("test"), client.ForceOwnership)
		if err != nil {
			return err
		}
	}
}

// operator is a running operator process.
type operator struct {
	command *exec.Cmd
	metrics string
	live    string
	done    chan struct{}
	log     *tail
}

var buildOperator = sync.OnceValues(func() (string, error) {
	path := filepath.Join(cluster.dir, "spate-operator")
	out, err := exec.Command("go", "build", "-o", path, "../cmd/manager").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the operator: %w: %s", err, out)
	}
	return path, nil
})

// startOperator launches the operator and waits until it leads.
func startOperator(flags ...string) (*operator, error) {
	o, err := launchOperator(flags...)
	if err != nil {
		return nil, err
	}
	return o, o.awaitReady()
}

// launchOperator runs the operator's binary as the user that has its roles.
func launchOperator(flags ...string) (*operator, error) {
	binary, err := buildOperator()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(cluster.dir, "operator.conf")
	if err := os.WriteFile(config, cluster.kubeconfig, 0o600); err != nil {
		return nil, err
	}
	o := &operator{metrics: freeAddress(), live: freeAddress(), done: make(chan struct{}), log: &tail{}}
	o.command = exec.Command(binary, append([]string{
		"--namespace=" + operatorNamespace, "--engine-image=engine:test", "--engine-binary=" + engineBinary(),
		"--metrics-bind-address=" + o.metrics, "--health-probe-bind-address=0", "--log-level=debug",
		"--live-bind-address=" + strings.TrimPrefix(o.live, "127.0.0.1"),
	}, flags...)...)
	o.command.Env = append(os.Environ(), "KUBECONFIG="+config)
	o.command.Stdout, o.command.Stderr = o.log, o.log
	if err := startChild(o.command); err != nil {
		return nil, err
	}
	go func() {
		_ = o.command.Wait()
		close(o.done)
	}()
	return o, nil
}

func (o *operator) leads() bool { return o.metric("leader_election_master_status") == 1 }

// awaitReady waits until the operator holds the lease and serves its metrics.
func (o *operator) awaitReady() error {
	for deadline := time.Now().Add(40 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		select {
		case <-o.done:
			return fmt.Errorf("the operator has ended:\n%s", o.log.lines(20))
		default:
		}
		if o.leads() {
			return nil
		}
	}
	return fmt.Errorf("the operator does not lead:\n%s", o.log.lines(20))
}

// metric sums up the samples of one of the operator's own metrics whose labels have all the given parts.
func (o *operator) metric(name string, parts ...string) float64 {
	response, err := http.Get("http://" + o.metrics + "/metrics")
	if err != nil {
		return 0
	}
	defer response.Body.Close()
	sum := 0.0
samples:
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		line := lines.Text()
		if !strings.HasPrefix(line, name+"{") && !strings.HasPrefix(line, name+" ") {
			continue
		}
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue samples
			}
		}
		if value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64); err == nil {
			sum += value
		}
	}
	return sum
}

// stop ends the operator as a pod is ended.
func (o *operator) stop() {
	_ = o.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-o.done:
	case <-time.After(10 * time.Second):
		o.kill()
	}
}

// kill ends it as a crash does.
func (o *operator) kill() {
	_ = o.command.Process.Kill()
	<-o.done
}

// restartOperator replaces the operator by another with these flags. The first releases its lease (15 s), unless it was killed.
func restartOperator(t *testing.T, flags ...string) {
	t.Helper()
	cluster.operator.stop()
	o, err := startOperator(flags...)
	if err != nil {
		t.Fatal(err)
	}
	cluster.operator = o
}

// tail keeps the last output of a process.
type tail struct {
	mu   sync.Mutex
	kept bytes.Buffer
}

func (l *tail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept.Write(p)
	if over := l.kept.Len() - 256<<10; over > 0 {
		l.kept.Next(over)
	}
	return len(p), nil
}

// lines gives the last n lines.
func (l *tail) lines(n int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(strings.TrimSpace(l.kept.String()), "\n")
	return strings.Join(all[max(len(all)-n, 0):], "\n")
}
