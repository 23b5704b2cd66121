// SPDX-License-Identifier: Apache-2.0

package live

// This file answers: what does a reader get, and from which engine?

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/live/livev1"
	"spate.dev/operator/internal/plan/limits"
	"spate.dev/operator/internal/podspec"
)

var directions = map[spatev1.CaptureDirection]enginev1.Direction{
	spatev1.CaptureReceived: enginev1.Direction_DIRECTION_RX, spatev1.CaptureTransmitted: enginev1.Direction_DIRECTION_TX,
}

// Capture streams the packets of a port of a pod.
func (s *Server) Capture(request *livev1.CaptureRequest, to grpc.ServerStreamingServer[livev1.CaptureResponse]) error {
	capture := &spatev1.TrafficCapture{}
	ctx, held, end, err := s.begin(to.Context(), client.ObjectKey{Namespace: request.Namespace, Name: request.Name}, capture, &s.places, nil)
	if err != nil {
		return err
	}
	defer end()
	if !slices.Contains(capture.Spec.Ports, spatev1.PortName(request.Port)) {
		return status.Errorf(codes.PermissionDenied, "port %q is not in spec.ports", request.Port)
	}
	from, err := s.engineOf(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.Pod}, capture.Spec.GeneratorRef, capture.Spec.Pods)
	if err != nil {
		return err
	}
	defer from.Close()
	packets, err := from.Capture(ctx, &enginev1.CaptureRequest{
		Port: request.Port, Filter: capture.Spec.Filter, MaxPackets: uint64(capture.Spec.MaxPackets),
		Direction: directions[capture.Spec.Direction], SnapLength: uint32(capture.Spec.SnapLength),
	})
	if err != nil {
		return ofEngine(request.Pod, err)
	}
	// The engine's header says that it captures from now on, and the reader's says so too. Without one, receiving returns the status.
	if header, err := packets.Header(); err == nil && header != nil {
		if err := to.SendHeader(nil); err != nil {
			return err
		}
	}
	return forward(ctx, held, request.Pod, packets.Recv, func(answer *enginev1.CaptureResponse) error {
		return to.Send(&livev1.CaptureResponse{Engine: answer})
	})
}

// Ping streams what becomes of the echo requests of a pod.
func (s *Server) Ping(request *livev1.PingRequest, to grpc.ServerStreamingServer[livev1.PingResponse]) error {
	ping := &spatev1.TrafficPing{}
	ctx, held, end, err := s.begin(to.Context(), client.ObjectKey{Namespace: request.Namespace, Name: request.Name}, ping, &s.places, func(ctx context.Context) error {
		generator := &spatev1.TrafficGenerator{}
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: string(ping.Spec.GeneratorRef.Name)}, generator)
		if apierrors.IsNotFound(err) {
			return status.Errorf(codes.NotFound, "spec.generatorRef: %v", err)
		}
		if err != nil {
			return status.Errorf(codes.Unavailable, "spec.generatorRef: %v", err)
		}
		if problem := PingProblem(generator, &ping.Spec); problem != "" {
			return status.Error(codes.PermissionDenied, problem)
		}
		return nil
	})
	if err != nil {
		return err
	}
	defer end()
	spec, count := ping.Spec, uint64(ping.Spec.Count)
	interval, err := spec.Interval.Parse()
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "spec.interval: %v", err)
	}
	timeout, err := spec.Timeout.Parse()
	if err != nil {
		return status.Errorf(codes.InvalidArgument, "spec.timeout: %v", err)
	}
	from, err := s.engineOf(ctx, client.ObjectKey{Namespace: request.Namespace, Name: request.Pod}, spec.GeneratorRef, spec.Pods)
	if err != nil {
		return err
	}
	defer from.Close()
	if count > 0 {
		if request.Done >= count {
			return nil
		}
		count -= request.Done
	}
	replies, err := from.Ping(ctx, &enginev1.PingRequest{
		Port: string(spec.Port), Destination: string(spec.Destination), Source: string(spec.Source), Count: count,
		IntervalNs: uint64(interval), TimeoutNs: uint64(timeout), Size: uint32(spec.Size), HopLimit: uint32(spec.HopLimit),
	})
	if err != nil {
		return ofEngine(request.Pod, err)
	}
	return forward(ctx, held, request.Pod, replies.Recv, func(answer *enginev1.PingResponse) error {
		return to.Send(&livev1.PingResponse{Engine: answer})
	})
}

// PingProblem returns why a generator's ports or its limits do not allow a ping; empty if they do.
func PingProblem(g *spatev1.TrafficGenerator, spec *spatev1.TrafficPingSpec) string {
	at := slices.IndexFunc(g.Spec.Ports, func(port spatev1.GeneratorPort) bool { return port.Name == spec.Port })
	if at < 0 {
		var names []string
		for _, port := range g.Spec.Ports {
			names = append(names, string(port.Name))
		}
		return fmt.Sprintf("spec.port: %q must be a port of TrafficGenerator %s: one of %s", spec.Port, g.Name, strings.Join(names, ", "))
	}
	to, err := netip.ParseAddr(string(spec.Destination))
	if err != nil {
		return fmt.Sprintf("spec.destination: %v", err)
	}
	sameFamily := func(address spatev1.InterfaceAddress) bool {
		own, err := netip.ParsePrefix(string(address))
		return err == nil && own.Addr().Is4() == to.Is4()
	}
	if !slices.ContainsFunc(g.Spec.Ports[at].Addresses, sameFamily) {
		family := "IPv6"
		if to.Is4() {
			family = "IPv4"
		}
		return fmt.Sprintf("spec.port: %q has no %s address to ping %s from: add one to spec.ports[].addresses of TrafficGenerator %s", spec.Port, family, to, g.Name)
	}
	if problem := limits.EchoProblem(g.Spec.Limits, to); problem != "" {
		return fmt.Sprintf("spec.destination: %s of TrafficGenerator %s", problem, g.Name)
	}
	return ""
}

