// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: how do images and the chart become archives that registries take? As OCI image layouts in a tar, that are the same for the
// same content: `make images` leaves times of the build in layers and configurations, which are replaced by that of the commit.

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/oci"
	"sigs.k8s.io/yaml"
)

const (
	imageSuffix = ".oci.tar"
	chartName   = "chart" + imageSuffix
	// Media types of Helm's charts in registries (https://helm.sh/docs/topics/registries/#helm-chart-manifest).
	chartConfigType  = "application/vnd.cncf.helm.config.v1+json"
	chartContentType = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// versionVariable has the version, by which the programs of an image know it: an image of a release is the one that its tests ran, compiled without it.
const versionVariable = "SPATE_VERSION="

func isVersion(variable string) bool { return strings.HasPrefix(variable, versionVariable) }

// chartFile is the name of the chart's package.
func chartFile(version string) string { return "spate-" + version + ".tgz" }

// layoutArchive writes an archive of the OCI layout that fill stores into, with the manifest that it returns, tagged with the version.
func (r *Release) layoutArchive(ctx context.Context, name string, fill func(store *oci.Store, folder string) (ocispec.Descriptor, error)) error {
	folder, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	root, work := filepath.Join(folder, "layout"), filepath.Join(folder, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		return err
	}
	store, err := oci.NewWithContext(ctx, root)
	if err != nil {
		return err
	}
	manifest, err := fill(store, work)
	if err != nil {
		return err
	}
	if err := store.Tag(ctx, manifest, r.Version); err != nil {
		return err
	}
	entries, err := entriesOf(root)
	if err != nil {
		return err
	}
	return pack(filepath.Join(r.Folder, name), writeTar, entries, r.Time)
}

// image writes an image of a docker-archive, as `make images` leaves it, as NAME.oci.tar.
func (r *Release) image(ctx context.Context, name, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer file.Close()
	parts, err := sections(file)
	if err != nil {
		return err
	}
	var manifests []struct {
		Config string
		Layers []string
	}
	if err := decode(parts, "manifest.json", &manifests); err != nil {
		return err
	}
	if len(manifests) != 1 {
		return fmt.Errorf("%s has %d images", archive, len(manifests))
	}
	var config ocispec.Image
	if err := decode(parts, manifests[0].Config, &config); err != nil {
		return err
	}
	return r.layoutArchive(ctx, name+imageSuffix, func(store *oci.Store, work string) (ocispec.Descriptor, error) {
		var layers []ocispec.Descriptor
		config.RootFS.DiffIDs = nil
		for _, layer := range manifests[0].Layers {
			content := parts[path.Clean(layer)]
			if content == nil {
				return ocispec.Descriptor{}, fmt.Errorf("%s: no %s", archive, layer)
			}
			written, diffID, err := pushLayer(ctx, store, filepath.Join(work, "layer"), content, r.Time)
			if err != nil {
				return ocispec.Descriptor{}, err
			}
			layers = append(layers, written)
			config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, diffID)
		}
		annotations := r.annotations(name)
		r.date(&config, annotations)
		config.Config.Env = append(slices.DeleteFunc(config.Config.Env, isVersion), versionVariable+r.Version)
		return pushManifest(ctx, store, ocispec.MediaTypeImageConfig, config, layers, annotations)
	})
}

// annotations are those of an image, by OCI's names (https://specs.opencontainers.org/image-spec/annotations/).
func (r *Release) annotations(name string) map[string]string {
	return map[string]string{
		ocispec.AnnotationTitle: "spate-" + name, ocispec.AnnotationVersion: r.Version, ocispec.AnnotationRevision: r.Commit,
		ocispec.AnnotationCreated: r.created(), ocispec.AnnotationLicenses: "Apache-2.0", ocispec.AnnotationURL: homepage,
	}
}

func (r *Release) created() string { return r.Time.UTC().Format(time.RFC3339) }

