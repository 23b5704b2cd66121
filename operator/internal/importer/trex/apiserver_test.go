// SPDX-License-Identifier: Apache-2.0

package trex

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"
)

// Imported resources are written as YAML, as people apply it, and created in a real API server.
func TestImportedResourcesAreTaken(t *testing.T) {
	if os.Getenv("KUBEBUILDER_ASSETS") == "" {
		t.Skip("KUBEBUILDER_ASSETS is not set; run `make operator-test`")
	}
	environment := &envtest.Environment{CRDDirectoryPaths: []string{"../../../../crds"}, ErrorIfCRDPathMissing: true}
	config, err := environment.Start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c = client.WithFieldValidation(c, metav1.FieldValidationStrict)
	all := map[string][]byte{"all kinds": list(
		burst("a", parts{"flags": "0", "next": `"b"`, "isg": "10", "vm": vmJSON(
			changed(counting, `"step": 1`, `"step": 3, "split_to_cores": false`), changed(writing, `"add_value": 0`, `"add_value": -15`), fixIPv4)}),
		streamJSON(parts{"name": `"b"`, "self_start": "false", "start_paused": "true", "core_id": "-1", "vm": vmJSON(oneTuple, writingIP),
			"mode": `{"type": "multi_burst", "pkts_per_burst": 5, "count": 0, "ibg": 0.5, "rate": {"type": "percentage", "value": 0.1023482498892335}}`}),
		streamJSON(parts{"flow_stats": `{"enabled": true, "stream_id": 1, "rule_type": "latency"}`, "enabled": "false"}),
		streamJSON(parts{"flow_stats": `{"enabled": true, "stream_id": 1, "rule_type": "stats"}`, "packet": packetJSON(udp6)}),
		streamJSON(parts{"vm": vmJSON(changed(counting, `10`, `60`, `19`, `66`), trimming,
			`{"type": "write_mask_flow_var", "name": "v", "pkt_offset": 36, "pkt_cast_size": 2, "mask": 4095, "shift": -1, "add_value": 0, "is_big_endian": false}`)}),
		streamJSON(parts{"vm": vmJSON(`{"type": "flow_var", "name": "v", "size": 8, "op": "random", "value_list": [18446744073709551615, 1], "step": 1}`)}),
	)}
	all["templates"] = astfJSON(request+`, {"name": "set_var", "id": 0, "val": 9}, {"name": "jmp_nz", "id": 0, "offset": -1}`, `{"name": "rx", "min_bytes": 3}, `+answer,
		`"AP8AAQ=="`, `{"size": 20000}`, `[{"port": 80}]`, `[{"port": 80, "l7_map": {"offset": [0, 2]}}]`)
	if os.Getenv("CONFORMANCE") != "" {
		for name, data := range profiles(t) {
			all[name] = data
		}
		for name, data := range statefulProfiles(t) {
			all["stateful "+name] = data
		}
	}
	for name, data := range all {
		t.Run(name, func(t *testing.T) {
			got, err := Import("p", data, Options{})
			if err != nil && (meant.MatchString(err.Error()) || strings.Contains(err.Error(), tinySegments)) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			objects := []any{got.Profile}
			for _, stream := range got.Streams {
				objects = append(objects, stream)
			}
			for _, template := range got.Templates {
				objects = append(objects, template)
			}
			for _, configMap := range got.ConfigMaps {
				objects = append(objects, configMap)
			}
			for _, object := range objects {
				text, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				read := &unstructured.Unstructured{}
				if err := yaml.UnmarshalStrict(text, &read.Object); err != nil {
					t.Fatal(err)
				}
				read.SetNamespace("default")
				if err := c.Create(t.Context(), read, client.DryRunAll); err != nil {
					t.Errorf("%v in\n%.2000s", err, text)
				}
			}
		})
	}
}
