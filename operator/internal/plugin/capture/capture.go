// SPDX-License-Identifier: Apache-2.0

// Package capture answers: which packets pass a generator's ports now?
package capture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/plugin/cluster"
	"spate.dev/operator/internal/plugin/live"
)

// captureFlags select what is captured, and for how long.
type captureFlags struct {
	ports, pods       []string
	filter, direction string
	snapLength        int32
	count             int64
	duration          time.Duration
	write             string
}

// NewCommand returns `capture`.
func NewCommand() *cobra.Command {
	var where cluster.Flags
	var flags captureFlags
	c := &cobra.Command{
		Use:   "capture GENERATOR --port PORT... -w FILE",
		Short: "Capture packets of a generator's ports, live",
		Long: `Copies packets of a TrafficGenerator's ports to a file or a pipe, as workers read them from the device or hand it to them, until it is
interrupted, or has --count packets, or --duration has passed. Runs go on undisturbed, and none has to be active. A line that begins with
"capturing:" on standard error shows that all ports are captured from then on: start what must not be missed after it.

The file is pcapng: times in nanoseconds, an interface for each port of each pod, each packet's direction (in Wireshark
frame.packet_flags_direction; 1 received, 2 sent). It is written as packets come, so Wireshark and tshark read along in a pipe. Packets that
the reader is too slow for are omitted, counted, and their number is printed at the end on standard error and in the file.

It takes the ClusterRole spate-capturer in the generator's namespace, bound by a RoleBinding; no right to pods.`,
		Example: `  kubectl spate capture lab --port east -w - | wireshark -k -i -
  kubectl spate capture lab -n tests --port east,west --filter 'tcp port 80' --snaplen 96 --duration 10s -w web.pcapng
  kubectl spate capture lab --port east --direction rx --count 1000 -w - | tshark -r - -q -z io,phs`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: where.Complete(1, cluster.Generators),
		RunE: func(c *cobra.Command, args []string) error {
			spec, err := flags.spec(args[0])
			if err != nil {
				return err
			}
			connection, err := where.Connect()
			if err != nil {
				return err
			}
			return capture(c.Context(), connection, spec, &flags, c.OutOrStdout(), c.ErrOrStderr())
		},
	}
	where.Add(c)
	f := c.Flags()
	f.StringSliceVarP(&flags.ports, "port", "p", nil, "ports of the generator (required)")
	f.StringSliceVar(&flags.pods, "pod", nil, "engine pods of the generator; all of them when absent")
	where.CompleteFlag(c, "port", cluster.GeneratorKind, cluster.Ports)
	where.CompleteFlag(c, "pod", cluster.GeneratorKind, cluster.Pods)
	f.StringVar(&flags.filter, "filter", "", "which packets, as pcap-filter(7), such as 'udp port 53'; all when absent")
	f.StringVar(&flags.direction, "direction", "both", "rx for packets received, tx for those sent, or both")
	_ = c.RegisterFlagCompletionFunc("direction", cobra.FixedCompletions([]string{"rx", "tx", "both"}, cobra.ShellCompDirectiveNoFileComp)) // fails for a flag that does not exist only
	f.Int32Var(&flags.snapLength, "snaplen", 0, "bytes of each packet to copy, up to 65535; 0 is all")
	f.Int64Var(&flags.count, "count", 0, "packets to capture in all; 0 is no limit")
	f.DurationVar(&flags.duration, "duration", 0, "how long to capture, such as 10s; 0 is until interrupted")
	f.StringVarP(&flags.write, "write", "w", "", "file to write, or - for standard output (required)")
	for _, name := range []string{"port", "write"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag exists
		}
	}
	return c
}

