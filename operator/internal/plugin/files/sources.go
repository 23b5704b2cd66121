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
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	// mostBytes is the size of what is read from a URL: more than a cluster stores of one object, and less than would fill a machine.
	mostBytes = 64 << 20
	// urlTimeout bounds a download.
	urlTimeout = 30 * time.Second
)

// extensions are those of the files of a folder that are read, as by kubectl.
var extensions = []string{".json", ".yaml", ".yml"}

// sources are where objects are read from, besides a command's arguments.
type sources struct {
	filenames []string
	recursive bool
	kustomize string
}

// content is what one source has.
type content struct {
	name string
	data []byte
}

// add adds the flags, with kubectl's names.
func (s *sources) add(c *cobra.Command) {
	c.Flags().StringSliceVarP(&s.filenames, "filename", "f", nil, "file, folder or URL to read, like FILE; - is standard input")
	c.Flags().BoolVarP(&s.recursive, "recursive", "R", false, "read the subfolders of folders, too")
	c.Flags().StringVarP(&s.kustomize, "kustomize", "k", "", "folder with a kustomization to build and read")
}

func (s *sources) isEmpty() bool { return len(s.filenames) == 0 && s.kustomize == "" }

// read reads the arguments, then what the flags name.
func (s *sources) read(c *cobra.Command, names []string) ([]content, error) {
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

func (s *sources) readOne(c *cobra.Command, name string) ([]content, error) {
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
func (s *sources) readFolder(folder string) ([]content, error) {
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
