// SPDX-License-Identifier: Apache-2.0

// Package resources answers: how does a command write the resources that it made, to standard output or to files?
package resources

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// Resource is an object with its kind, for the file's name.
type Resource struct {
	Kind   string
	Object metav1.Object
}

// mostNoted is the maximum length of an object for `kubectl apply`, which stores it as JSON in an annotation: all
// annotations together have 256 KiB.
const mostNoted = 256*1024 - 512

// Put writes resources of a namespace to standard output (yaml), or into a folder.
func Put(command *cobra.Command, output, namespace string, resources []Resource) error {
	var long []string
	for _, r := range resources {
		r.Object.SetNamespace(namespace)
		text, err := json.Marshal(r.Object)
		if err != nil {
			return err
		}
		if len(text) > mostNoted {
			long = append(long, r.Kind+" "+r.Object.GetName())
		}
	}
	if len(long) > 0 {
		fmt.Fprintf(command.ErrOrStderr(), "note: use `kubectl apply --server-side`: objects of more than 256 KiB are too long for kubectl apply without it: %s\n", strings.Join(long, ", "))
	}
	if output == "yaml" {
		return Show(command.OutOrStdout(), resources)
	}
	return save(output, resources)
}

// Show writes resources as documents of one YAML stream.
func Show(to io.Writer, resources []Resource) error {
	var all bytes.Buffer
	for i, r := range resources {
		text, err := yaml.Marshal(r.Object)
		if err != nil {
			return err
		}
		if i > 0 {
			all.WriteString("---\n")
		}
		all.Write(text)
	}
	_, err := to.Write(all.Bytes())
	return err
}

// save writes each resource to a file of its own in a folder.
func save(folder string, resources []Resource) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, r := range resources {
		text, err := yaml.Marshal(r.Object)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, r.Kind+"-"+r.Object.GetName()+".yaml"), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
