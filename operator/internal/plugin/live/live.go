// SPDX-License-Identifier: Apache-2.0

// Package live answers: how does a user read from engines during a run? An object says what is to be read and names a key made for
// it; the operator serves the holder of the key, through the API server.
package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/live/tunnel"
	"spate.dev/operator/internal/plugin/cluster"
)

const (
	// answerLimit is how long the operator may take to report an endpoint.
	answerLimit = 30 * time.Second
	// answerInterval is the interval at which the object's status is polled.
	answerInterval = 100 * time.Millisecond
	// absenceLimit is how long the operator may be unreachable before a reader gives up.
	absenceLimit = 2 * time.Minute
	// farewell bounds the deletion of the object; the operator deletes objects that are left.
	farewell = 5 * time.Second
)

// Reader is a reader of live data.
type Reader struct {
	// Object says what is read, and by whom.
	Object spatev1.LiveReader
	// Calls go to the operator, which passes them on to engines.
	Calls  livev1.LiveClient
	dialer *tunnel.Dialer
	conn   *grpc.ClientConn
	store  kube.Client
}

// Open creates the object, with a key of its own, and waits until the operator reports an endpoint. A user who may not create it is
// referred to the ClusterRole role.
func Open(ctx context.Context, c *cluster.Connection, object spatev1.LiveReader, role string, progress io.Writer) (*Reader, error) {
	// The reader of the output may end first: writing fails then, and what was made is still removed.
	signal.Ignore(syscall.SIGPIPE)
	certificate, key, err := tunnel.NewKey()
	if err != nil {
		return nil, err
	}
	*object.Key() = key
	object.SetNamespace(c.Namespace)
	object.SetGenerateName("kubectl-")
	err = c.Client.Create(ctx, object)
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w; bind the ClusterRole %s in namespace %s", err, role, c.Namespace)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("%w; namespace %s does not exist, or Spate is not installed", err, c.Namespace)
	case err != nil:
		return nil, err
	}
	r := &Reader{Object: object, store: c.Client}
	if err := r.answered(ctx, progress); err != nil {
		r.Close()
		return nil, err
	}
	r.dialer = &tunnel.Dialer{Config: c.Config, Endpoint: *object.Live().Endpoint, Certificate: certificate}
	if r.conn, err = r.dialer.Client(); err != nil {
		r.Close()
		return nil, err
	}
	r.Calls = livev1.NewLiveClient(r.conn)
	return r, nil
}

// Close deletes the object, which ends all its streams.
func (r *Reader) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), farewell)
	defer cancel()
	_ = r.store.Delete(ctx, r.Object)
	if r.conn != nil {
		_ = r.conn.Close()
	}
}

// answered waits until the operator reports an endpoint.
func (r *Reader) answered(ctx context.Context, progress io.Writer) error {
	reported := ""
	for deadline := time.Now().Add(answerLimit); ; {
		ready := meta.FindStatusCondition(r.Object.Live().Conditions, spatev1.ConditionReady)
		switch {
		case r.Object.Live().Endpoint != nil:
			return nil
		case meta.IsStatusConditionTrue(r.Object.Live().Conditions, spatev1.ConditionStalled):
			return errors.New(byFlag(ready.Message))
		case ready != nil && ready.Message != reported: // it waits for something, so this waits, too
			reported, deadline = ready.Message, time.Now().Add(24*time.Hour)
			fmt.Fprintf(progress, "waiting: %s\n", reported)
		case time.Now().After(deadline):
			return fmt.Errorf("the operator has not answered in %s; see whether it runs (kubectl get deployment -A -l app.kubernetes.io/name=spate-operator) and serves readers (--live-bind-address)", answerLimit)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(answerInterval):
		}
		if err := r.store.Get(ctx, kube.ObjectKeyFromObject(r.Object), r.Object); err != nil {
			return err
		}
	}
}

// byFlag replaces the object's field in a message by the command's argument.
func byFlag(message string) string {
	for field, argument := range map[string]string{
		"spec.generatorRef: ": "", "spec.runRef: ": "", "spec.ports: ": "--port ", "spec.pods: ": "--pod ", "snap_length: ": "--snaplen: ",
		"filter: ": "--filter: ", "port: ": "--port ",
		"spec.port: ": "--port ", "spec.destination: ": "", "destination: ": "", "source: ": "--source: ",
	} {
		if rest, found := strings.CutPrefix(message, field); found {
			return argument + rest
		}
	}
	return message
}

// Follow takes a pod's responses until the stream ends, which is no error. While the operator is unreachable it waits
// for another replica, and says so: data in the meantime is lost.
func Follow[M any](ctx context.Context, r *Reader, progress io.Writer, open func(context.Context) (grpc.ServerStreamingClient[M], error), take func(*M) error) error {
	var absent time.Time // since when
	for {
		err := once(ctx, open, func(answer *M) error {
			if !absent.IsZero() {
				fmt.Fprintln(progress, "the operator is back")
				absent = time.Time{}
			}
			return take(answer)
		})
		switch {
		case errors.Is(err, io.EOF), hasEnough(ctx):
			return nil
		case status.Code(err) != codes.Unavailable:
			return explained(err)
		}
		refused := r.dialer.Failed()
		if apierrors.IsForbidden(refused) {
			e := r.Object.Live().Endpoint
			return fmt.Errorf("%w; bind the Role %s in namespace %s", refused, e.Service, e.Namespace)
		}
		if absent.IsZero() {
			absent = time.Now()
			fmt.Fprintf(progress, "the operator does not answer: waiting for it; what arrives until then is missed (%v)\n", cause(refused, err))
		}
		if time.Since(absent) > absenceLimit {
			return fmt.Errorf("the operator has not answered for %s: %w; see kubectl get endpointslices -n %s", absenceLimit, cause(refused, err), r.Object.Live().Endpoint.Namespace)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// hasEnough reports whether the reader canceled, which is no error.
func hasEnough(ctx context.Context) bool { return ctx.Err() != nil }

func cause(refused, err error) error {
	if refused != nil {
		return refused
	}
	return errors.New(status.Convert(err).Message())
}

func once[M any](ctx context.Context, open func(context.Context) (grpc.ServerStreamingClient[M], error), take func(*M) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := open(ctx)
	for err == nil {
		var answer *M
		if answer, err = stream.Recv(); err == nil {
			err = take(answer)
		}
	}
	return err
}

// explained returns the message of an engine or of the operator, with the flag in place of the field, if there is one.
func explained(err error) error {
	answer, ok := status.FromError(err)
	if !ok {
		return err // processing a response has failed
	}
	message := answer.Message()
	if where, rest, found := strings.Cut(message, ": "); found && strings.HasPrefix(where, "pod ") {
		return fmt.Errorf("%s: %s", where, byFlag(rest))
	}
	return errors.New(byFlag(message))
}

// Missed counts what engines omitted, over a reader's consecutive streams. Each stream reports its own total.
type Missed struct {
	// All is the number of packets or records omitted so far.
	All uint64
	// stream is the part of the current stream.
	stream uint64
}

// Opened starts another stream.
func (m *Missed) Opened() { m.stream = 0 }

// Report adds what the stream's total, sum, has grown by.
func (m *Missed) Report(sum uint64) {
	m.All += sum - m.stream
	m.stream = sum
}

// IsEnough reports whether the reader of the pipe has closed it, which is no error.
func IsEnough(err error) bool { return errors.Is(err, syscall.EPIPE) }
