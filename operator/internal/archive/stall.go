// SPDX-License-Identifier: Apache-2.0

package archive

// This file answers: when is a request canceled because no byte of it or of its answer is transferred?

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// idleLimit is the maximum time without a byte of a request or of its answer. While bytes are transferred, a request may take any time. The SDK's three
// attempts end within what the operator gives a run (2 min), so that its condition has this reason.
const idleLimit = 30 * time.Second

// stalledError is the cause of the cancellation of a request that stalled.
type stalledError struct{ limit time.Duration }

func (e *stalledError) Error() string {
	return fmt.Sprintf("nothing was sent or received for %s", e.limit)
}

// patientClient cancels requests that stall. The limits of http.Client and http.Transport are for whole requests, or end where an answer begins.
type patientClient struct {
	s3.HTTPClient
	limit time.Duration
}

// Do implements s3.HTTPClient.
func (c *patientClient) Do(request *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(request.Context())
	p := &patience{ctx: ctx, cancel: cancel, limit: c.limit}
	p.timer = time.AfterFunc(c.limit, func() { cancel(&stalledError{c.limit}) })
	request = request.WithContext(ctx)
	if request.ContentLength > 0 {
		request.Body = &sentBody{request.Body, p}
	}
	answer, err := c.HTTPClient.Do(request)
	p.timer.Stop()
	if err != nil {
		err = p.reason(err)
		cancel(nil)
		return answer, err
	}
	answer.Body = &receivedBody{answer.Body, p}
	return answer, nil
}

// patience is the idle timeout of one request. Its timer runs while the client waits for the server.
type patience struct {
	ctx    context.Context // of the request
	cancel context.CancelCauseFunc
	timer  *time.Timer
	limit  time.Duration
}

// reason returns a stalledError if the request was canceled by the timer, otherwise the error itself.
func (p *patience) reason(err error) error {
	var stalled *stalledError
	if err != nil && !errors.Is(err, io.EOF) && errors.As(context.Cause(p.ctx), &stalled) {
		return stalled
	}
	return err
}

// sentBody is the body of a request. The transport reads the next bytes when it has sent the last ones.
type sentBody struct {
	io.ReadCloser
	*patience
}

func (s *sentBody) Read(into []byte) (int, error) {
	s.timer.Reset(s.limit)
	return s.ReadCloser.Read(into)
}

// receivedBody is the body of an answer. The timer does not run between two reads.
type receivedBody struct {
	io.ReadCloser
	*patience
}

func (r *receivedBody) Read(into []byte) (int, error) {
	r.timer.Reset(r.limit)
	n, err := r.ReadCloser.Read(into)
	r.timer.Stop()
	return n, r.reason(err)
}

func (r *receivedBody) Close() error {
	defer r.cancel(nil)
	return r.ReadCloser.Close()
}
