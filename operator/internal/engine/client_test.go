// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/pki"
)

// scripted is an engine with scripted errors; the normal path is tested with real engines in operator/test.
type scripted struct {
	enginev1.UnimplementedEngineServer
	received bytes.Buffer
	largest  int
	digest   []byte

	// Of its clock.
	ahead     int64
	id        uint64
	tolerance uint32
	answered  int
}

func (s *scripted) GetInfo(context.Context, *enginev1.GetInfoRequest) (*enginev1.GetInfoResponse, error) {
	return &enginev1.GetInfoResponse{}, nil
}

func (s *scripted) ExchangeTimes(context.Context, *enginev1.ExchangeTimesRequest) (*enginev1.ExchangeTimesResponse, error) {
	stamp := func() int64 { return Now() + s.ahead }
	if s.answered++; s.answered > 10 {
		return nil, status.Error(codes.Unavailable, "enough")
	}
	return &enginev1.ExchangeTimesResponse{
		ReceiveNs: stamp(), TransmitNs: stamp(), WallOffsetNs: wallOffset() + int64(time.Hour), ClockId: s.id, TolerancePpb: s.tolerance,
	}, nil
}

func (s *scripted) Prepare(stream grpc.ClientStreamingServer[enginev1.PrepareRequest, enginev1.PrepareResponse]) error {
	for {
		request, err := stream.Recv()
		if err != nil {
			break
		}
		if header := request.GetHeader(); header != nil {
			s.digest = header.Digest
		}
		s.largest = max(s.largest, len(request.GetChunk()))
		s.received.Write(request.GetChunk())
	}
	st, err := status.New(codes.InvalidArgument, "the plan is wrong").WithDetails(&errdetails.BadRequest{
		FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "streams[3].packet.frame", Description: "is 10 bytes long: must be 60 at least"}},
	})
	if err != nil {
		return err
	}
	return st.Err()
}

func serve(t *testing.T, network, address string, options ...grpc.ServerOption) (*scripted, string) {
	t.Helper()
	listener, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	s, server := &scripted{}, grpc.NewServer(options...)
	enginev1.RegisterEngineServer(server, s)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	return s, listener.Addr().String()
}

func TestAPlanGoesInChunksAndViolationsComeBack(t *testing.T) {
	s, path := serve(t, "unix", filepath.Join(t.TempDir(), "engine"))
	pool := NewPool(nil)
	defer pool.Close()
	c, err := pool.Client(t.Context(), Target{Address: "unix:" + path})
	if err != nil {
		t.Fatal(err)
	}
	plan := bytes.Repeat([]byte("0123456789"), 300_000)
	_, err = c.Prepare(t.Context(), "run", plan[:1_234_567], plan[1_234_567:])
	var e *Error
	if !asError(err, &e) || e.Code != codes.InvalidArgument || e.Error() != "streams[3].packet.frame: is 10 bytes long: must be 60 at least" {
		t.Errorf("error %v", err)
	}
	if sum := sha256.Sum256(plan); !bytes.Equal(s.received.Bytes(), plan) || !bytes.Equal(s.digest, sum[:]) || s.largest > 1<<20 {
		t.Errorf("%d bytes in chunks of up to %d", s.received.Len(), s.largest)
	}
	if _, err := c.Start(t.Context(), "run", 1, nil); !asError(err, &e) || Unreachable(err) {
		t.Errorf("an engine that answers is not unreachable: %v", err)
	}
}

func TestAnEngineThatIsNotThereIsUnreachable(t *testing.T) {
	c, err := NewPool(nil).Client(t.Context(), Target{Address: "unix:" + filepath.Join(t.TempDir(), "nothing")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Info(t.Context()); !Unreachable(err) {
		t.Errorf("%v", err)
	}
}

// source returns credentials of an authority, which a test may replace.
type source struct{ authority *pki.Authority }

func (s *source) Credentials(_ context.Context, serverName string) (pki.Credentials, error) {
	data, _, err := s.authority.Client(nil, time.Now())
	if err != nil {
		return pki.Credentials{}, err
	}
	certificate, err := tls.X509KeyPair(data[pki.Certificate], data[pki.PrivateKey])
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(data[pki.TrustBundle])
	config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: serverName, RootCAs: roots, Certificates: []tls.Certificate{certificate}}
	return pki.Credentials{TLS: config, Version: sha256.Sum256(data[pki.TrustBundle])}, err
}

func TestAConnectionIsKeptUntilTheTrustBundleChanges(t *testing.T) {
	authority, err := pki.NewAuthority(pki.DefaultPolicy(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	data, _, err := authority.Server("g.ns.engine.spate.dev", nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.X509KeyPair(data[pki.Certificate], data[pki.PrivateKey])
	if err != nil {
		t.Fatal(err)
	}
	_, address := serve(t, "tcp", "127.0.0.1:0", grpc.Creds(credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{certificate}})))
	credentials := &source{authority}
	pool := NewPool(credentials)
	defer pool.Close()
	right, wrong := Target{address, "g.ns.engine.spate.dev"}, Target{address, "other.ns.engine.spate.dev"}
	call := func(target Target) error {
		c, err := pool.Client(t.Context(), target)
		if err == nil {
			_, err = c.Info(t.Context())
		}
		return err
	}
	if err := call(right); err != nil {
		t.Fatal(err)
	}
	if err := call(wrong); err == nil {
		t.Error("talked to an engine of another generator")
	}
	first := pool.conns[right].conn
	if err := call(right); err != nil || pool.conns[right].conn != first {
		t.Errorf("not kept: %v", err)
	}
	if credentials.authority, err = pki.NewAuthority(pki.DefaultPolicy(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := call(right); err == nil || pool.conns[right].conn == first {
		t.Error("an engine of an authority that is trusted no more was talked to")
	}
}

func asError(err error, target **Error) bool { return errors.As(err, target) }
