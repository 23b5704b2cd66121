// SPDX-License-Identifier: Apache-2.0

package main

// This file answers: which of the watched namespaces can the operator read, and what follows when others can?

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"spate.dev/operator/internal/metrics"
)

const (
	// lookInterval is the time between two looks at the watched namespaces.
	lookInterval = 15 * time.Second
	// lossLimit is for how long a namespace that could be read at the start may be unreadable. Its informers list it again and again, and hold up no
	// others, so nothing is lost when its Role is only replaced. But what is cached of it does not change any more: a run that is active in the cache
	// occupies its generator.
	lossLimit = 5 * time.Minute
	// syncLimit is how long to wait for the cache to say whether it has the objects of all namespaces. It knows that without a request.
	syncLimit = time.Second
	// endLimit is how long the operator may take to end: for its controllers (5 s) and for the release of its lease. Kubernetes kills it after
	// 10 s. controller-runtime's manager does not end while its first informers wait for their objects.
	endLimit = 9 * time.Second

	unreadableRemedy = "create the operator's Role and RoleBinding there (helm upgrade; kustomize: the component namespaced), " +
		"or, if the namespace no longer exists, take it out of --watch-namespaces (chart: watchNamespaces)"
)

// lookout looks at the watched namespaces. The namespaces of controller-runtime's cache are fixed when it is made, and no controller starts before it
// has the objects of all of them: with one that does not exist, or without a Role in it, nothing would be reconciled in any. So the cache is
// of those that can be read at the start. When others can, the operator ends, and Kubernetes restarts it: another cache in the same process
// would need other controllers, too. Engines go on meanwhile. It also ends when it loses a namespace before it has all of its objects, since its
// controllers would wait for them, those of the other namespaces, too.
type lookout struct {
	client.Reader
	watched         []string
	unreadable      map[string]error // at the start
	interval, limit time.Duration
}

// newLookout looks for the first time. One of the namespaces must be readable: a cache of none would be of all.
func newLookout(ctx context.Context, c client.Reader, watched []string) (*lookout, error) {
	l := &lookout{Reader: c, watched: watched, interval: lookInterval, limit: lossLimit}
	var err error
	if l.unreadable, err = l.look(ctx); err != nil {
		return nil, err
	}
	if len(watched) > 0 && len(l.readable()) == 0 {
		return nil, fmt.Errorf("--watch-namespaces=%s: none can be read: %w; %s", strings.Join(watched, ","), l.unreadable[watched[0]], unreadableRemedy)
	}
	for namespace, err := range l.unreadable {
		reportUnreadable(namespace, err)
	}
	return l, nil
}

func reportUnreadable(namespace string, err error) {
	ctrl.Log.Error(err, "a watched namespace cannot be read", "namespace", namespace, "remedy", unreadableRemedy)
}

// readable returns the namespaces that could be read at the start.
func (l *lookout) readable() []string {
	return slices.DeleteFunc(slices.Clone(l.watched), func(namespace string) bool { return l.unreadable[namespace] != nil })
}

// look returns why namespaces cannot be read. The cache needs all kinds of a namespace. When it has been made, one kind shows whether the Role is there.
func (l *lookout) look(ctx context.Context) (map[string]error, error) {
	unreadable := map[string]error{}
	for _, namespace := range l.watched {
		kinds := watchedKinds()
		if l.unreadable != nil && l.unreadable[namespace] == nil {
			kinds = kinds[:1]
		}
		err := l.list(ctx, namespace, kinds)
		switch {
		case apierrors.IsForbidden(err): // also if it does not exist, and the Role with it
			unreadable[namespace] = err
		case err != nil:
			return nil, fmt.Errorf("namespace %s: %w", namespace, err)
		}
	}
	metrics.NamespacesUnreadable(len(unreadable))
	return unreadable, nil
}

// list lists objects of each kind.
func (l *lookout) list(ctx context.Context, namespace string, kinds []schema.GroupVersionKind) error {
	for _, kind := range kinds {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err := l.List(ctx, &list, client.InNamespace(namespace), client.Limit(1)); err != nil {
			return err
		}
	}
	return nil
}

// during executes the operator, and ends it when it is to be restarted. synced waits until the cache has the objects of all readable namespaces; it
// returns false if the context ends before.
func (l *lookout) during(ctx context.Context, operator func(context.Context) error, synced func(context.Context) bool) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	changed, ended := make(chan error, 1), make(chan error, 1)
	go func() {
		changed <- l.change(ctx, synced)
		end()
	}()
	go func() {
		ended <- operator(ctx)
		end()
	}()
	<-ctx.Done()
	var err error
	select {
	case err = <-ended:
	case <-time.After(endLimit):
		err = fmt.Errorf("the controllers have not ended within %s", endLimit)
	}
	return errors.Join(<-changed, err)
}

// change waits until the operator is to be restarted, and returns why; nil if the context ends before.
func (l *lookout) change(ctx context.Context, synced func(context.Context) bool) error {
	lost := map[string]time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(l.interval):
		}
		now, err := l.look(ctx)
		if err != nil {
			continue // the API server does not answer, which shows nothing about a namespace
		}
		for _, namespace := range l.watched {
			switch since, known := lost[namespace]; {
			case l.unreadable[namespace] != nil && now[namespace] == nil:
				return fmt.Errorf("namespace %s can be read now: the operator ends, to be restarted with it", namespace)
			case l.unreadable[namespace] != nil:
			case now[namespace] == nil:
				delete(lost, namespace)
			case !isSynced(ctx, synced) && ctx.Err() == nil:
				return fmt.Errorf("namespace %s cannot be read any more, and controllers still wait for its objects: the operator ends, to be restarted without it: %w; %s",
					namespace, now[namespace], unreadableRemedy)
			case !known:
				lost[namespace] = time.Now()
				reportUnreadable(namespace, now[namespace])
			case time.Since(since) >= l.limit:
				return fmt.Errorf("namespace %s could not be read for %s: the operator ends, to be restarted without it", namespace, l.limit)
			}
		}
	}
}

// isSynced returns what synced returns, after syncLimit at the latest.
func isSynced(ctx context.Context, synced func(context.Context) bool) bool {
	ctx, end := context.WithTimeout(ctx, syncLimit)
	defer end()
	return synced(ctx)
}
