// SPDX-License-Identifier: Apache-2.0

package engine

// This file answers: how is each call of the contract made, and how long may it take?

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"time"

	"spate.dev/operator/internal/engine/enginev1"
)

// ContractMinor is the contract's minor version of this operator; an engine's may differ by one.
const ContractMinor = 0

const (
	// callTimeout bounds a call that only reads or changes a state.
	callTimeout = 3 * time.Second
	// prepareTimeout bounds Prepare, which expands and allocates all streams.
	prepareTimeout = 60 * time.Second
	// trialTimeout bounds StartTrial, which allocates all streams again.
	trialTimeout = 20 * time.Second
	// chunkSize is the size of the chunks of a plan (the contract allows 1 MiB).
	chunkSize = 512 << 10
)

// Client calls one engine. Its errors are of the type Error.
type Client struct {
	rpc   enginev1.EngineClient
	clock *tracker
}

// Info returns what the engine is and which runs it has.
func (c *Client) Info(ctx context.Context) (*enginev1.GetInfoResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := c.rpc.GetInfo(ctx, &enginev1.GetInfoRequest{})
	return info, explain(err)
}

// Configure sets the sessions of routing protocols of all ports. The same again changes nothing.
func (c *Client) Configure(ctx context.Context, routing *enginev1.Routing) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.rpc.Configure(ctx, &enginev1.ConfigureRequest{Routing: routing})
	return explain(err)
}

// Prepare sends a plan: its encoded bytes, in consecutive parts.
func (c *Client) Prepare(ctx context.Context, runID string, parts ...[]byte) (*enginev1.PrepareResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, prepareTimeout)
	defer cancel()
	stream, err := c.rpc.Prepare(ctx)
	if err != nil {
		return nil, explain(err)
	}
	sum, total := sha256.New(), 0
	for _, part := range parts {
		sum.Write(part)
		total += len(part)
	}
	header := &enginev1.PrepareHeader{RunId: runID, TotalBytes: uint64(total), Digest: sum.Sum(nil)}
	err = stream.Send(&enginev1.PrepareRequest{Part: &enginev1.PrepareRequest_Header{Header: header}})
	for _, part := range parts {
		for rest := bytes.NewBuffer(part); err == nil && rest.Len() > 0; {
			err = stream.Send(&enginev1.PrepareRequest{Part: &enginev1.PrepareRequest_Chunk{Chunk: rest.Next(chunkSize)}})
		}
	}
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the engine has responded already; CloseAndRecv returns the response
		return nil, explain(err)
	}
	response, err := stream.CloseAndRecv()
	return response, explain(err)
}

// Start starts a prepared run at an instant of the engine's monotonic clock. The reference is what its time stamps are by; nil if no other
// engine takes part.
func (c *Client) Start(ctx context.Context, runID string, atMonotonic int64, reference *enginev1.ReferenceClock) (*enginev1.RunInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := c.rpc.Start(ctx, &enginev1.StartRequest{RunId: runID, AtMonotonicNs: atMonotonic, Reference: reference})
	return r.GetRun(), explain(err)
}

// StartByWall starts a prepared run at an instant of the engine's wall clock, by which its time stamps are.
func (c *Client) StartByWall(ctx context.Context, runID string, atWall int64) (*enginev1.RunInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := c.rpc.Start(ctx, &enginev1.StartRequest{RunId: runID, AtNs: atWall})
	return r.GetRun(), explain(err)
}

// StartTrial starts a trial of a run of trials.
func (c *Client) StartTrial(ctx context.Context, trial *enginev1.StartTrialRequest) (*enginev1.RunInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	r, err := c.rpc.StartTrial(ctx, trial)
	return r.GetRun(), explain(err)
}

// SetReference corrects what the time stamps of a run are by.
func (c *Client) SetReference(ctx context.Context, runID string, reference *enginev1.ReferenceClock) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.rpc.SetReference(ctx, &enginev1.SetReferenceRequest{RunId: runID, Reference: reference})
	return explain(err)
}

