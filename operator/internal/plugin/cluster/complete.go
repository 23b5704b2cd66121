// SPDX-License-Identifier: Apache-2.0

package cluster

// This file answers: which names in the cluster complete an argument or a flag in a shell?

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	kube "sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
)

// completionLimit is how long a shell waits for names.
const completionLimit = 3 * time.Second

// Kind makes an empty list of the kind whose names complete an argument.
type Kind func() kube.ObjectList

// Runs are TrafficRuns.
func Runs() kube.ObjectList { return &spatev1.TrafficRunList{} }

// Profiles are TrafficProfiles.
func Profiles() kube.ObjectList { return &spatev1.TrafficProfileList{} }

// Generators are TrafficGenerators.
func Generators() kube.ObjectList { return &spatev1.TrafficGeneratorList{} }

// Searches are TrafficSearches.
func Searches() kube.ObjectList { return &spatev1.TrafficSearchList{} }

func namespaces() kube.ObjectList { return &corev1.NamespaceList{} }

// Complete completes the first arguments of a command, as many as most, with names of objects in the namespace that the flags select. Without an answer of the
// cluster there are none.
func (f *Flags) Complete(most int, kinds ...Kind) cobra.CompletionFunc {
	return func(c *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return f.ask(c, func(ctx context.Context, to *Connection) []cobra.Completion {
			return names(ctx, to.Client, to.Namespace, args, prefix, kinds)
		})
	}
}

// ask returns what the cluster knows within the time that a user waits for a completion; nothing if it cannot be reached.
func (f *Flags) ask(c *cobra.Command, known func(context.Context, *Connection) []cobra.Completion) ([]cobra.Completion, cobra.ShellCompDirective) {
	connection, err := f.Connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionLimit)
	defer cancel()
	return known(ctx, connection), cobra.ShellCompDirectiveNoFileComp
}

// completeNamespace completes a flag with the names of namespaces.
func (f *Flags) completeNamespace(c *cobra.Command, _ []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return f.Complete(1, namespaces)(c, nil, prefix)
}

// Parts returns the names of parts of what an argument names.
type Parts func(*Subject) []string

// Ports are those of a generator.
func Ports(s *Subject) (all []string) {
	if s.Generator != nil {
		for _, port := range s.Generator.Spec.Ports {
			all = append(all, string(port.Name))
		}
	}
	return all
}

// Pods are the engine pods of a generator, or of a run.
func Pods(s *Subject) (all []string) {
	if s.Generator != nil {
		for _, pod := range s.Generator.Status.Pods {
			all = append(all, pod.Name)
		}
	}
	if s.Run != nil && s.Run.Status.Resolved != nil {
		for _, pod := range s.Run.Status.Resolved.Generator.Pods {
			all = append(all, pod.Name)
		}
	}
	return all
}

// CompleteFlag completes a flag, whose names have commas between them, with parts of what the first argument names. `kind` is that of arguments that are
// names of one kind alone; empty for others.
func (f *Flags) CompleteFlag(c *cobra.Command, flag, kind string, parts Parts) {
	_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, args []string, prefix string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		argument := args[0]
		if kind != "" {
			argument = prefixes[kind][0] + "/" + argument
		}
		return f.ask(c, func(ctx context.Context, to *Connection) []cobra.Completion {
			found, err := Find(ctx, to.Client, to.Namespace, argument)
			if err != nil {
				return nil
			}
			return listed(parts(found), prefix)
		})
	}) // fails for a flag that does not exist only
}

// listed are the names that continue a list with commas, sorted, each with what is before it.
func listed(names []string, prefix string) (all []string) {
	at := strings.LastIndex(prefix, ",") + 1
	before := strings.Split(prefix[:at], ",")
	for _, name := range names {
		if strings.HasPrefix(name, prefix[at:]) && !slices.Contains(before, name) {
			all = append(all, prefix[:at]+name)
		}
	}
	slices.Sort(all)
	return all
}

// names are those of all objects of the kinds in a namespace that start with the prefix and are no argument yet, sorted.
func names(ctx context.Context, reader kube.Reader, namespace string, args []string, prefix string, kinds []Kind) (all []string) {
	for _, kind := range kinds {
		list := kind()
		if err := reader.List(ctx, list, kube.InNamespace(namespace)); err != nil {
			continue
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error {
			if name := item.(kube.Object).GetName(); strings.HasPrefix(name, prefix) && !slices.Contains(args, name) {
				all = append(all, name)
			}
			return nil
		})
	}
	slices.Sort(all)
	return slices.Compact(all)
}
