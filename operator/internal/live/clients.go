// SPDX-License-Identifier: Apache-2.0

package live

// This file answers: which emulated clients of a run does a reader get?

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/live/livev1"
)

// ListClients streams the emulated clients of a run in a pod.
func (s *Server) ListClients(request *livev1.ListClientsRequest, to grpc.ServerStreamingServer[livev1.ListClientsResponse]) error {
	reader, run := &spatev1.TrafficStatsReader{}, &spatev1.TrafficRun{}
	ctx, held, end, err := s.begin(to.Context(), client.ObjectKey{Namespace: request.Namespace, Name: request.Name}, reader, &s.watchers, func(ctx context.Context) error {
		found := &spatev1.TrafficRun{}
		err := s.Fresh.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: string(reader.Spec.RunRef.Name)}, found)
		if err != nil {
			return unread(err)
		}
		run = found
		return hasClients(run)
	})
	if err != nil {
		return err
	}
	defer end()
	from, err := s.engineFor(ctx, run, request.Pod)
	if err != nil {
		return err
	}
	defer from.Close()
	clients, err := from.ListClients(ctx, &enginev1.ListClientsRequest{RunId: run.Status.Resolved.RunID, Clients: request.Clients, States: request.States, Limit: request.Limit})
	if err != nil {
		return ofEngine(request.Pod, err)
	}
	return forward(ctx, held, request.Pod, clients.Recv, func(answer *enginev1.ListClientsResponse) error {
		return to.Send(&livev1.ListClientsResponse{Engine: answer})
	})
}

// hasClients returns why the clients of a run cannot be listed. They are there while they are awaited, too.
func hasClients(run *spatev1.TrafficRun) error {
	switch {
	case !Readable(run) && (run.Status.Resolved == nil || run.Status.Phase != spatev1.RunSettingUp):
		return status.Errorf(codes.FailedPrecondition, "run %s is %s: clients can only be listed while it is active", run.Name, run.Status.Phase)
	case len(run.Status.Resolved.Clients) == 0:
		return status.Errorf(codes.FailedPrecondition, "run %s has no clients: set spec.clients of its profile", run.Name)
	}
	return nil
}
