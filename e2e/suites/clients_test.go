// SPDX-License-Identifier: Apache-2.0

// Emulated clients with Kea and nginx in a pod: the sample of subscribers gets its leases, connections come from them, and Kea has the same
// addresses as the list of clients.

package suites

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// subscribers is the number of clients of the sample.
const subscribers = 500

const accessManifest = `
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: access}
spec:
  config: '{"cniVersion": "1.0.0", "type": "bridge", "bridge": "access0"}'
---
apiVersion: v1
kind: Pod
metadata:
  name: access
  annotations: {k8s.v1.cni.cncf.io/networks: access}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  containers:
  - name: access
    image: localhost/spate/peer:1
    imagePullPolicy: IfNotPresent
    command: [bash, -ec]
    args:
    - |
      ethtool -K net1 tx off > /dev/null
      ip address add 198.18.48.1/22 dev net1
      echo page > /var/www/html/index.html
      nginx
      cat > /etc/kea/spate.json <<'CONF'
      {"Dhcp4": {
        "interfaces-config": {"interfaces": ["net1"], "dhcp-socket-type": "raw"},
        "lease-database": {"type": "memfile", "persist": true, "lfc-interval": 0, "name": "/tmp/leases.csv"},
        "valid-lifetime": 600,
        "subnet4": [{"id": 1, "subnet": "198.18.48.0/22", "pools": [{"pool": "198.18.49.0 - 198.18.51.250"}],
          "option-data": [{"name": "routers", "data": "198.18.48.1"}]}],
        "loggers": [{"name": "kea-dhcp4", "severity": "WARN", "output_options": [{"output": "stdout", "flush": true}]}]
      }}
      CONF
      export KEA_LOCKFILE_DIR=/tmp KEA_PIDFILE_DIR=/tmp KEA_LOG_FILE_DIR=/tmp KEA_DHCP_DATA_DIR=/tmp
      exec kea-dhcp4 -c /etc/kea/spate.json
    resources: {requests: {cpu: 10m, memory: 64Mi}}
    securityContext: {capabilities: {add: [NET_ADMIN, NET_RAW]}}
    readinessProbe: {exec: {command: [test, -s, /tmp/leases.csv]}, periodSeconds: 1}
`

func TestClientsGetLeasesFromKeaAndConnectionsComeFromThem(t *testing.T) {
	t.Parallel()
	needsRig(t, theMultus)
	ns := namespace(t)
	mustApply(t, ns, accessManifest)
	pod := podNamed(ns, "access")
	until(t, 60*time.Second, "Kea and nginx are ready", func(ctx context.Context) (bool, string) {
		err := get(ctx, pod)
		return err == nil && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].Ready, fmt.Sprintf("%+v %v", pod.Status, err)
	})
	mustApply(t, ns, sampleText(t, "subscribers.yaml", "duration: 5s", "duration: 8s"+shared))

	var listed map[string]string
	until(t, 3*time.Minute, "all clients are bound and listed", func(context.Context) (bool, string) {
		out, err := script("build/out/kubectl-spate", "clients", "subscribers", "-n", ns, "--state", "Bound", "--limit", "0", "-o", "json")
		if err != nil {
			return false, err.Error()
		}
		listed, err = addressesOf([]byte(out))
		return err == nil && len(listed) == subscribers, fmt.Sprintf("%d clients, %v", len(listed), err)
	})
	leases := leasesOf(t, pod)
	for mac, address := range listed {
		if leases[mac] != address {
			t.Errorf("client %s has %s, and Kea says %q", mac, address, leases[mac])
		}
	}
	if len(leases) != subscribers {
		t.Errorf("Kea has %d leases, want %d", len(leases), subscribers)
	}

	run := passed(t, ns, "subscribers")
	c := run.Status.Result.Clients["subs"]
	sum := int64(0)
	for _, n := range c.States {
		sum += n
	}
	if c.Wanted != subscribers || sum != c.Wanted || c.Setups != subscribers || c.DHCPv4 == nil || c.DHCPv4.Ack < subscribers || c.DHCPv4.Nak != 0 {
		t.Errorf("got %+v, %+v", c, c.DHCPv4)
	}
	from := visitors(t, pod)
	for address := range from {
		if !hasAddress(listed, address) {
			t.Errorf("%s requested the page, and is no client's address", address)
		}
	}
	if len(from) < subscribers/2 {
		t.Errorf("only %d clients requested the page", len(from))
	}
	queriesHaveData(t, run, ofClients)
	until(t, time.Minute, "the leases are given back", func(context.Context) (bool, string) {
		left := len(leasesOf(t, pod))
		return left == 0, fmt.Sprintf("Kea has %d leases", left)
	})
	gone(t, ns, "subscribers")
}

// addressesOf returns the addresses of listed clients, by MAC.
func addressesOf(document []byte) (map[string]string, error) {
	var list struct {
		Clients []struct {
			MAC  string
			IPv4 struct{ Address string }
		}
	}
	if err := json.Unmarshal(document, &list); err != nil {
		return nil, err
	}
	all := map[string]string{}
	for _, c := range list.Clients {
		all[c.MAC], _, _ = strings.Cut(c.IPv4.Address, "/")
	}
	return all, nil
}

// leasesOf returns the addresses that Kea has leased, by MAC: the last line of each address counts, and one without time was released.
func leasesOf(t *testing.T, pod *corev1.Pod) map[string]string {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(fileIn(t, pod, "/tmp/leases.csv"))).ReadAll()
	if err != nil || len(lines) == 0 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	byAddress := map[string][]string{}
	for _, line := range lines[1:] {
		byAddress[line[column["address"]]] = line
	}
	all := map[string]string{}
	for address, line := range byAddress {
		if line[column["valid_lifetime"]] != "0" && line[column["state"]] == "0" {
			all[line[column["hwaddr"]]] = address
		}
	}
	return all
}

// fileIn returns a file of a pod.
func fileIn(t *testing.T, pod *corev1.Pod, path string) string {
	t.Helper()
	text, err := inPod(t.Context(), pod.Namespace, pod.Name, "cat", path)
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return text
}

// visitors returns the addresses that requested a page.
func visitors(t *testing.T, pod *corev1.Pod) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for line := range strings.Lines(fileIn(t, pod, "/var/log/nginx/access.log")) {
		address, _, _ := strings.Cut(line, " ")
		all[address] = true
	}
	return all
}

func hasAddress(byMAC map[string]string, address string) bool {
	for _, one := range byMAC {
		if one == address {
			return true
		}
	}
	return false
}
