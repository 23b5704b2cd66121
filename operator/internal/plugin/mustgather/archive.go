// SPDX-License-Identifier: Apache-2.0

package mustgather

// This file answers: how is the archive written?

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// archive is a gzipped tar file that is written in order. Each file of it is redacted.
type archive struct {
	redactor
	packed *gzip.Writer
	files  *tar.Writer
	root   string
	at     time.Time
	// missing is what could not be read, and why.
	missing []string
	// count is the number of files.
	count int
	// err is the first failure to write.
	err error
}

func newArchive(to io.Writer, root string, at time.Time) *archive {
	packed := gzip.NewWriter(to)
	return &archive{packed: packed, files: tar.NewWriter(packed), root: root, at: at}
}

// add writes a file as it is.
func (a *archive) add(name string, content []byte) {
	if a.err != nil {
		return
	}
	a.count++
	header := &tar.Header{Name: path.Join(a.root, name), Mode: 0o644, Size: int64(len(content)), ModTime: a.at, Format: tar.FormatPAX}
	if a.err = a.files.WriteHeader(header); a.err == nil {
		_, a.err = a.files.Write(content)
	}
}

// text writes a text.
func (a *archive) text(name, text string) { a.add(name, []byte(a.redactor.text(name, text))) }

// object writes an object as YAML.
func (a *archive) object(name string, object any) {
	content, err := a.yaml(name, object)
	if err != nil {
		a.lacks(name, err)
		return
	}
	a.add(name, content)
}

func (a *archive) yaml(name string, object any) ([]byte, error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // which keeps large ones exact
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		return nil, err
	}
	a.redactor.object(name, fields)
	if items, ok := fields["items"].([]any); ok {
		for i, item := range items {
			if inner, ok := item.(map[string]any); ok {
				a.redactor.object(fmt.Sprintf("%s: items[%d]", name, i), inner)
			}
		}
	}
	return yaml.Marshal(fields)
}

// lacks notes that something could not be read.
func (a *archive) lacks(name string, err error) {
	a.missing = append(a.missing, name+": "+strings.Join(strings.Fields(redactText(err.Error())), " "))
}

func (a *archive) close() error {
	return errors.Join(a.err, a.files.Close(), a.packed.Close())
}

// kindOf completes the kind of an object, which clients leave out of what they have read.
func kindOf(scheme *runtime.Scheme, object runtime.Object) {
	if kinds, _, err := scheme.ObjectKinds(object); err == nil {
		object.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
}
