// SPDX-License-Identifier: Apache-2.0

package archived

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/plugintest"
)

func TestTheRunOfAnArchive(t *testing.T) {
	run := &spatev1.TrafficRun{}
	run.Namespace, run.Name, run.UID = "tests", "imix-1", "00000000-0000-4000-8000-000000000001"
	root := t.TempDir()
	if err := archive.Save(t.Context(), archive.Directory(root), run, nil); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(root, filepath.FromSlash(archive.Folder(run)))
	file := filepath.Join(folder, archive.RunFile)
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, args, want string }{
		{"s3://results/", "--endpoint s3.example", "the endpoint must be a URL such as https://"},
		{"s3:///results", "imix-1", `"s3:///results" is no location in a bucket: must be s3://BUCKET or s3://BUCKET/PREFIX`},
		{root, "--endpoint https://s3.example", "--endpoint has no effect: it is for a bucket"},
		{root, "--force-path-style=false", "--force-path-style has no effect: it is for a bucket"},
		{"s3://results", "--force-path-style=false --endpoint https://192.0.2.1:9000", "without path style the endpoint must have a host name"},
		{root, "imix-1 -n tests", ""},
		{folder, "", ""},
		{folder, "imix-1", ""},
		{root, "imix-1 -n lab", `the archive has no run "imix-1" of namespace lab`},
		{root, "imix-2 -n tests", `the archive has no run "imix-2"`},
		{root, "", "it is not the folder of one run: name a RUN"},
		{folder, "imix-2", "it is the folder of run imix-1"},
		{file, "imix-1", "must be the folder of an archive, or of a run in one"},
		{filepath.Join(root, "none"), "imix-1", "no such file or directory"},
	} {
		var flags cluster.Flags
		var source Source
		found := ""
		command := &cobra.Command{Use: "read", RunE: func(command *cobra.Command, args []string) error {
			read, _, err := source.Read(command.Context(), &flags, args)
			if err == nil {
				found = read.Name
			}
			return err
		}}
		flags.Add(command)
		source.Add(command, "where it is")
		other := source.AddOther(command, "other-from", "where the other is")
		if other.IsSet() {
			t.Error("no flag asks for another run")
		}
		_, _, err := plugintest.Run("", append([]string{"read", "--kubeconfig", os.DevNull, "--from", c.from}, strings.Fields(c.args)...), command)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || err == nil && found != "imix-1" {
			t.Errorf("%s %s: %q, %v", c.from, c.args, found, err)
		}
	}
}
