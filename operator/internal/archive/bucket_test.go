// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"spate.dev/operator/internal/archive/s3test"
	"spate.dev/operator/internal/runs/samples"
)

// bucketOf is below a prefix of a server's bucket.
func bucketOf(t *testing.T, server *s3test.Server) *Bucket {
	t.Helper()
	s3test.Setenv(t, s3test.AccessKey, s3test.SecretKey)
	b, err := NewBucket(t.Context(), BucketConfig{Location: "s3://" + s3test.Bucket + "/spate/lab/", Endpoint: server.Endpoint, CAFile: server.CAFile})
	must(t, err)
	return b
}

func TestARunIsArchivedInABucket(t *testing.T) {
	server := s3test.Start(t)
	b, series := bucketOf(t, server), samples.New()
	b.page = aws.Int32(2) // all lists have several pages
	series.Add(samples.Reading{At: time.Second, Result: run("n", "a", 5).Status.Result}, samples.Most)
	encoded, err := series.Encode()
	must(t, err)
	first, other := run("n", "imix-1", 1), run("m", "imix-1", 3)
	must(t, Save(t.Context(), b, first, encoded))
	must(t, Save(t.Context(), b, other, nil))
	again := run("n", "imix-1", 1)
	again.Status.Result.Tx = 7
	must(t, Save(t.Context(), b, again, encoded)) // as with another verdict
	folder, err := Find(t.Context(), b, "n", "imix-1")
	if err != nil || folder != Folder(first) {
		t.Fatal(folder, err)
	}
	got, kept, err := Load(t.Context(), b, folder)
	if err != nil || got.UID != first.UID || got.Status.Result.Tx != 7 || kept == nil || len(kept.Times) != 1 {
		t.Errorf("%+v, %+v, %v", got, kept, err)
	}
	if _, kept, err = Load(t.Context(), b, Folder(other)); err != nil || kept != nil {
		t.Errorf("%+v, %v", kept, err)
	}
	if _, err := os.Stat(server.File("spate/lab/" + folder + "/" + RunFile)); err != nil {
		t.Error(err)
	}
	if _, err := Find(t.Context(), b, "n", "imix"); err == nil || err.Error() != `the archive has no run "imix" of namespace n` {
		t.Error(err)
	}

	// The folder of the run is a place, too.
	one, err := NewBucket(t.Context(), BucketConfig{Location: "s3://" + s3test.Bucket + "/spate/lab/" + folder, Endpoint: server.Endpoint})
	must(t, err)
	if got, kept, err := Load(t.Context(), one, ""); err != nil || got.UID != first.UID || kept == nil {
		t.Errorf("%+v, %+v, %v", got, kept, err)
	}
	// What else is in the bucket is not seen.
	must(t, os.MkdirAll(filepath.Dir(server.File("other/n/x")), 0o700))
	must(t, os.WriteFile(server.File("other/n/x"), nil, 0o600))
	if got := names(t, b); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

func TestRunsOfABucketAreKeptByAgeAndNumber(t *testing.T) {
	server := s3test.Start(t)
	b, now := bucketOf(t, server), time.Now()
	b.page = aws.Int32(3)
	for i := range 5 { // r4 is four hours old
		r := run("n", fmt.Sprint("r", i), i)
		must(t, Save(t.Context(), b, r, []byte("samples")))
		files, err := filepath.Glob(server.File("spate/lab/" + Folder(r) + "/*"))
		must(t, err)
		for _, file := range files {
			at := now.Add(-time.Duration(i) * time.Hour)
			must(t, os.Chtimes(file, at, at))
		}
	}
	if deleted, err := (Retention{For: 210 * time.Minute, Runs: 3}).Apply(t.Context(), b, now); err != nil || deleted != 2 {
		t.Errorf("%d, %v", deleted, err)
	}
	if got := names(t, b); !slices.Equal(got, []string{"n/r2", "n/r1", "n/r0"}) {
		t.Errorf("%v", got)
	}
	if files, err := b.List(t.Context(), ""); err != nil || len(files) != 6 {
		t.Errorf("%v, %v", files, err)
	}
}

// When a run ended makes no difference.
func TestARunOfABucketIsKeptSinceItWasWritten(t *testing.T) {
	server := s3test.Start(t)
	b, r, now := bucketOf(t, server), run("n", "r", 1), time.Now()
	r.Status.CompletionTime = &metav1.Time{Time: now.AddDate(-1, 0, 0)}
	written := func() { must(t, Save(t.Context(), b, r, nil)) }
	hoursPass := func() {
		at := now.Add(-2 * time.Hour)
		must(t, os.Chtimes(server.File("spate/lab/"+Folder(r)+"/"+RunFile), at, at))
	}
	for i, c := range []struct {
		then func()
		want int
	}{{written, 0}, {func() { hoursPass(); written() }, 0}, {hoursPass, 1}} {
		c.then()
		if deleted, err := (Retention{For: time.Hour}).Apply(t.Context(), b, now); err != nil || deleted != c.want {
			t.Errorf("%d: %d deleted, want %d: %v", i, deleted, c.want, err)
		}
	}
}

// Its age is not known.
func TestNothingIsDeletedOfAServerThatDoesNotSayWhenItWasWritten(t *testing.T) {
	r := run("n", "r", 1)
	b, _ := patientBucket(t, idleLimit, func(w http.ResponseWriter, request *http.Request) {
		if request.Method != http.MethodGet {
			t.Errorf("%s %s", request.Method, request.URL)
		}
		fmt.Fprintf(w, "<ListBucketResult><Contents><Key>spate/lab/%s/%s</Key></Contents></ListBucketResult>", Folder(r), RunFile)
	})
	if deleted, err := (Retention{For: time.Hour}).Apply(t.Context(), b, time.Now()); err == nil || deleted != 0 || !strings.Contains(err.Error(), "LastModified") {
		t.Errorf("%d deleted: %v", deleted, err)
	}
}

func TestAFileOfABucketIsReplacedWhole(t *testing.T) {
	b, failed := bucketOf(t, s3test.Start(t)), errors.New("not compressed")
	large := make([]byte, 2*partSize+partSize/2)
	_, _ = rand.NewChaCha8([32]byte{}).Read(large) // never fails
	put := func(content []byte, err error) error {
		return b.Put(t.Context(), "n/f", func(w io.Writer) error {
			_, wrong := io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{bytes.NewReader(content)}, make([]byte, 1<<20-1))
			return errors.Join(wrong, err)
		})
	}
	is := func(want []byte) {
		t.Helper()
		file, err := b.Open(t.Context(), "n/f")
		must(t, err)
		defer file.Close()
		if got, err := io.ReadAll(file); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes, want %d: %v", len(got), len(want), err)
		}
	}
	for _, content := range [][]byte{[]byte("first"), large, large[:partSize], large[:2*partSize], {}} {
		must(t, put(content, nil))
		is(content)
		if err := put(large[1:], failed); !errors.Is(err, failed) {
			t.Error(err)
		}
		is(content)
	}
	if left, err := b.client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &b.name}); err != nil || len(left.Uploads) > 0 {
		t.Errorf("parts are left: %+v, %v", left, err)
	}
	for _, name := range []string{"../f", "/f", "", "."} {
		if err := b.Put(t.Context(), name, func(io.Writer) error { return nil }); err == nil || !strings.Contains(err.Error(), "is no name of a file in the archive") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := b.Open(t.Context(), "n/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	must(t, b.Delete(t.Context(), "n/none"))
	must(t, b.Delete(t.Context(), "n/f"))
	if all, err := b.List(t.Context(), "n"); err != nil || len(all) > 0 {
		t.Errorf("%v, %v", all, err)
	}
}

func TestABucketIsInThePathOrInTheHostName(t *testing.T) {
	const host = "s3.test" // no name server knows it: connections to its port are led to the server
	server := s3test.Start(t, "--virtual-domain", host)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(server.Endpoint, "http://"))
	must(t, err)
	s3test.Setenv(t, s3test.AccessKey, s3test.SecretKey)
	for virtualHost, want := range map[bool]string{false: host + ":" + port, true: s3test.Bucket + "." + host + ":" + port} {
		b, err := NewBucket(t.Context(), BucketConfig{Location: "s3://" + s3test.Bucket + "/lab", Endpoint: "http://" + host + ":" + port, VirtualHost: virtualHost})
		must(t, err)
		var connected sync.Map // by address
		b.client = s3.New(b.client.Options(), func(o *s3.Options) {
			o.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(transport *http.Transport) {
				transport.Proxy = nil
				transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
					connected.Store(address, true)
					return (&net.Dialer{}).DialContext(ctx, network, "127.0.0.1:"+port)
				}
			})
		})
		r := run("n", fmt.Sprint("virtual-host-", virtualHost), 1)
		must(t, Save(t.Context(), b, r, nil))
		folder, err := Find(t.Context(), b, "n", r.Name)
		must(t, err)
		if got, _, err := Load(t.Context(), b, folder); err != nil || got.UID != r.UID {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := os.Stat(server.File("lab/" + folder + "/" + RunFile)); err != nil {
			t.Error(err)
		}
		must(t, b.Delete(t.Context(), folder+"/"+RunFile))
		if left := names(t, b); len(left) > 0 {
			t.Errorf("virtual host %t: %q are left", virtualHost, left)
		}
		connected.Range(func(address, _ any) bool {
			if address != want {
				t.Errorf("virtual host %t: connected to %s, want %s", virtualHost, address, want)
			}
			return true
		})
	}
	t.Setenv("AWS_ENDPOINT_URL", server.Endpoint)
	if _, err := NewBucket(t.Context(), BucketConfig{Location: "s3://" + s3test.Bucket, VirtualHost: true}); err == nil || !strings.Contains(err.Error(), "must have a host name") {
		t.Error(err)
	}
}