// date replaces what a configuration says of the time and the steps of its build, and adds labels.
func (r *Release) date(config *ocispec.Image, labels map[string]string) {
	at := r.Time.UTC()
	config.Created = &at
	for i := range config.History {
		config.History[i].Created, config.History[i].Comment = &at, "" // the comment names the image of the step before, which has a time
	}
	if config.Config.Labels == nil {
		config.Config.Labels = map[string]string{}
	}
	maps.Copy(config.Config.Labels, labels)
}

// pushLayer stores a layer with one time for all its files, compressed by gzip, and returns its digest without compression, too. It is written to a file
// first: a store wants its digest before its content.
func pushLayer(ctx context.Context, store *oci.Store, name string, content io.Reader, at time.Time) (written ocispec.Descriptor, diffID digest.Digest, err error) {
	file, err := os.Create(name)
	if err != nil {
		return written, "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	whole, plain := digest.Canonical.Digester(), digest.Canonical.Digester()
	compressed := gzip.NewWriter(io.MultiWriter(file, whole.Hash()))
	if err := errors.Join(dateLayer(io.MultiWriter(compressed, plain.Hash()), content, at), compressed.Close()); err != nil {
		return written, "", err
	}
	size, err := file.Seek(0, io.SeekCurrent)
	if err != nil {
		return written, "", err
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return written, "", err
	}
	written = ocispec.Descriptor{MediaType: ocispec.MediaTypeImageLayerGzip, Digest: whole.Digest(), Size: size}
	return written, plain.Digest(), store.Push(ctx, written, file)
}

// dateLayer copies the tar of a layer, with one time for all its files, without names of users, and with no other extended header than extended
// attributes: others have times of files below a second.
func dateLayer(to io.Writer, from io.Reader, at time.Time) error {
	out := tar.NewWriter(to)
	for entries := tar.NewReader(from); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return out.Close()
		}
		if err != nil {
			return err
		}
		header.ModTime, header.AccessTime, header.ChangeTime = at, time.Time{}, time.Time{}
		header.Uname, header.Gname, header.Format = "", "", tar.FormatUnknown
		maps.DeleteFunc(header.PAXRecords, func(name, _ string) bool { return !strings.HasPrefix(name, "SCHILY.xattr.") })
		if err := out.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.Copy(out, entries); err != nil {
			return err
		}
	}
}

// pushManifest stores a configuration and the manifest of it and layers.
func pushManifest(ctx context.Context, store *oci.Store, configType string, config any, layers []ocispec.Descriptor, annotations map[string]string) (ocispec.Descriptor, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	pushed, err := oras.PushBytes(ctx, store, configType, text)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	return oras.PackManifest(ctx, store, oras.PackManifestVersion1_0, "", oras.PackManifestOptions{
		ConfigDescriptor: &pushed, Layers: layers, ManifestAnnotations: annotations,
	})
}

