// SPDX-License-Identifier: Apache-2.0

package files

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// folder creates files by their paths, and returns the folder that they are in.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// read reads what a command line names.
func read(t *testing.T, stdin string, args ...string) (names []string, texts []string, err error) {
	t.Helper()
	var flags Flags
	c := &cobra.Command{
		Use: "read", Args: flags.Args, SilenceUsage: true, SilenceErrors: true,
		RunE: func(c *cobra.Command, args []string) error {
			contents, err := flags.sources.read(c, args)
			for _, one := range contents {
				names = append(names, one.name)
				texts = append(texts, string(one.data))
			}
			return err
		},
	}
	flags.Add(c)
	c.SetIn(strings.NewReader(stdin))
	c.SetArgs(args)
	return names, texts, c.ExecuteContext(t.Context())
}

func TestFoldersAreReadAsKubectlReadsThem(t *testing.T) {
	root := folder(t, map[string]string{"b.yaml": "b", "a.json": "a", "c.yml": "c", "notes.md": "no", "deep/d.yaml": "d", "named.txt": "named"})
	for name, test := range map[string]struct {
		args []string
		want []string
	}{
		"a folder":               {[]string{"-f", root}, []string{"a", "b", "c"}},
		"with its subfolders":    {[]string{"-R", root}, []string{"a", "b", "c", "d"}},
		"a file of any name":     {[]string{"-f", filepath.Join(root, "named.txt")}, []string{"named"}},
		"arguments before flags": {[]string{"-f", filepath.Join(root, "b.yaml"), filepath.Join(root, "a.json"), "-"}, []string{"a", "stdin", "b"}},
		"several of one flag":    {[]string{"-f", filepath.Join(root, "b.yaml") + "," + filepath.Join(root, "a.json"), "-f", "-"}, []string{"b", "a", "stdin"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, texts, err := read(t, "stdin", test.args...)
			if err != nil || !slices.Equal(texts, test.want) {
				t.Errorf("read %q, %v; want %q", texts, err, test.want)
			}
		})
	}
}

func TestAKustomizationIsBuilt(t *testing.T) {
	root := folder(t, map[string]string{
		"base/kustomization.yaml": "resources: [map.yaml]\nnamespace: lab\n",
		"base/map.yaml":           "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\n",
	})
	names, texts, err := read(t, "", "-k", filepath.Join(root, "base"))
	if err != nil || len(texts) != 1 || !strings.Contains(texts[0], "namespace: lab") || !strings.HasPrefix(names[0], "kustomization ") {
		t.Errorf("%q %q %v", names, texts, err)
	}
}

func TestAURLIsRead(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/there":
			_, _ = w.Write([]byte("there"))
		case "/large":
			_, _ = w.Write(make([]byte, mostBytes+1))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	if _, texts, err := read(t, "", "-f", server.URL+"/there"); err != nil || !slices.Equal(texts, []string{"there"}) {
		t.Errorf("read %q, %v", texts, err)
	}
	for path, want := range map[string]string{"/away": "404", "/large": "larger than 64 MiB"} {
		if _, _, err := read(t, "", server.URL+path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", path, err, want)
		}
	}
}

func TestSourcesThatHaveNothingAreRefused(t *testing.T) {
	root := folder(t, map[string]string{"notes.md": "no", "deep/d.yaml": "d"})
	for want, args := range map[string][]string{
		"no files: name at least one FILE":                  {},
		"no file of it ends with .json, .yaml, .yml (-R":    {root},
		"no such file or directory":                         {filepath.Join(root, "away.yaml")},
		"kustomization " + root + ": unable to find one of": {"-k", root},
	} {
		if _, _, err := read(t, "", args...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", args, err, want)
		}
	}
}
