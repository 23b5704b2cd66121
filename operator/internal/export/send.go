// SPDX-License-Identifier: Apache-2.0

package export

// This file answers: how are samples sent, and what becomes of a failure?

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	promconfig "github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/runs/samples"
)

// Protocol by which samples are sent.
type Protocol string

// The protocols.
const (
	RemoteWrite Protocol = "remote write"
	OTLP        Protocol = "OTLP"
)

// Target is where samples are sent.
type Target struct {
	Protocol Protocol
	// URL is the complete one of the receiver, such as http://prometheus:9090/api/v1/write, or .../api/v1/otlp/v1/metrics.
	URL string
	// HTTPConfig is the path of a file with Prometheus' HTTP client configuration (`authorization`, `basic_auth`, `tls_config`, `http_headers`,
	// `oauth2`, `proxy_url`), whose relative paths are relative to the file; empty without one. It is read for each run.
	HTTPConfig string
	// Labels are added to all time series.
	Labels map[string]string
}

const (
	// mostPoints is the maximum number of samples of a request: about 100 KB, uncompressed.
	mostPoints = 5000
	// requestLimit bounds the time of a request.
	requestLimit = 10 * time.Second
	// mostAnswer bounds what is read of an answer.
	mostAnswer = 64 << 10
	// mostQuoted is how much of an answer is in an error.
	mostQuoted = 300
	// longestPause bounds what a receiver may ask for by Retry-After.
	longestPause = 30 * time.Second
)

// pauses are those between attempts to send a request.
var pauses = wait.Backoff{Duration: 250 * time.Millisecond, Factor: 2, Jitter: 0.2, Steps: 3}

// encoder makes a request's body of a batch, with its headers.
type encoder func([]Series) ([]byte, http.Header, error)

// RefusedError is the answer of a receiver that will not take these samples, whenever they are sent.
type RefusedError struct{ text string }

func (e *RefusedError) Error() string { return e.text }

// Check returns an error if the target is none.
func (t Target) Check() error {
	u, err := url.Parse(t.URL)
	switch {
	case err != nil:
		return errors.New("it is no URL") // url.Error has the text, in which a password may be
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("it must be a complete http or https URL")
	case u.User != nil:
		return errors.New("a user and a password do not belong into it: they are basic_auth in the file with the HTTP client's configuration")
	}
	return nil
}

// ParseLabels returns the labels of a list such as `cluster=lab,site=north`. Names are those that Prometheus has in every version.
func ParseLabels(list string) (map[string]string, error) {
	labels := map[string]string{}
	if list == "" {
		return labels, nil
	}
	for item := range strings.SplitSeq(list, ",") {
		name, value, found := strings.Cut(item, "=")
		switch {
		case !found || !model.LegacyValidation.IsValidLabelName(name) || strings.HasPrefix(name, model.ReservedLabelPrefix):
			return nil, fmt.Errorf("%q must be NAME=VALUE, with a name of letters, digits and _ that does not begin with a digit or __", item)
		case value == "" || !utf8.ValidString(value):
			return nil, fmt.Errorf("%q has no value, or one that is not UTF-8", item)
		}
		labels[name] = value
	}
	return labels, nil
}

// place is the URL without its query, which may have a key.
func (t Target) place() string {
	u, err := url.Parse(t.URL)
	if err != nil {
		return "the receiver"
	}
	return u.Scheme + "://" + u.Host + u.Path
}