// WatchRecords streams the records of a run in a pod.
func (s *Server) WatchRecords(request *livev1.WatchRecordsRequest, to grpc.ServerStreamingServer[livev1.WatchRecordsResponse]) error {
	reader := &spatev1.TrafficRecordsReader{}
	ctx, held, end, err := s.begin(to.Context(), client.ObjectKey{Namespace: request.Namespace, Name: request.Name}, reader, &s.places, nil)
	if err != nil {
		return err
	}
	defer end()
	run := &spatev1.TrafficRun{}
	if err := mayStart(run, "records", s.Fresh.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: string(reader.Spec.RunRef.Name)}, run)); err != nil {
		return err
	}
	from, err := s.engineFor(ctx, run, request.Pod)
	if err != nil {
		return err
	}
	defer from.Close()
	records, err := from.WatchRecords(ctx, run.Status.Resolved.RunID)
	if err != nil {
		return ofEngine(request.Pod, err)
	}
	return forward(ctx, held, request.Pod, records.Recv, func(answer *enginev1.WatchRecordsResponse) error {
		return to.Send(&livev1.WatchRecordsResponse{Engine: answer})
	})
}

// Readable reports whether engines execute a run. Only the operator writes that into the status, and only for runs it
// started.
func Readable(run *spatev1.TrafficRun) bool {
	phase := run.Status.Phase
	return run.Status.Resolved != nil && (phase == spatev1.RunWarmingUp || phase == spatev1.RunRunning || phase == spatev1.RunDraining)
}

// engineFor opens a connection to the engine of a pod that executes a run.
func (s *Server) engineFor(ctx context.Context, run *spatev1.TrafficRun, pod string) (*engine.Live, error) {
	return s.engineIn(ctx, client.ObjectKey{Namespace: run.Status.Resolved.Generator.Namespace, Name: pod}, func(pod *corev1.Pod) bool {
		return slices.ContainsFunc(run.Status.Resolved.Generator.Pods, func(own spatev1.PodSnapshot) bool { return own.UID == pod.UID })
	})
}

// engineOf opens a connection to the engine of a generator's pod that is one of spec.pods, if there are any.
func (s *Server) engineOf(ctx context.Context, key client.ObjectKey, generator spatev1.LocalReference, pods []string) (*engine.Live, error) {
	if len(pods) > 0 && !slices.Contains(pods, key.Name) {
		return nil, status.Errorf(codes.PermissionDenied, "pod %q is not in spec.pods", key.Name)
	}
	return s.engineIn(ctx, key, func(pod *corev1.Pod) bool { return pod.Labels[podspec.LabelGenerator] == string(generator.Name) })
}

// engineIn opens a connection to the engine of a pod that `meant` accepts.
func (s *Server) engineIn(ctx context.Context, key client.ObjectKey, meant func(*corev1.Pod) bool) (*engine.Live, error) {
	pod := &corev1.Pod{}
	switch err := s.Client.Get(ctx, key, pod); {
	case client.IgnoreNotFound(err) != nil:
		return nil, status.Errorf(codes.Unavailable, "pod %s: %v", key.Name, err)
	case err != nil || pod.Labels[podspec.LabelName] != podspec.EngineName || !meant(pod):
		return nil, status.Errorf(codes.NotFound, "pod %s does not exist, or is not one to read from", key.Name)
	case pod.DeletionTimestamp != nil || pod.Status.Phase != corev1.PodRunning || pod.Status.PodIP == "":
		return nil, status.Errorf(codes.FailedPrecondition, "pod %s is not running; see kubectl get pod %[1]s -n %s", key.Name, key.Namespace)
	}
	opened, err := engine.OpenLive(ctx, s.Certificates, podspec.EngineOf(pod))
	if err != nil {
		return nil, status.Errorf(codes.Unavailable, "pod %s: %v", key.Name, err)
	}
	return opened, nil
}

// forward passes an engine's responses on until either end stops. A slow reader slows the engine's stream down; the
// engine counts what it omits.
func forward[M any](ctx context.Context, held *session, pod string, receive func() (*M, error), send func(*M) error) error {
	ended := make(chan error, 1)
	go func() {
		for {
			answer, err := receive()
			if err != nil {
				ended <- err
				return
			}
			held.sending.Store(time.Now().UnixNano())
			err = send(answer)
			held.sending.Store(0)
			if err != nil {
				ended <- err
				return
			}
		}
	}()
	select {
	case err := <-ended:
		if errors.Is(err, io.EOF) {
			return nil
		}
		if why := context.Cause(ctx); ctx.Err() != nil {
			return why
		}
		return ofEngine(pod, err)
	case <-ctx.Done(): // does not wait for a reader that takes no data
		return context.Cause(ctx)
	}
}

// ofEngine adds the pod's name to an engine's status. Unavailable is reserved for the operator itself: a reader then
// connects again.
func ofEngine(pod string, err error) error {
	converted := status.Convert(err).Proto()
	if codes.Code(converted.Code) == codes.Unavailable {
		return status.Errorf(codes.Aborted, "pod %s: the engine does not answer, possibly because the pod ended: %s", pod, converted.Message)
	}
	if !strings.HasPrefix(converted.Message, "pod ") {
		converted.Message = "pod " + pod + ": " + converted.Message
	}
	return status.ErrorProto(converted)
}