// SetRateFactor sets the rates of all streams and templates to a factor of the plan's, at the given time (zero: now).
func (c *Client) SetRateFactor(ctx context.Context, runID string, factor *enginev1.Ratio, at time.Time) (time.Time, error) {
	return c.update(ctx, &enginev1.UpdateRequest{RunId: runID, Change: &enginev1.UpdateRequest_RateFactor{RateFactor: factor}}, at)
}

// SetRate sets the rate of each stream of the entries, at the given time (zero: now).
func (c *Client) SetRate(ctx context.Context, runID string, entries []string, rate *enginev1.Rate, at time.Time) (time.Time, error) {
	return c.update(ctx, &enginev1.UpdateRequest{
		RunId: runID, Selector: &enginev1.Selector{Streams: entries}, Change: &enginev1.UpdateRequest_Rate{Rate: rate},
	}, at)
}

// SetConnectionRate sets the rate of a template's new connections, for all engines together, at the given time (zero:
// now).
func (c *Client) SetConnectionRate(ctx context.Context, runID, template string, rate *enginev1.Ratio, at time.Time) (time.Time, error) {
	return c.update(ctx, &enginev1.UpdateRequest{
		RunId: runID, Selector: &enginev1.Selector{Templates: []string{template}}, Change: &enginev1.UpdateRequest_FlowsPerSecond{FlowsPerSecond: rate},
	}, at)
}

// SetPaused pauses or resumes streams and templates at the given time (zero: now).
func (c *Client) SetPaused(ctx context.Context, runID string, which *enginev1.Selector, paused bool, at time.Time) (time.Time, error) {
	return c.update(ctx, &enginev1.UpdateRequest{RunId: runID, Selector: which, Change: &enginev1.UpdateRequest_Paused{Paused: paused}}, at)
}

func (c *Client) update(ctx context.Context, request *enginev1.UpdateRequest, at time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var err error
	if request.AtNs, err = c.wallAt(ctx, at); err != nil {
		return time.Time{}, err
	}
	r, err := c.rpc.Update(ctx, request)
	return time.Unix(0, r.GetEffectiveAtNs()), explain(err)
}

// SetMaxRate limits the rate at which the engine sends for all runs, active ones included; nil removes the limit.
func (c *Client) SetMaxRate(ctx context.Context, rate *enginev1.Rate) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.rpc.SetLimits(ctx, &enginev1.SetLimitsRequest{MaxRate: rate})
	return explain(err)
}

// Stop ends transmission now; the run drains.
func (c *Client) Stop(ctx context.Context, runID, reason string) (*enginev1.RunInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	r, err := c.rpc.Stop(ctx, &enginev1.StopRequest{RunId: runID, Reason: reason})
	return r.GetRun(), explain(err)
}

// Remove removes a run from the engine.
func (c *Client) Remove(ctx context.Context, runID string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.rpc.Remove(ctx, &enginev1.RemoveRequest{RunId: runID})
	return explain(err)
}

// Stats reads the counters of a run once.
func (c *Client) Stats(ctx context.Context, runID string) (*enginev1.WatchStatsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stream, err := c.rpc.WatchStats(ctx, &enginev1.WatchStatsRequest{RunId: runID})
	if err != nil {
		return nil, explain(err)
	}
	stats, err := stream.Recv()
	return stats, explain(err)
}

// StageEnd returns the counters of a run as they were at the end of a stage: 1, 2, ...; not the last.
func (c *Client) StageEnd(ctx context.Context, runID string, stage int) (*enginev1.WatchStatsResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	stream, err := c.rpc.WatchStats(ctx, &enginev1.WatchStatsRequest{RunId: runID, StageEnd: uint32(stage)})
	if err != nil {
		return nil, explain(err)
	}
	stats, err := stream.Recv()
	return stats, explain(err)
}

// Compatible reports whether the engine's minor version of the contract differs from the operator's by one at most.
func Compatible(info *enginev1.GetInfoResponse) bool {
	return info.ContractMinor+1 >= ContractMinor && info.ContractMinor <= ContractMinor+1
}
