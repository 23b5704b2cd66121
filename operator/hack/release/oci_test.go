// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"
)

// An archive is read by its tag, and each blob has the digest by which it is named.
func TestImagesAreLayoutsWithTheTimeOfTheCommit(t *testing.T) {
	r := described(t)
	store, err := oci.NewFromTar(t.Context(), filepath.Join(r.Folder, "operator.oci.tar"))
	must(t, err)
	_, text, err := oras.FetchBytes(t.Context(), store, "1.2.3", oras.DefaultFetchBytesOptions)
	must(t, err)
	var manifest ocispec.Manifest
	must(t, json.Unmarshal(text, &manifest))
	text, err = content.FetchAll(t.Context(), store, manifest.Config)
	must(t, err)
	var config ocispec.Image
	must(t, json.Unmarshal(text, &config))
	if bytes.Contains(text, []byte("container_config")) || bytes.Contains(text, []byte("FROM ")) {
		t.Errorf("what differs from build to build is left: %s", text)
	}
	if config.Architecture != "amd64" || config.OS != "linux" || config.Config.Entrypoint[0] != "/bin/x" || len(config.History) != 2 || !config.History[1].EmptyLayer {
		t.Errorf("%+v", config)
	}
	if !config.Created.Equal(r.Time) || !config.History[0].Created.Equal(r.Time) || manifest.Annotations[ocispec.AnnotationCreated] != r.Time.UTC().Format(time.RFC3339) {
		t.Errorf("created at %v and %v, %v", config.Created, config.History[0].Created, manifest.Annotations)
	}
	if env := config.Config.Env; !slices.Contains(env, "PATH=/bin") || !slices.Contains(env, "SPATE_VERSION=1.2.3") || len(env) != 2 {
		t.Errorf("the environment is %q", env)
	}
	for key, want := range map[string]string{ocispec.AnnotationVersion: "1.2.3", ocispec.AnnotationRevision: r.Commit, ocispec.AnnotationTitle: "spate-operator"} {
		if manifest.Annotations[key] != want || config.Config.Labels[key] != want {
			t.Errorf("%s: annotation %q, label %q", key, manifest.Annotations[key], config.Config.Labels[key])
		}
	}
	layer, err := content.FetchAll(t.Context(), store, manifest.Layers[0])
	must(t, err)
	if manifest.Layers[0].MediaType != ocispec.MediaTypeImageLayerGzip || len(manifest.Layers) != 1 {
		t.Errorf("%+v", manifest.Layers)
	}
	uncompressed, err := gzip.NewReader(bytes.NewReader(layer))
	must(t, err)
	plain, err := io.ReadAll(uncompressed)
	must(t, err)
	if got := config.RootFS.DiffIDs[0].Encoded(); got != hexDigest(plain) {
		t.Errorf("the layer has the digest %s without compression, not %s", hexDigest(plain), got)
	}
}

// Helm's own client pulls the chart of a registry that has nothing else than the archive's blobs.
func TestHelmPullsTheChartOfTheArchive(t *testing.T) {
	helm := os.Getenv("HELM")
	if helm == "" {
		t.Fatal("HELM, the path of helm, is not set: run `make operator-test`, which builds it")
	}
	r := described(t)
	registry := httptest.NewServer(registryOf(t, filepath.Join(r.Folder, chartName), "charts/spate"))
	defer registry.Close()
	folder := t.TempDir()
	command := exec.CommandContext(t.Context(), helm, "pull", "oci://"+strings.TrimPrefix(registry.URL, "http://")+"/charts/spate", "--version", "1.2.3", "--plain-http", "--destination", folder)
	command.Env = append(os.Environ(), "HELM_CACHE_HOME="+filepath.Join(folder, "cache"), "HELM_CONFIG_HOME="+filepath.Join(folder, "config"), "HELM_DATA_HOME="+filepath.Join(folder, "data"))
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pulled, err := os.ReadFile(filepath.Join(folder, chartFile("1.2.3")))
	must(t, err)
	packaged, err := os.ReadFile(filepath.Join(r.Folder, chartFile("1.2.3")))
	must(t, err)
	if !bytes.Equal(pulled, packaged) {
		t.Error("another chart was pulled")
	}
	l, err := openLayout(filepath.Join(r.Folder, chartName))
	must(t, err)
	defer l.Close()
	for key, want := range map[string]string{
		ocispec.AnnotationTitle: "spate", ocispec.AnnotationVersion: "1.2.3", ocispec.AnnotationAuthors: "A, B", ocispec.AnnotationURL: "https://spate.dev",
		"artifacthub.io/license": "Apache-2.0",
	} {
		if got := l.manifest.Annotations[key]; got != want {
			t.Errorf("annotation %s is %q, not %q", key, got, want)
		}
	}
}

func TestAChartOfAnotherVersionIsRefused(t *testing.T) {
	r := described(t)
	must(t, os.Rename(filepath.Join(r.Folder, chartFile("1.2.3")), filepath.Join(r.Folder, chartFile("1.2.4"))))
	r.Version = "1.2.4"
	if err := r.chart(t.Context()); err == nil || !strings.Contains(err.Error(), "has version 1.2.3") {
		t.Errorf("%v", err)
	}
}

// registryOf serves a layout's manifest and blobs as a registry does (OCI distribution 1.1), for reading.
func registryOf(t *testing.T, archive, name string) http.Handler {
	t.Helper()
	l, err := openLayout(archive)
	must(t, err)
	t.Cleanup(func() { must(t, l.Close()) })
	return http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		rest, ok := strings.CutPrefix(request.URL.Path, "/v2/"+name+"/")
		kind, reference, _ := strings.Cut(rest, "/")
		if kind == "manifests" && reference == l.root.Annotations[ocispec.AnnotationRefName] {
			reference = l.root.Digest.String()
		}
		blob := l.blobs["blobs/"+strings.Replace(reference, ":", "/", 1)]
		if !ok || blob == nil {
			http.NotFound(w, request)
			return
		}
		w.Header().Set("Docker-Content-Digest", reference)
		w.Header().Set("Content-Type", map[string]string{"manifests": l.root.MediaType, "blobs": "application/octet-stream"}[kind])
		w.Header().Set("Content-Length", strconv.FormatInt(blob.Size(), 10))
		if request.Method != http.MethodHead {
			_, _ = io.Copy(w, io.NewSectionReader(blob, 0, blob.Size())) // a client that goes away fails by itself
		}
	})
}
