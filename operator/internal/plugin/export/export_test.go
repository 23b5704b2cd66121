// SPDX-License-Identifier: Apache-2.0

package export

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/archive"
	"spate.dev/operator/internal/archive/s3test"
	"spate.dev/operator/internal/plugin/plugintest"
	"spate.dev/operator/internal/runs/samples"
)

// archiveOf is the folder of an archive.
func archiveOf(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	archiveIn(t, archive.Directory(root))
	return root
}

// archiveIn archives a run that has samples, and one that has none.
func archiveIn(t *testing.T, store archive.Store) {
	t.Helper()
	run := plugintest.RunNamed("imix-1", "imix", time.Unix(1_800_000_000, 0))
	started := metav1.NewMicroTime(time.Unix(1_800_000_100, 0))
	run.UID, run.Status.TrafficStartTime = "00000000-0000-4000-8000-000000000001", &started
	series := samples.New()
	for i := range int64(3) {
		series.Add(samples.Reading{At: time.Duration(i) * time.Second, Result: &spatev1.RunResult{StreamCounters: spatev1.StreamCounters{Tx: 10 * i}}}, samples.Most)
	}
	encoded, err := series.Encode()
	if err != nil {
		t.Fatal(err)
	}
	other := plugintest.RunNamed("imix-2", "imix", time.Unix(1_800_000_000, 0))
	other.UID = "00000000-0000-4000-8000-000000000002"
	for _, err := range []error{archive.Save(t.Context(), store, run, encoded), archive.Save(t.Context(), store, other, nil)} {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func export(t *testing.T, arguments ...string) (output string, err error) {
	t.Helper()
	output, _, err = plugintest.Run("", append([]string{"export", "-n", "tests", "--kubeconfig", os.DevNull}, arguments...), NewCommand())
	return output, err
}

func TestSamplesArePrinted(t *testing.T) {
	root, file := archiveOf(t), filepath.Join(t.TempDir(), "imix.om")
	output, err := export(t, "imix-1", "--from", root, "--labels", "site=north")
	want := `spate_run_tx_packets_total{profile="imix",profile_namespace="tests",run="imix-1",site="north"} 20.0 1.800000102e+09` + "\n# EOF\n"
	if err != nil || !strings.HasSuffix(output, want) {
		t.Errorf("%s\n%v", output, err)
	}
	if said, err := export(t, "imix-1", "--from", root, "--labels", "site=north", "--output-file", file); err != nil || said != "" {
		t.Errorf("%s, %v", said, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != output {
		t.Errorf("%s, %v", text, err)
	}
}

// A real server, with credentials as people have them: in the environment, or in files of the AWS SDK.
func TestSamplesOfARunInABucketArePrinted(t *testing.T) {
	const place = "s3://" + s3test.Bucket + "/spate"
	server, folder := s3test.StartTLS(t), t.TempDir()
	s3test.Setenv(t, s3test.AccessKey, s3test.SecretKey)
	bucket, err := archive.NewBucket(t.Context(), archive.BucketConfig{Location: place, Endpoint: server.Endpoint, CAFile: server.CAFile})
	if err != nil {
		t.Fatal(err)
	}
	archiveIn(t, bucket)
	ofRun, err := archive.Find(t.Context(), bucket, "tests", "imix-1")
	if err != nil {
		t.Fatal(err)
	}
	want, err := export(t, "imix-1", "--from", archiveOf(t))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"credentials": "[lab]\naws_access_key_id = " + s3test.AccessKey + "\naws_secret_access_key = " + s3test.SecretKey + "\n",
		"config":      "[profile lab]\nregion = us-east-1\nendpoint_url = " + server.Endpoint + "\nca_bundle = " + server.CAFile + "\n",
	}
	for name, text := range files {
		files[name] = filepath.Join(folder, name)
		if err := os.WriteFile(files[name], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type environment map[string]string
	trusted := environment{"AWS_CA_BUNDLE": server.CAFile}
	profile := environment{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_PROFILE": "lab", "AWS_SHARED_CREDENTIALS_FILE": files["credentials"], "AWS_CONFIG_FILE": files["config"]}
	for name, c := range map[string]struct {
		environment environment
		arguments   []string
		problem     string
	}{
		"keys, and the endpoint as a flag":      {trusted, []string{"imix-1", "--from", place, "--endpoint", server.Endpoint}, ""},
		"the folder of the run":                 {trusted, []string{"--from", place + "/" + ofRun, "--endpoint", server.Endpoint}, ""},
		"keys and the endpoint":                 {environment{"AWS_CA_BUNDLE": server.CAFile, "AWS_ENDPOINT_URL": server.Endpoint}, []string{"imix-1", "--from", place}, ""},
		"a profile":                             {profile, []string{"imix-1", "--from", place}, ""},
		"no credentials":                        {environment{"AWS_CA_BUNDLE": server.CAFile, "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, []string{"imix-1", "--from", place, "--endpoint", server.Endpoint}, "there are no credentials (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile,"},
		"a wrong secret key":                    {environment{"AWS_CA_BUNDLE": server.CAFile, "AWS_SECRET_ACCESS_KEY": "wrong"}, []string{"imix-1", "--from", place, "--endpoint", server.Endpoint}, "access denied: the secret key is not that of the access key"},
		"a profile that does not exist":         {environment{"AWS_PROFILE": "none", "AWS_CONFIG_FILE": files["config"]}, []string{"imix-1", "--from", place}, "--from " + place + ": failed to get shared config profile, none"},
		"a certificate of an unknown authority": {nil, []string{"imix-1", "--from", place, "--endpoint", server.Endpoint}, "the server's certificate is not trusted: "},
		"neither endpoint nor region":           {trusted, []string{"imix-1", "--from", place}, "the region of bucket results is not known: set it (AWS_REGION), or the endpoint"},
	} {
		t.Run(name, func(t *testing.T) {
			for variable, value := range c.environment {
				t.Setenv(variable, value)
			}
			output, err := export(t, c.arguments...)
			if c.problem == "" && (err != nil || output != want) {
				t.Errorf("%v, printed\n%s\nwant\n%s", err, output, want)
			}
			if c.problem != "" && (err == nil || output != "" || !strings.Contains(err.Error(), c.problem)) {
				t.Errorf("%v, printed %q; want %s", err, output, c.problem)
			}
		})
	}
}

func TestSamplesAreSentByBothProtocols(t *testing.T) {
	var paths []string
	var status atomic.Int32
	status.Store(http.StatusOK)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.Path+" "+r.Header.Get("Authorization"))
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(server.Close)
	root, config := archiveOf(t), filepath.Join(t.TempDir(), "http.yaml")
	if err := os.WriteFile(config, []byte("authorization: {credentials: t0ken}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	arguments := []string{"imix-1", "--from", root, "--remote-write", server.URL + "/write", "--otlp", server.URL + "/v1/metrics", "--http-config", config}
	output, err := export(t, arguments...)
	if want := "3 samples of run imix-1 were accepted (remote write)\n3 samples of run imix-1 were accepted (OTLP)\n"; err != nil || output != want {
		t.Errorf("%s, %v", output, err)
	}
	if got := strings.Join(paths, ", "); got != "/write Bearer t0ken, /v1/metrics Bearer t0ken" {
		t.Error(got)
	}
	status.Store(http.StatusForbidden)
	if output, err := export(t, arguments...); err == nil || output != "" || !strings.Contains(err.Error(), "/write: HTTP status 403 Forbidden") {
		t.Errorf("%s, %v", output, err)
	}
}

func TestAWrongCommandLineIsNamed(t *testing.T) {
	root := archiveOf(t)
	for arguments, want := range map[string]string{
		"imix-1 -o json":                         "-o json: must be openmetrics",
		"imix-1 --timeout 0s":                    "--timeout 0s: must be more than 0",
		"imix-1 --labels site":                   `--labels: "site" must be NAME=VALUE`,
		"imix-1 --otlp collector:4318":           "--otlp: it must be a complete http or https URL",
		"imix-1 --http-config http.yaml":         "--http-config has no effect",
		"":                                       "name a RUN",
		"imix-2 --from " + root:                  "run imix-2 has no samples",
		"imix-1 --output-file x --otlp http://a": "if any flags in the group [output-file otlp] are set none of the others can be",
	} {
		if _, err := export(t, strings.Fields(arguments)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}
