// SPDX-License-Identifier: Apache-2.0

package engine

// This file answers: how are packets, replies to echo requests, records and counters streamed from an engine?

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"spate.dev/operator/internal/engine/enginev1"
)

const (
	// liveWindow is the number of bytes of a stream that may be queued for a slow reader (flow control of HTTP/2, RFC
	// 9113 section 5.2). The engine counts what it omits meanwhile as missed.
	liveWindow = 1 << 20
	// maxLiveMessage is more than an engine puts into one response.
	maxLiveMessage = 16 << 20
)

// Live is a separate connection: its streams may last for hours, and neither idleness nor a new trust bundle ends them.
// Its errors are the engine's gRPC statuses.
type Live struct {
	conn *grpc.ClientConn
}

// OpenLive returns a connection to the engine, which the caller closes. It does not wait for the engine; calls do.
func OpenLive(ctx context.Context, source CredentialSource, target Target) (*Live, error) {
	creds := insecure.NewCredentials()
	if !target.local() {
		c, err := source.Credentials(ctx, target.ServerName)
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(c.TLS)
	}
	conn, err := dial(target, creds, grpc.WithInitialWindowSize(liveWindow), grpc.WithInitialConnWindowSize(liveWindow),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxLiveMessage)))
	return &Live{conn: conn}, err
}

// Capture streams packets of a port.
func (l *Live) Capture(ctx context.Context, request *enginev1.CaptureRequest) (grpc.ServerStreamingClient[enginev1.CaptureResponse], error) {
	return enginev1.NewEngineClient(l.conn).Capture(ctx, request)
}

// Ping sends echo requests from a port and streams what becomes of them.
func (l *Live) Ping(ctx context.Context, request *enginev1.PingRequest) (grpc.ServerStreamingClient[enginev1.PingResponse], error) {
	return enginev1.NewEngineClient(l.conn).Ping(ctx, request)
}

// WatchRecords streams records of a run's connections as they end.
func (l *Live) WatchRecords(ctx context.Context, runID string) (grpc.ServerStreamingClient[enginev1.WatchRecordsResponse], error) {
	return enginev1.NewObserverClient(l.conn).WatchRecords(ctx, &enginev1.WatchRecordsRequest{RunId: runID})
}

// Ports returns the engine's ports.
func (l *Live) Ports(ctx context.Context) ([]*enginev1.PortInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := enginev1.NewEngineClient(l.conn).GetInfo(ctx, &enginev1.GetInfoRequest{})
	return info.GetPorts(), err
}

// WatchStats streams the counters of a run, at once and then at every interval, until the run has ended. Each answer renews the run's lease.
func (l *Live) WatchStats(ctx context.Context, runID string, interval time.Duration) (grpc.ServerStreamingClient[enginev1.WatchStatsResponse], error) {
	return enginev1.NewEngineClient(l.conn).WatchStats(ctx, &enginev1.WatchStatsRequest{RunId: runID, IntervalNs: uint64(interval)})
}

// ListClients streams the emulated clients of a run.
func (l *Live) ListClients(ctx context.Context, request *enginev1.ListClientsRequest) (grpc.ServerStreamingClient[enginev1.ListClientsResponse], error) {
	return enginev1.NewObserverClient(l.conn).ListClients(ctx, request)
}

// Close ends all streams.
func (l *Live) Close() { _ = l.conn.Close() }
