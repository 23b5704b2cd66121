// SPDX-License-Identifier: Apache-2.0

package live

// This file answers: may a client read, and until when?

import (
	"context"
	"crypto/subtle"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/live/tunnel"
)

const (
	// checkEvery is the interval at which a reader's object is checked.
	checkEvery = 2 * time.Second
	// touchEvery is the interval at which the object is marked as read.
	touchEvery = time.Minute
	// stallLimit is how long a reader may take no data while there is some.
	stallLimit = 5 * time.Minute
)

// session is one reader's stream.
type session struct {
	object spatev1.LiveReader
	// allowed returns why the reader may not read. It is nil for one that may while its object exists.
	allowed func(context.Context) error
	// sending is when the response that the reader has not taken yet was sent, in nanoseconds since the epoch; 0 if
	// there is none.
	sending atomic.Int64
}

// begin admits a reader by the key in an object, which begin gets from the API server, if it is allowed (nil: any) and one of the places is free. The
// context is canceled with a status as its cause when the session must end.
func (s *Server) begin(ctx context.Context, key client.ObjectKey, object spatev1.LiveReader, seats *places, allowed func(context.Context) error) (context.Context, *session, func(), error) {
	err := s.Fresh.Get(ctx, key, object)
	if client.IgnoreNotFound(err) != nil {
		return nil, nil, nil, status.Errorf(codes.Unavailable, "the API server does not answer: %v", err)
	}
	if err != nil || !holds(ctx, *object.Key()) {
		return nil, nil, nil, status.Errorf(codes.PermissionDenied, "there is no object %s with this reader's key in spec.readerKey", key)
	}
	if allowed != nil {
		if err := allowed(ctx); err != nil {
			return nil, nil, nil, err
		}
	}
	leave, err := seats.take(key.Namespace)
	if err != nil {
		return nil, nil, nil, err
	}
	over := s.keep(ctx)
	ctx, cancel := context.WithCancelCause(ctx)
	held := &session{object: object, allowed: allowed}
	s.touch(ctx, object)
	go s.supervise(ctx, cancel, held)
	return ctx, held, func() { cancel(nil); over(); leave() }, nil
}

// keep protects the caller's connection while it reads.
func (s *Server) keep(ctx context.Context) (over func()) {
	caller, ok := peer.FromContext(ctx)
	if !ok || s.tunnels == nil {
		return func() {}
	}
	return s.tunnels.Keep(caller.Addr)
}

// holds reports whether the caller has proven that it has the private key.
func holds(ctx context.Context, key spatev1.ReaderKey) bool {
	caller, ok := peer.FromContext(ctx)
	if !ok {
		return false
	}
	shown, ok := caller.AuthInfo.(credentials.TLSInfo)
	if !ok || len(shown.State.PeerCertificates) == 0 {
		return false
	}
	return subtle.ConstantTimeCompare([]byte(tunnel.KeyOf(shown.State.PeerCertificates[0])), []byte(key)) == 1
}

// supervise ends a session whose object is deleted, that is not allowed any more, or whose reader takes no data. It marks the objects of the others as read.
func (s *Server) supervise(ctx context.Context, end context.CancelCauseFunc, held *session) {
	looks := time.NewTicker(checkEvery)
	defer looks.Stop()
	touched := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-looks.C:
		}
		if sent := held.sending.Load(); sent != 0 && time.Since(time.Unix(0, sent)) > stallLimit {
			end(status.Errorf(codes.DeadlineExceeded, "the reader received no data for %s", stallLimit))
			return
		}
		if s.gone(ctx, held.object) {
			end(status.Error(codes.Aborted, "the reader's object was deleted"))
			return
		}
		if held.allowed != nil {
			if err := held.allowed(ctx); err != nil && status.Code(err) != codes.Unavailable {
				end(err)
				return
			}
		}
		if time.Since(touched) >= touchEvery {
			touched = time.Now()
			s.touch(ctx, held.object)
		}
	}
}

// gone checks the cache first, and then the API server, because the cache may be behind.
func (s *Server) gone(ctx context.Context, object spatev1.LiveReader) bool {
	for _, reader := range []client.Reader{s.Client, s.Fresh} {
		found := object.DeepCopyObject().(spatev1.LiveReader)
		err := reader.Get(ctx, client.ObjectKeyFromObject(object), found)
		if err == nil && found.GetUID() == object.GetUID() && found.GetDeletionTimestamp() == nil || err != nil && !apierrors.IsNotFound(err) {
			return false
		}
	}
	return true
}

// touch marks an object as read, so that it is not deleted.
func (s *Server) touch(ctx context.Context, object spatev1.LiveReader) {
	now := object.DeepCopyObject().(spatev1.LiveReader)
	at := metav1.Now()
	now.Live().LastReadTime = &at
	if err := s.Client.Status().Patch(ctx, now, client.MergeFrom(object)); client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
		log.FromContext(ctx).Error(err, "status.lastReadTime could not be written", "object", client.ObjectKeyFromObject(object))
	}
}
