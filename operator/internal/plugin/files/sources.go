// SPDX-License-Identifier: Apache-2.0

package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"spate.dev/operator/internal/manifest"
)

const (
	// mostBytes is the size of what is read from a URL: more than a cluster stores of one object, and less than would fill a machine.
	mostBytes = 64 << 20
	// urlTimeout bounds a download.
	urlTimeout = 30 * time.Second
)

// extensions are those of the files of a folder that are read, as by kubectl.
var extensions = []string{".json", ".yaml", ".yml"}

// Sources are where objects are read from, besides a command's arguments.
type Sources struct {
	filenames []string
	recursive bool
	kustomize string
}

// content is what one source has.
type content struct {
	name string
	data []byte
}

// Add adds the flags, with kubectl's names.
func (s *Sources) Add(c *cobra.Command) {
	c.Flags().StringSliceVarP(&s.filenames, "filename", "f", nil, "file, folder or URL to read, like FILE; - is standard input")
	c.Flags().BoolVarP(&s.recursive, "recursive", "R", false, "read the subfolders of folders, too")
	c.Flags().StringVarP(&s.kustomize, "kustomize", "k", "", "folder with a kustomization to build and read")
}

// IsEmpty reports whether the flags name no source.
func (s *Sources) IsEmpty() bool { return len(s.filenames) == 0 && s.kustomize == "" }

// read reads the arguments, then what the flags name.
func (s *Sources) read(c *cobra.Command, names []string) ([]content, error) {
	var all []content
	for _, name := range slices.Concat(names, s.filenames) {
		contents, err := s.readOne(c, name)
		if err != nil {
			return nil, err
		}
		all = append(all, contents...)
	}
	if s.kustomize != "" {
		built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), s.kustomize)
		if err != nil {
			return nil, fmt.Errorf("kustomization %s: %w", s.kustomize, err)
		}
		data, err := built.AsYaml()
		if err != nil {
			return nil, fmt.Errorf("kustomization %s: %w", s.kustomize, err)
		}
		all = append(all, content{name: "kustomization " + s.kustomize, data: data})
	}
	return all, nil
}

// into has a reader read all sources, and returns what it has then.
func (s *Sources) into(reader *manifest.Reader, c *cobra.Command, names []string) (*manifest.Set, []manifest.Problem, error) {
	contents, err := s.read(c, names)
	if err != nil {
		return nil, nil, err
	}
	for _, content := range contents {
		reader.Read(content.name, content.data)
	}
	set, problems := reader.Done()
	return set, problems, nil
}

// Set returns all objects by their kinds, and the problems of those that are omitted because they are not valid.
func (s *Sources) Set(c *cobra.Command, names []string) (*manifest.Set, []manifest.Problem, error) {
	return s.into(&manifest.Reader{}, c, names)
}

// Args accepts the arguments of a command that reads files: any number, and none only if flags name some.
func (s *Sources) Args(_ *cobra.Command, names []string) error {
	if len(names) == 0 && s.IsEmpty() {
		return errors.New("no files: name at least one FILE, - for standard input, or -k FOLDER")
	}
	return nil
}

// Objects returns all objects as they are written, in their order, and the problems of those that are not valid by the rules of their kinds. Objects of
// other APIs are among them, and are not validated.
func (s *Sources) Objects(c *cobra.Command, names []string) (objects []*unstructured.Unstructured, problems []manifest.Problem, err error) {
	reader := &manifest.Reader{Written: func(object *unstructured.Unstructured) { objects = append(objects, object) }}
	_, problems, err = s.into(reader, c, names)
	return objects, problems, err
}

func (s *Sources) readOne(c *cobra.Command, name string) ([]content, error) {
	if name != "-" && !isURL(name) {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if info.IsDir() {
			return s.readFolder(name)
		}
	}
	data, err := ReadFile(c, name)
	if name == "-" {
		name = "standard input"
	}
	return []content{{name: name, data: data}}, err
}

// readFolder reads the files of a folder in the order of their names. Without one it is an error: a wrong folder should not look like a valid one.
func (s *Sources) readFolder(folder string) ([]content, error) {
	var all []content
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != folder && !s.recursive:
			return fs.SkipDir
		case entry.IsDir() || !slices.Contains(extensions, filepath.Ext(path)):
			return nil
		}
		data, err := os.ReadFile(path)
		all = append(all, content{name: path, data: data})
		return err
	})
	if err == nil && len(all) == 0 {
		err = fmt.Errorf("%s: no file of it ends with %s (-R also reads subfolders)", folder, strings.Join(extensions, ", "))
	}
	return all, err
}

// ReadFile returns the content of a file, of standard input for -, or of a URL.
func ReadFile(c *cobra.Command, name string) ([]byte, error) {
	switch {
	case name == "-":
		return io.ReadAll(c.InOrStdin())
	case isURL(name):
		return download(c.Context(), name)
	}
	return os.ReadFile(name)
}

// IsFile reports whether an argument that may also be the name of an object is a file: standard input, a URL, a path with a separator, or a name
// with an extension of files that are read.
func IsFile(argument string) bool {
	return argument == "-" || isURL(argument) || strings.ContainsAny(argument, `/`+string(filepath.Separator)) || slices.Contains(extensions, filepath.Ext(argument))
}

func isURL(name string) bool {
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}

func download(ctx context.Context, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, urlTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: the server answered %s", url, response.Status)
	}
	data, err := io.ReadAll(io.LimitReader(response.Body, mostBytes+1))
	if err == nil && len(data) > mostBytes {
		err = errors.New("is larger than 64 MiB")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", url, err)
	}
	return data, nil
}
