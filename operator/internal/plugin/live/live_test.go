// SPDX-License-Identifier: Apache-2.0

package live

import (
	"bytes"
	"context"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/live/tunnel"
)

func TestRefusalsNameTheArgument(t *testing.T) {
	refused, err := status.New(codes.InvalidArgument, "pod lab-0: filter: from character 5 on: syntax error").WithDetails(&errdetails.BadRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for want, err := range map[string]error{
		"pod lab-0: --filter: from character 5 on: syntax error": refused.Err(),
		"it was deleted": status.Error(codes.Aborted, "it was deleted"),
		"broken pipe":    syscall.EPIPE,
	} {
		if got := explained(err); got.Error() != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if !IsEnough(explained(syscall.EPIPE)) {
		t.Error("a reader's end is an error")
	}
	if got := byFlag(`spec.ports: "x" must be a port`); got != `--port "x" must be a port` {
		t.Errorf("got %q", got)
	}
}

// answers is a stream of responses, and how it ends.
type answers struct {
	grpc.ClientStream
	left int
	end  error
}

func (a *answers) Recv() (*livev1.CaptureResponse, error) {
	if a.left == 0 {
		return nil, a.end
	}
	a.left--
	return &livev1.CaptureResponse{}, nil
}

func TestAReaderWaitsForAnOperatorThatWentAway(t *testing.T) {
	away := status.Error(codes.Unavailable, "transport is closing")
	streams := []*answers{{left: 2, end: away}, {end: away}, {left: 1, end: io.EOF}}
	taken := 0
	var said bytes.Buffer
	r := &Reader{Object: &spatev1.TrafficCapture{}, dialer: &tunnel.Dialer{}}
	err := Follow(t.Context(), r, &said, func(context.Context) (grpc.ServerStreamingClient[livev1.CaptureResponse], error) {
		next := streams[0]
		streams = streams[1:]
		return next, nil
	}, func(*livev1.CaptureResponse) error { taken++; return nil })
	if err != nil || taken != 3 || strings.Count(said.String(), "the operator does not answer") != 1 || !strings.Contains(said.String(), "the operator is back") {
		t.Errorf("%v, %d, %q", err, taken, said.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	if err := Follow(ctx, r, &said, func(context.Context) (grpc.ServerStreamingClient[livev1.CaptureResponse], error) { return nil, away }, nil); err != nil {
		t.Errorf("who has enough gets %v", err)
	}
}