// spec returns the spec of the TrafficCapture.
func (f *captureFlags) spec(generator string) (spatev1.TrafficCaptureSpec, error) {
	direction, known := map[string]spatev1.CaptureDirection{"rx": spatev1.CaptureReceived, "tx": spatev1.CaptureTransmitted, "both": spatev1.CaptureBoth}[f.direction]
	switch {
	case !known:
		return spatev1.TrafficCaptureSpec{}, fmt.Errorf("--direction %q: must be rx, tx or both", f.direction)
	case f.snapLength < 0 || f.snapLength > 65_535:
		return spatev1.TrafficCaptureSpec{}, fmt.Errorf("--snaplen %d: must be 0 to 65535", f.snapLength)
	case f.count < 0:
		return spatev1.TrafficCaptureSpec{}, fmt.Errorf("--count %d: must not be negative", f.count)
	case f.duration < 0:
		return spatev1.TrafficCaptureSpec{}, fmt.Errorf("--duration %s: must not be negative", f.duration)
	}
	spec := spatev1.TrafficCaptureSpec{
		GeneratorRef: spatev1.LocalReference{Name: spatev1.ObjectName(generator)}, Pods: f.pods, Filter: f.filter, Direction: direction,
		SnapLength: f.snapLength, MaxPackets: f.count,
	}
	for _, port := range f.ports {
		spec.Ports = append(spec.Ports, spatev1.PortName(port))
	}
	return spec, nil
}

// capture writes packets until the limit, or until the context ends.
func capture(ctx context.Context, connection *cluster.Connection, spec spatev1.TrafficCaptureSpec, flags *captureFlags, stdout, progress io.Writer) (err error) {
	object := &spatev1.TrafficCapture{Spec: spec}
	r, err := live.Open(ctx, connection, object, "spate-capturer", progress)
	if err != nil {
		return err
	}
	defer r.Close()
	to := stdout
	if flags.write != "-" { // created only when the request is known to be valid
		file, err := os.Create(flags.write)
		if err != nil {
			return fmt.Errorf("--write: %w", err)
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		to = file
	}
	var ports []capturedPort
	for _, pod := range object.Status.Pods {
		for _, port := range spec.Ports {
			ports = append(ports, capturedPort{pod: pod, port: string(port)})
		}
	}
	ctx, enough := context.WithCancel(ctx)
	defer enough()
	if flags.duration > 0 {
		defer time.AfterFunc(flags.duration, enough).Stop()
	}
	file, err := newPacketFile(to, &object.Spec, ports, flags.count, enough)
	if err == nil {
		err = copied(ctx, r, file, progress)
	}
	if file != nil && !live.IsEnough(err) {
		err = errors.Join(err, file.end())
	}
	for _, port := range ports {
		fmt.Fprintf(progress, "%s: captured %d packets, %d bytes; missed %d packets\n", port.name(), port.packets, port.bytes, port.missed.All)
	}
	if live.IsEnough(err) {
		return nil
	}
	return err
}

// copied copies the packets of all ports concurrently. A failure of one ends all.
func copied(ctx context.Context, r *live.Reader, file *packetFile, progress io.Writer) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var all sync.WaitGroup
	var capturing atomic.Int64
	for i := range file.ports {
		var first sync.Once
		request := &livev1.CaptureRequest{Namespace: r.Object.GetNamespace(), Name: r.Object.GetName(), Pod: file.ports[i].pod, Port: file.ports[i].port}
		all.Go(func() {
			err := live.Follow(ctx, r, progress, func(ctx context.Context) (grpc.ServerStreamingClient[livev1.CaptureResponse], error) {
				file.ports[i].missed.Opened()
				stream, err := r.Calls.Capture(ctx, request)
				if err != nil {
					return nil, err
				}
				// The header comes when the engine captures; without one, receiving returns the reason.
				if header, err := stream.Header(); err == nil && header != nil {
					first.Do(func() {
						if capturing.Add(1) == int64(len(file.ports)) {
							fmt.Fprintf(progress, "capturing: %s\n", strings.Join(file.names(), ", "))
						}
					})
				}
				return stream, nil
			}, func(answer *livev1.CaptureResponse) error { return file.write(i, answer.Engine) })
			if err != nil {
				end(err)
			}
		})
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
