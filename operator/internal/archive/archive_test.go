// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs/samples"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// uid is the UID with a number.
func uid(n int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)) }

// run has sent as many packets as its number.
func run(namespace, name string, n int) *spatev1.TrafficRun {
	r := &spatev1.TrafficRun{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: uid(n), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}}}
	r.Status.Phase, r.Status.Result = spatev1.RunComplete, &spatev1.RunResult{StreamCounters: spatev1.StreamCounters{Tx: int64(n)}}
	return r
}

// aged sets when a run was archived.
func aged(t *testing.T, d Directory, r *spatev1.TrafficRun, at time.Time) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(string(d), filepath.FromSlash(Folder(r)), "*"))
	must(t, err)
	for _, file := range files {
		must(t, os.Chtimes(file, at, at))
	}
}

func names(t *testing.T, s Store) (all []string) {
	t.Helper()
	runs, err := Runs(t.Context(), s, "")
	must(t, err)
	for _, r := range runs {
		all = append(all, r.Namespace+"/"+r.Name)
	}
	return all
}

func TestAnArchivedRunIsFoundByItsName(t *testing.T) {
	d, series := Directory(t.TempDir()), samples.New()
	series.Add(samples.Reading{At: time.Second, Result: run("n", "a", 5).Status.Result}, samples.Most)
	encoded, err := series.Encode()
	must(t, err)
	first, second, other := run("n", "imix-1", 1), run("n", "imix-1", 2), run("m", "imix-1", 3)
	must(t, Save(t.Context(), d, first, nil))
	aged(t, d, first, time.Now().Add(-time.Hour))
	must(t, Save(t.Context(), d, other, nil))
	must(t, Save(t.Context(), d, second, encoded))
	folder, err := Find(t.Context(), d, "n", "imix-1")
	if err != nil || folder != Folder(second) {
		t.Fatal(folder, err)
	}
	got, kept, err := Load(t.Context(), d, folder)
	if err != nil || got.UID != second.UID || got.Kind != "TrafficRun" || got.Status.Result.Tx != 2 || got.ManagedFields != nil || kept == nil || len(kept.Times) != 1 {
		t.Errorf("%+v, %+v, %v", got, kept, err)
	}
	if got, kept, err = Load(t.Context(), d, Folder(first)); err != nil || got.Status.Result.Tx != 1 || kept != nil {
		t.Errorf("%+v, %+v, %v", got, kept, err)
	}
	if len(second.ManagedFields) != 1 || second.Kind != "" {
		t.Error("the run itself was changed")
	}
	if _, err := Find(t.Context(), d, "n", "imix"); err == nil || err.Error() != `the archive has no run "imix" of namespace n` {
		t.Error(err)
	}
}

func TestRunsAreKeptByAgeAndNumber(t *testing.T) {
	now := time.Now()
	for _, c := range []struct {
		keep Retention
		want []string
	}{
		{Retention{}, []string{"n/r4", "m/r3", "n/r2", "n/r1", "n/r0"}},
		{Retention{For: 150 * time.Minute}, []string{"n/r2", "n/r1", "n/r0"}},
		{Retention{Runs: 2}, []string{"m/r3", "n/r1", "n/r0"}},
		{Retention{For: 90 * time.Minute, Runs: 1}, []string{"n/r0"}},
	} {
		d := Directory(t.TempDir())
		for i := range 5 { // r4 is four hours old
			namespace := "n"
			if i == 3 {
				namespace = "m"
			}
			r := run(namespace, fmt.Sprint("r", i), i)
			must(t, Save(t.Context(), d, r, []byte("samples")))
			aged(t, d, r, now.Add(-time.Duration(i)*time.Hour))
		}
		deleted, err := c.keep.Apply(t.Context(), d, now)
		if got := names(t, d); err != nil || deleted != 5-len(c.want) || !slices.Equal(got, c.want) {
			t.Errorf("%+v: %d deleted, %v are left, want %v: %v", c.keep, deleted, got, c.want, err)
		}
		if left, _ := filepath.Glob(filepath.Join(string(d), "*", "*")); len(left) != len(c.want) {
			t.Errorf("%+v: folders are left: %v", c.keep, left)
		}
	}
}

// What an operator that has ended left unfinished is neither a run nor kept for ever.
func TestARunThatIsNotWholeIsNone(t *testing.T) {
	d, r, now := Directory(t.TempDir()), run("n", "r", 1), time.Now()
	must(t, d.Put(t.Context(), Folder(r)+"/"+SamplesFile, func(w io.Writer) error { _, err := w.Write([]byte("samples")); return err }))
	if got := names(t, d); len(got) > 0 {
		t.Errorf("%v", got)
	}
	for _, c := range []struct {
		age  time.Duration
		want int
	}{{time.Hour, 0}, {25 * time.Hour, 1}} {
		if deleted, err := (Retention{Runs: 1}).Apply(t.Context(), d, now.Add(c.age)); err != nil || deleted != c.want {
			t.Errorf("after %s: %d deleted, want %d: %v", c.age, deleted, c.want, err)
		}
	}
	if files, err := d.List(t.Context(), ""); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}