// chart writes the chart's package as the artifact that `helm push` makes of it.
func (r *Release) chart(ctx context.Context) error {
	path := filepath.Join(r.Folder, chartFile(r.Version))
	var metadata map[string]any
	err := unpack(path, func(name string, _ os.FileMode, content io.Reader) error {
		if name != "spate/Chart.yaml" {
			return nil
		}
		text, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		return yaml.Unmarshal(text, &metadata)
	})
	if err != nil {
		return err
	}
	if metadata["version"] != r.Version {
		return fmt.Errorf("%s: its Chart.yaml has version %v", path, metadata["version"])
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return r.layoutArchive(ctx, chartName, func(store *oci.Store, _ string) (ocispec.Descriptor, error) {
		layer, err := oras.PushBytes(ctx, store, chartContentType, content)
		if err != nil {
			return ocispec.Descriptor{}, err
		}
		return pushManifest(ctx, store, chartConfigType, metadata, []ocispec.Descriptor{layer}, r.chartAnnotations(metadata))
	})
}

// chartAnnotations are those that Helm makes of a chart's metadata: OCI's, which have its title, version and time, and its own.
func (r *Release) chartAnnotations(metadata map[string]any) map[string]string {
	annotations := map[string]string{}
	own, _ := metadata["annotations"].(map[string]any)
	for name, value := range own {
		annotations[name] = fmt.Sprint(value)
	}
	var authors []string
	maintainers, _ := metadata["maintainers"].([]any)
	for _, maintainer := range maintainers {
		if fields, ok := maintainer.(map[string]any); ok {
			authors = append(authors, fmt.Sprint(fields["name"]))
		}
	}
	maps.Copy(annotations, map[string]string{
		ocispec.AnnotationTitle: fmt.Sprint(metadata["name"]), ocispec.AnnotationVersion: r.Version, ocispec.AnnotationCreated: r.created(),
		ocispec.AnnotationDescription: fmt.Sprint(metadata["description"]), ocispec.AnnotationURL: fmt.Sprint(metadata["home"]),
		ocispec.AnnotationAuthors: strings.Join(authors, ", "),
	})
	return annotations
}

// verifyChart checks that the chart's artifact has the chart's package, and is what Helm takes for a chart.
func verifyChart(folder, version string) error {
	layout, err := openLayout(filepath.Join(folder, chartName))
	if err != nil {
		return err
	}
	defer layout.Close()
	is, err := digestOf(filepath.Join(folder, chartFile(version)))
	if err != nil {
		return err
	}
	var problems []error
	if layout.manifest.Config.MediaType != chartConfigType {
		problems = append(problems, fmt.Errorf("%s: its configuration is of type %s", chartName, layout.manifest.Config.MediaType))
	}
	layers := layout.manifest.Layers
	if len(layers) != 1 || layers[0].MediaType != chartContentType || layers[0].Digest.Encoded() != is {
		problems = append(problems, fmt.Errorf("%s does not have %s as its content", chartName, chartFile(version)))
	}
	if tag := layout.root.Annotations[ocispec.AnnotationRefName]; tag != version {
		problems = append(problems, fmt.Errorf("%s is tagged %q, not %q", chartName, tag, version))
	}
	return errors.Join(problems...)
}

// layout is an archive of an OCI image layout with one manifest.
type layout struct {
	io.Closer
	blobs    map[string]*io.SectionReader
	root     ocispec.Descriptor
	manifest ocispec.Manifest
}

func openLayout(archive string) (l *layout, err error) {
	file, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	l = &layout{Closer: file}
	if err := l.read(file); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", filepath.Base(archive), err), file.Close())
	}
	return l, nil
}

func (l *layout) read(file *os.File) (err error) {
	if l.blobs, err = sections(file); err != nil {
		return err
	}
	var index ocispec.Index
	if err := decode(l.blobs, ocispec.ImageIndexFile, &index); err != nil {
		return err
	}
	if len(index.Manifests) != 1 {
		return fmt.Errorf("%d images", len(index.Manifests))
	}
	l.root = index.Manifests[0]
	return decode(l.blobs, blobName(l.root.Digest), &l.manifest)
}

// blobName is the path of a blob in a layout.
func blobName(d digest.Digest) string {
	return path.Join(ocispec.ImageBlobsDir, strings.Replace(d.String(), ":", "/", 1))
}

// sections returns where the files of a tar are in it, by their names.
func sections(file *os.File) (map[string]*io.SectionReader, error) {
	found := map[string]*io.SectionReader{}
	for entries := tar.NewReader(file); ; {
		header, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err != nil {
			return nil, err
		}
		at, err := file.Seek(0, io.SeekCurrent)
		if err != nil {
			return nil, err
		}
		found[path.Clean(header.Name)] = io.NewSectionReader(file, at, header.Size)
	}
}

// decode reads a JSON file of a tar.
func decode(files map[string]*io.SectionReader, name string, into any) error {
	file := files[path.Clean(name)]
	if file == nil {
		return fmt.Errorf("no %s", name)
	}
	if err := json.NewDecoder(file).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
