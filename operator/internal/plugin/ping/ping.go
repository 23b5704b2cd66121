// SPDX-License-Identifier: Apache-2.0

// Package ping answers: does a station reply to echo requests from a generator's port, and how fast?
package ping

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/live"
)

// errNoReply makes the command fail if nothing of what was sent came back.
var errNoReply = errors.New("no reply")

// flags select who is pinged, from where, and how often.
type flags struct {
	port, source      string
	pods              []string
	count             int64
	interval, timeout time.Duration
	size, hopLimit    int32
}

// NewCommand returns `ping`.
func NewCommand() *cobra.Command {
	var where cluster.Flags
	var f flags
	c := &cobra.Command{
		Use:   "ping GENERATOR DESTINATION --port PORT",
		Short: "Send echo requests from a generator's port",
		Long: `Sends ICMP or ICMPv6 echo requests from a port of a TrafficGenerator and prints the reply to each, or why there is none, until it is interrupted or --count
have been sent. Runs go on undisturbed, and none has to be active. The port needs an address of the destination's family (spec.ports[].addresses),
and the generator's limits must allow it: the destination is in limits.allowedDestinations, if there are any, and limits.allowedPorts is absent.

A round trip is from when a worker hands the request to the device to when a worker reads the reply from it. The exit code is 1 if there was no
reply at all, or if a pod could not ping.

It takes the ClusterRole spate-pinger in the generator's namespace, bound by a RoleBinding; no right to pods.`,
		Example: `  kubectl spate ping lab 198.18.0.254 --port east --count 5
  kubectl spate ping lab 2001:db8::1 --port west --interval 100ms --size 1232
  kubectl spate ping lab 198.18.0.254 --port east --hop-limit 1`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: where.Complete(1, cluster.Generators),
		RunE: func(c *cobra.Command, args []string) error {
			spec, err := f.spec(args[0], args[1])
			if err != nil {
				return err
			}
			connection, err := where.Connect()
			if err != nil {
				return err
			}
			return ping(c.Context(), connection, spec, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	where.Add(c)
	set := c.Flags()
	set.StringVarP(&f.port, "port", "p", "", "port of the generator (required)")
	set.StringSliceVar(&f.pods, "pod", nil, "engine pods of the generator; all of them when absent")
	where.CompleteFlag(c, "port", cluster.GeneratorKind, cluster.Ports)
	where.CompleteFlag(c, "pod", cluster.GeneratorKind, cluster.Pods)
	set.StringVar(&f.source, "source", "", "one of the port's addresses; that of the destination's subnet, else any, when absent")
	set.Int64VarP(&f.count, "count", "c", 0, "echo requests of each pod; 0 is until interrupted")
	set.DurationVarP(&f.interval, "interval", "i", time.Second, "from one request to the next, 10ms to 1h")
	set.DurationVarP(&f.timeout, "timeout", "W", time.Second, "how long a reply is waited for, 1ms to 60s")
	set.Int32VarP(&f.size, "size", "s", 56, "bytes of data in a request, 16 to 1232")
	set.Int32Var(&f.hopLimit, "hop-limit", 64, "time to live, or hop limit, of requests, 1 to 255")
	if err := c.MarkFlagRequired("port"); err != nil {
		panic(err) // the flag exists
	}
	return c
}

// spec returns the spec of the TrafficPing.
func (f *flags) spec(generator, destination string) (spatev1.TrafficPingSpec, error) {
	switch {
	case f.count < 0:
		return spatev1.TrafficPingSpec{}, fmt.Errorf("--count %d: must not be negative", f.count)
	case f.interval < 10*time.Millisecond || f.interval > time.Hour:
		return spatev1.TrafficPingSpec{}, fmt.Errorf("--interval %s: must be 10ms to 1h", f.interval)
	case f.timeout < time.Millisecond || f.timeout > time.Minute:
		return spatev1.TrafficPingSpec{}, fmt.Errorf("--timeout %s: must be 1ms to 60s", f.timeout)
	case f.size < 16 || f.size > 1232:
		return spatev1.TrafficPingSpec{}, fmt.Errorf("--size %d: must be 16 to 1232", f.size)
	case f.hopLimit < 1 || f.hopLimit > 255:
		return spatev1.TrafficPingSpec{}, fmt.Errorf("--hop-limit %d: must be 1 to 255", f.hopLimit)
	}
	return spatev1.TrafficPingSpec{
		GeneratorRef: spatev1.LocalReference{Name: spatev1.ObjectName(generator)}, Pods: f.pods, Port: spatev1.PortName(f.port),
		Destination: spatev1.IPAddress(destination), Source: spatev1.IPAddress(f.source), Count: f.count,
		Interval: spatev1.Duration(f.interval.String()), Timeout: spatev1.Duration(f.timeout.String()), Size: f.size, HopLimit: f.hopLimit,
	}, nil
}

// ping prints what becomes of requests until there is no more, or the context ends.
func ping(ctx context.Context, connection *cluster.Connection, spec spatev1.TrafficPingSpec, stdout, stderr io.Writer) error {
	object := &spatev1.TrafficPing{Spec: spec}
	r, err := live.Open(ctx, connection, object, "spate-pinger", stderr)
	if err != nil {
		return err
	}
	defer r.Close()
	printer := &printer{to: stdout, spec: &object.Spec, several: len(object.Status.Pods) > 1}
	pods := make([]*statistics, len(object.Status.Pods))
	failed := make([]error, len(pods))
	var all sync.WaitGroup
	for i, pod := range object.Status.Pods {
		of := &statistics{pod: pod}
		pods[i] = of
		all.Go(func() {
			failed[i] = live.Follow(ctx, r, stderr, func(ctx context.Context) (grpc.ServerStreamingClient[livev1.PingResponse], error) {
				of.before = of.requests
				return r.Calls.Ping(ctx, &livev1.PingRequest{Namespace: object.Namespace, Name: object.Name, Pod: pod, Done: of.requests})
			}, func(answer *livev1.PingResponse) error { return printer.print(of, answer.Engine) })
			// The other pods may go on for long.
			if failed[i] != nil && printer.several && !live.IsEnough(failed[i]) {
				fmt.Fprintf(stderr, "%s: %v\n", pod, failed[i])
			}
		})
	}
	all.Wait()
	return conclusion(printer, pods, failed)
}

// conclusion prints what came of each pod's requests, and returns why the command fails.
func conclusion(printer *printer, pods []*statistics, failed []error) error {
	replies := uint64(0)
	for _, pod := range pods {
		printer.summary(pod)
		replies += pod.replies
	}
	err := errors.Join(failed...)
	switch {
	case live.IsEnough(err):
		return nil
	case err != nil:
		return err
	case replies == 0:
		return errNoReply
	}
	return nil
}

// statistics of the requests of one pod.
type statistics struct {
	pod string
	// requests is how many have come to an end: by a reply, an error, or none in time. Those before the current stream are in before.
	requests, before uint64
	// replies have the data that was sent, corrupt ones do not.
	replies, corrupt uint64
	least, most, sum time.Duration
	// squares is the sum of the squares of round trips, in microseconds.
	squares float64
}

// printer prints whole lines, also when several pods reply.
type printer struct {
	lock    sync.Mutex
	to      io.Writer
	spec    *spatev1.TrafficPingSpec
	several bool
}

func (p *printer) line(pod, format string, values ...any) error {
	if p.several {
		format = pod + ": " + format
	}
	p.lock.Lock()
	defer p.lock.Unlock()
	_, err := fmt.Fprintf(p.to, format+"\n", values...)
	return err
}

func (p *printer) print(of *statistics, answer *enginev1.PingResponse) error {
	n := of.before + answer.Sequence + 1
	switch event := answer.Event.(type) {
	case *enginev1.PingResponse_Started:
		return p.line(of.pod, "PING %s from %s (port %s) by %s: %d bytes of data", p.spec.Destination, event.Started.Source, p.spec.Port, event.Started.NextHopMac, p.spec.Size)
	case *enginev1.PingResponse_Reply:
		of.requests++
		if event.Reply.Corrupt {
			of.corrupt++
			return p.line(of.pod, "from %s: seq=%d ttl=%d: the data is not what was sent", p.spec.Destination, n, event.Reply.HopLimit)
		}
		took := time.Duration(event.Reply.RoundTripNs)
		of.add(took)
		return p.line(of.pod, "from %s: seq=%d ttl=%d time=%s", p.spec.Destination, n, event.Reply.HopLimit, milliseconds(took))
	case *enginev1.PingResponse_NoReply:
		of.requests++
		return p.line(of.pod, "no reply: seq=%d", n)
	case *enginev1.PingResponse_Error:
		of.requests++
		return p.line(of.pod, "from %s: seq=%d %s", event.Error.Source, n, meaning(event.Error, strings.Contains(string(p.spec.Destination), ":")))
	}
	return nil
}

func (s *statistics) add(took time.Duration) {
	if s.replies == 0 || took < s.least {
		s.least = took
	}
	s.most = max(s.most, took)
	s.sum += took
	us := float64(took) / float64(time.Microsecond)
	s.squares += us * us
	s.replies++
}