// All requests that fail say the same in plain words, and the same each time.
func TestAFailureOfABucketHasAReason(t *testing.T) {
	server, readOnly, secure := s3test.Start(t), s3test.Start(t, "--readonly"), s3test.StartTLS(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and answers nothing
	must(t, err)
	defer silent.Close()
	at := " at " + server.Endpoint + ": "
	for _, c := range []struct{ location, endpoint, ca, key, secret, want string }{
		{"s3://results", server.Endpoint, "", s3test.AccessKey, s3test.SecretKey, ""},
		{"s3://none", server.Endpoint, "", s3test.AccessKey, s3test.SecretKey, "bucket none" + at + "there is no such bucket"},
		{"s3://results", server.Endpoint, "", "OTHERKEY", s3test.SecretKey, "bucket results" + at + "access denied: the server does not know the access key"},
		{"s3://results", server.Endpoint, "", s3test.AccessKey, "other-word", "bucket results" + at + "access denied: the secret key is not that of the access key"},
		{"s3://results", server.Endpoint, "", "", "", "bucket results" + at + noCredentials},
		{"s3://results", readOnly.Endpoint, "", s3test.AccessKey, s3test.SecretKey, "access denied: the credentials do not allow to write files there"},
		{"s3://results", secure.Endpoint, secure.CAFile, s3test.AccessKey, s3test.SecretKey, ""},
		{"s3://results", secure.Endpoint, "", s3test.AccessKey, s3test.SecretKey, "the server's certificate is not trusted: x509: "},
		{"s3://results", "http://127.0.0.1:1", "", s3test.AccessKey, s3test.SecretKey, "bucket results at http://127.0.0.1:1: the server cannot be reached: connect: connection refused"},
		{"s3://results", "http://" + silent.Addr().String(), "", s3test.AccessKey, s3test.SecretKey, "the server did not answer in time"},
	} {
		t.Run(c.want, func(t *testing.T) {
			s3test.Setenv(t, c.key, c.secret)
			b, err := NewBucket(t.Context(), BucketConfig{Location: c.location, Endpoint: c.endpoint, CAFile: c.ca})
			must(t, err)
			var before string
			for range 2 {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				if strings.Contains(c.want, "in time") {
					ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
				}
				err = Save(ctx, b, run("n", "r", 1), nil)
				cancel()
				if c.want == "" {
					must(t, err)
					continue
				}
				if err == nil || !strings.Contains(err.Error(), c.want) || before != "" && err.Error() != before || c.secret != "" && strings.Contains(err.Error(), c.secret) {
					t.Errorf("%v, before it was %s", err, before)
				}
				before = fmt.Sprint(err)
			}
			if c.want == "" || c.endpoint == readOnly.Endpoint || c.endpoint == "http://"+silent.Addr().String() {
				return
			}
			for does, err := range map[string]error{"list": second(b.List(t.Context(), "")), "read": second(b.Open(t.Context(), "n/f")), "delete": b.Delete(t.Context(), "n/f")} {
				if fmt.Sprint(err) != before {
					t.Errorf("%s: %v, want %s", does, err, before)
				}
			}
		})
	}
	s3test.Setenv(t, s3test.AccessKey, s3test.SecretKey)
	if _, err := NewBucket(t.Context(), BucketConfig{Location: "s3://results"}); err == nil || !strings.Contains(err.Error(), "set it (AWS_REGION)") {
		t.Error(err)
	}
	if _, err := NewBucket(t.Context(), BucketConfig{Location: "s3://results", Region: "r", CAFile: "none.pem"}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func second[T any](_ T, err error) error { return err }

func TestABucketIsUsedAgainWhenItsServerIsBack(t *testing.T) {
	server := s3test.Start(t)
	b, r := bucketOf(t, server), run("n", "r", 1)
	server.Stop(t)
	if err := Save(t.Context(), b, r, nil); err == nil || !strings.Contains(err.Error(), "the server cannot be reached") {
		t.Error(err)
	}
	server.Restart(t)
	must(t, Save(t.Context(), b, r, nil))
	if got := names(t, b); !slices.Equal(got, []string{"n/r"}) {
		t.Errorf("%v", got)
	}
}

func TestARunThatIsDamagedInABucketIsAnError(t *testing.T) {
	server := s3test.Start(t)
	b, r := bucketOf(t, server), run("n", "r", 1)
	r.Annotations = map[string]string{"note": strings.Repeat("a text that is long enough ", 99)}
	must(t, Save(t.Context(), b, r, nil))
	name := Folder(r) + "/" + RunFile
	file := server.File("spate/lab/" + name)
	intact, err := os.ReadFile(file)
	must(t, err)
	garbled := bytes.Clone(intact)
	garbled[len(garbled)-8] ^= 1 // of the checksum
	var bomb bytes.Buffer
	packed := gzip.NewWriter(&bomb)
	_, err = io.Copy(packed, io.MultiReader(strings.NewReader(`{"kind":"`), io.LimitReader(spaces{}, 64<<20)))
	must(t, errors.Join(err, packed.Close()))
	for want, content := range map[string][]byte{
		"its end is missing":                     intact[:len(intact)/2],
		"gzip: invalid checksum":                 garbled,
		"gzip: invalid header":                   []byte("<html>no run at all</html>"),
		"it unpacks to more than 1048576 bytes":  bomb.Bytes(),
		"samples.json.gz cannot be read: gzip: ": nil,
	} {
		if content == nil { // the run is intact, its samples are not
			content = intact
			must(t, b.Put(t.Context(), Folder(r)+"/"+SamplesFile, func(w io.Writer) error { _, err := io.WriteString(w, "no samples at all"); return err }))
		} else {
			must(t, b.Delete(t.Context(), Folder(r)+"/"+SamplesFile))
		}
		must(t, os.WriteFile(file, content, 0o600))
		if _, _, err := load(t.Context(), b, Folder(r), 1<<20); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), " cannot be read: ") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// spaces are without end.
type spaces struct{}

func (spaces) Read(into []byte) (int, error) {
	for i := range into {
		into[i] = ' '
	}
	return len(into), nil
}