// What a process that has ended left of a file is deleted with the run, or by itself if there is none.
func TestAnUnfinishedFileIsNotKeptForEver(t *testing.T) {
	d, now := Directory(t.TempDir()), time.Now()
	for i, age := range []time.Duration{time.Hour, 25 * time.Hour} { // runs that were never written whole
		r := run("n", fmt.Sprint("part-", i), i)
		must(t, os.MkdirAll(filepath.Join(string(d), Folder(r)), 0o755))
		must(t, os.WriteFile(filepath.Join(string(d), Folder(r), unfinished+"1"), nil, 0o600))
		aged(t, d, r, now.Add(-age))
	}
	whole := run("n", "whole", 3)
	must(t, Save(t.Context(), d, whole, nil))
	must(t, os.WriteFile(filepath.Join(string(d), Folder(whole), unfinished+"1"), nil, 0o600))
	aged(t, d, whole, now.Add(-2*time.Hour))
	if deleted, err := (Retention{For: time.Hour}).Apply(t.Context(), d, now); err != nil || deleted != 2 {
		t.Errorf("%d deleted: %v", deleted, err)
	}
	if left, _ := filepath.Glob(filepath.Join(string(d), "n", "*")); len(left) != 1 || !strings.Contains(left[0], "part-0") {
		t.Errorf("%v is left", left)
	}
}

// Volumes and buckets are shared: names of folders that end in a UID are not only those of runs.
func TestFilesOfOthersAreNotDeleted(t *testing.T) {
	d, r, now := Directory(t.TempDir()), run("n", "r", 1), time.Now()
	must(t, Save(t.Context(), d, r, []byte("samples")))
	others := []string{Folder(r) + "/notes.txt", "volumes/pvc-" + string(uid(2)) + "/data"}
	for _, name := range others {
		must(t, d.Put(t.Context(), name, func(io.Writer) error { return nil }))
	}
	if deleted, err := (Retention{For: time.Hour}).Apply(t.Context(), d, now.Add(48*time.Hour)); err != nil || deleted != 1 {
		t.Errorf("%d deleted: %v", deleted, err)
	}
	files, err := d.List(t.Context(), "")
	must(t, err)
	var left []string
	for _, file := range files {
		left = append(left, file.Name)
	}
	if slices.Sort(left); !slices.Equal(left, others) {
		t.Errorf("%v are left, want %v", left, others)
	}
}

// listed is a directory in which something happens after the first list.
type listed struct {
	Directory
	then func()
}

func (l *listed) List(ctx context.Context, folder string) ([]File, error) {
	files, err := l.Directory.List(ctx, folder)
	then := l.then
	l.then = func() {}
	then()
	return files, err
}

// As with another verdict, or when the operator starts again.
func TestARunThatIsWrittenAgainMeanwhileIsKept(t *testing.T) {
	d, r, now := Directory(t.TempDir()), run("n", "r", 1), time.Now()
	must(t, Save(t.Context(), d, r, nil))
	aged(t, d, r, now.Add(-2*time.Hour))
	s := &listed{d, func() { must(t, Save(t.Context(), d, r, nil)) }}
	if deleted, err := (Retention{For: time.Hour}).Apply(t.Context(), s, now); err != nil || deleted != 0 {
		t.Errorf("%d deleted: %v", deleted, err)
	}
	if got := names(t, d); !slices.Equal(got, []string{"n/r"}) {
		t.Errorf("%v", got)
	}
}

func TestAFileIsReplacedWhole(t *testing.T) {
	d, failed := Directory(t.TempDir()), errors.New("the disk is full")
	put := func(text string, err error) error {
		return d.Put(t.Context(), "n/f", func(w io.Writer) error { _, wrong := io.WriteString(w, text); return errors.Join(wrong, err) })
	}
	must(t, put("first", nil))
	if err := put("second", failed); !errors.Is(err, failed) {
		t.Error(err)
	}
	file, err := d.Open(t.Context(), "n/f")
	must(t, err)
	text, err := io.ReadAll(file)
	if must(t, file.Close()); err != nil || string(text) != "first" {
		t.Errorf("%q, %v", text, err)
	}
	if left, _ := filepath.Glob(filepath.Join(string(d), "n", unfinished+"*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	for _, name := range []string{"../f", "/f", ""} {
		if err := d.Put(t.Context(), name, func(io.Writer) error { return nil }); err == nil || !strings.Contains(err.Error(), "is no name of a file in the archive") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := d.Open(t.Context(), "n/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	must(t, d.Delete(t.Context(), "n/none"))
}