// Send sends the samples of a run, and returns their number. The error is a RefusedError if it is of no use to send them again.
func (t Target) Send(ctx context.Context, run *spatev1.TrafficRun, sampled *samples.Series) (sent int, err error) {
	if err := t.Check(); err != nil {
		return 0, fmt.Errorf("%s: the URL cannot be used: %w", t.Protocol, err)
	}
	client, err := t.client()
	if err != nil {
		return 0, fmt.Errorf("%s to %s: %w", t.Protocol, t.place(), err)
	}
	defer client.CloseIdleConnections()
	encode := encoder(func(batch []Series) ([]byte, http.Header, error) {
		body, headers := remoteWrite(batch)
		return body, headers, nil
	})
	if t.Protocol == OTLP && run.Status.TrafficStartTime != nil {
		encode = otlpRequest(run.Status.TrafficStartTime.Time)
	}
	for batch := range batches(Of(run, sampled, t.Labels), mostPoints) {
		body, headers, err := encode(batch)
		if err == nil {
			err = t.deliver(ctx, client, body, headers)
		}
		if err != nil {
			return sent, fmt.Errorf("%s to %s: %w", t.Protocol, t.place(), err)
		}
		for _, s := range batch {
			sent += len(s.Points)
		}
	}
	return sent, nil
}

// values are what errors of the YAML parser quote: they may be secrets.
var values = regexp.MustCompile("`[^`]*`")

func (t Target) client() (*http.Client, error) {
	config := promconfig.DefaultHTTPClientConfig
	if t.HTTPConfig != "" {
		read, _, err := promconfig.LoadHTTPConfigFile(t.HTTPConfig)
		if err != nil {
			return nil, fmt.Errorf("the HTTP client's configuration %s cannot be used: %s", t.HTTPConfig, oneLine(values.ReplaceAllString(err.Error(), "`...`")))
		}
		config = *read
	}
	client, err := promconfig.NewClientFromConfig(config, "spate-samples", promconfig.WithUserAgent("spate"))
	if err != nil {
		return nil, fmt.Errorf("the HTTP client's configuration %s cannot be used: %w", t.HTTPConfig, err)
	}
	client.Timeout = requestLimit
	return client, nil
}

// deliver sends a request, and again after a pause where another attempt may succeed.
func (t Target) deliver(ctx context.Context, client *http.Client, body []byte, headers http.Header) error {
	pause := pauses
	for {
		again, after, err := t.post(ctx, client, body, headers)
		if err == nil || !again || pause.Steps == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(pause.Step(), min(after, longestPause))):
		}
	}
}

// post sends a request once. again says whether another attempt may succeed, after is how long the receiver wants it to wait.
func (t Target) post(ctx context.Context, client *http.Client, body []byte, headers http.Header) (again bool, after time.Duration, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.URL, bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	request.Header = headers.Clone()
	response, err := client.Do(request)
	if err != nil {
		var of *url.Error
		if errors.As(err, &of) {
			if of.Timeout() {
				return ctx.Err() == nil, 0, fmt.Errorf("no answer in time (%s at most)", requestLimit)
			}
			err = of.Err // without the URL, which is said before
		}
		return ctx.Err() == nil, 0, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return ctx.Err() == nil, 0, fmt.Errorf("the answer cannot be read: %w", err)
	}
	if response.StatusCode/100 == 2 {
		if t.Protocol == OTLP {
			if err := rejected(answer); err != nil {
				return false, 0, &RefusedError{err.Error()}
			}
		}
		return false, 0, nil
	}
	text := fmt.Sprintf("HTTP status %s: %s", response.Status, oneLine(string(answer)))
	switch code := response.StatusCode; {
	case code == http.StatusTooManyRequests || code/100 == 5:
		seconds, _ := strconv.Atoi(response.Header.Get("Retry-After"))
		return true, time.Duration(seconds) * time.Second, errors.New(text)
	case code == http.StatusBadRequest || code == http.StatusRequestEntityTooLarge || code == http.StatusUnprocessableEntity:
		return false, 0, &RefusedError{text}
	}
	return false, 0, errors.New(text) // 401, 403, 404: until the configuration changes
}

// oneLine shortens what a receiver says.
func oneLine(text string) string {
	text = strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "")
	if len(text) > mostQuoted {
		text = strings.ToValidUTF8(text[:mostQuoted], "") + "..."
	}
	return text
}
