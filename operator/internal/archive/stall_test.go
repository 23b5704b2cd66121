// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"spate.dev/operator/internal/archive/s3test"
)

// patientBucket is below a prefix of a bucket of an HTTP server that is not an S3 server.
func patientBucket(t *testing.T, idle time.Duration, serve http.HandlerFunc) (b *Bucket, endpoint string) {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	s3test.Setenv(t, s3test.AccessKey, s3test.SecretKey)
	b, err := newBucket(t.Context(), BucketConfig{Location: "s3://results/spate/lab", Endpoint: server.URL}, idle)
	must(t, err)
	return b, server.URL
}

// The server begins to answer what is read, and takes connections but no bytes of what is written.
func TestARequestThatStallsIsGivenUp(t *testing.T) {
	const idle = 100 * time.Millisecond
	over := make(chan struct{})
	b, endpoint := patientBucket(t, idle, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, "<?xml")         // the client may be gone
			_ = http.NewResponseController(w).Flush() // as well
		}
		<-over
	})
	t.Cleanup(func() { close(over) }) // before the server is closed, which waits for its handlers
	r := run("n", "r", 1)
	file := "spate/lab/" + Folder(r) + "/" + RunFile
	put := func(ctx context.Context, size int) error {
		return b.Put(ctx, "n/f", func(w io.Writer) error { _, err := w.Write(make([]byte, size)); return err })
	}
	for name, c := range map[string]struct {
		asked string
		do    func(context.Context) error
	}{
		"a run is read":     {fmt.Sprintf("read %q", file), func(ctx context.Context) error { _, _, err := Load(ctx, b, Folder(r)); return err }},
		"runs are listed":   {`list "spate/lab/n/"`, func(ctx context.Context) error { return second(Runs(ctx, b, "n")) }},
		"a run is written":  {fmt.Sprintf("write %q", file), func(ctx context.Context) error { return Save(ctx, b, r, nil) }},
		"one large request": {`write "spate/lab/n/f"`, func(ctx context.Context) error { return put(ctx, partSize-1) }},
		"parts are written": {`write "spate/lab/n/f"`, func(ctx context.Context) error { return put(ctx, partSize) }},
		"a file is deleted": {`delete "spate/lab/n/f"`, func(ctx context.Context) error { return b.Delete(ctx, "n/f") }},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // instead of hanging, it fails by another reason
			defer cancel()
			want := "bucket results at " + endpoint + ": the server stalled when asked to " + c.asked + ": nothing was sent or received for 100ms: see whether "
			if err := c.do(ctx); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
}

// Neither a slow server nor a slow reader is a stall.
func TestAnObjectMayTakeAnyTimeWhileBytesFlow(t *testing.T) {
	const idle, pause, bytes = time.Second, 100 * time.Millisecond, 20
	b, _ := patientBucket(t, idle, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(bytes))
		for range bytes {
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			time.Sleep(pause)
		}
	})
	object, err := b.Open(t.Context(), "n/f")
	must(t, err)
	defer object.Close()
	_, err = io.ReadFull(object, make([]byte, 1))
	must(t, err)
	time.Sleep(idle + pause)
	if left, err := io.ReadAll(object); err != nil || len(left) != bytes-1 {
		t.Errorf("%q, %v", left, err)
	}
}
