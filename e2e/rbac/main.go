// SPDX-License-Identifier: Apache-2.0

// Command rbac compares the rights of the operator with the requests it made: which rights did a whole run of the suites not need, and
// which requests were refused? It reads the audit log of the API server (e2e/cluster/node) and the roles that are bound to the
// operator's service account.
//
//	rbac AUDIT_LOG
//
// The program ends with 1 if a right was not used and is not one of `unseen` or `rare`, if one of `unseen` was used, or if a request was refused. `list` beside
// `watch` needs no request of its own: informers list where the API server streams no lists (WatchList).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	namespace = "spate-system"
	account   = "spate-operator"
	// decision is the annotation with what the authorizer answered.
	decision = "authorization.k8s.io/decision"
)

// unseen are rights that no request shows, with the reason for which the operator has them.
var unseen = map[right]string{
	{"spate.dev", "trafficgenerators/finalizers", "update"}: "admission OwnerReferencesPermissionEnforcement (OpenShift) asks the authorizer, which is no request",
	{"spate.dev", "trafficprofiles/finalizers", "update"}:   "admission OwnerReferencesPermissionEnforcement (OpenShift) asks the authorizer, which is no request",
	{"spate.dev", "trafficruns/finalizers", "update"}:       "admission OwnerReferencesPermissionEnforcement (OpenShift) asks the authorizer, which is no request",
	{"spate.dev", "trafficsearches/finalizers", "update"}:   "admission OwnerReferencesPermissionEnforcement (OpenShift) asks the authorizer, which is no request",
	{"spate.dev", "trafficcaptures", "delete"}:              "only of one that was not read for 3 minutes (operator/internal/controller/live)",
	{"spate.dev", "trafficpings", "delete"}:                 "only of one that was not read for 3 minutes (operator/internal/controller/live)",
	{"spate.dev", "trafficrecordsreaders", "delete"}:        "only of one that was not read for 3 minutes (operator/internal/controller/live)",
	{"spate.dev", "trafficstatsreaders", "delete"}:          "only of one that was not read for 3 minutes (operator/internal/controller/live)",
}

// rare are rights that a run of the suites may use or not, with what uses them.
var rare = map[right]string{
	{"", "configmaps", "update"}: "only when a plan is stored and not recorded: an operator ends in between (operator/test, TestDrillOperatorKilledInEachPhase), or its write is refused as outdated; and when samples of a run are stored again, 30 s after the first time",
}

// right is one verb on one resource of an API group; the resource has its subresource behind a slash.
type right struct{ group, resource, verb string }

func (r right) String() string {
	if r.group == "" {
		return r.verb + " " + r.resource
	}
	return r.verb + " " + r.resource + "." + r.group
}

// event is what is read of an event of audit.k8s.io/v1.
type event struct {
	Verb string `json:"verb"`
	User struct {
		Username string `json:"username"`
	} `json:"user"`
	ObjectRef struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	Annotations map[string]string `json:"annotations"`
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: rbac AUDIT_LOG")
		os.Exit(2)
	}
	if err := compare(context.Background(), os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "rbac:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, file string, out io.Writer) error {
	granted, err := grants(ctx)
	if err != nil {
		return err
	}
	log, err := os.Open(file)
	if err != nil {
		return err
	}
	defer log.Close()
	used, refused, err := requests(log)
	if err != nil {
		return err
	}
	var problems []error
	for _, r := range sorted(granted) {
		reason, excepted := unseen[r]
		switch {
		case excepted && used[r] > 0:
			problems = append(problems, fmt.Errorf("%s was used, and is listed as one that no request shows", r))
		case excepted:
			fmt.Fprintf(out, "rbac: %s: no request shows it: %s\n", r, reason)
		case used[r] == 0 && rare[r] != "":
			fmt.Fprintf(out, "rbac: %s: not used this time: %s\n", r, rare[r])
		case used[r] == 0 && r.verb == "list" && used[right{r.group, r.resource, "watch"}] > 0:
			fmt.Fprintf(out, "rbac: %s: not needed beside watch by this API server\n", r)
		case used[r] == 0:
			problems = append(problems, fmt.Errorf("%s was granted and never used", r))
		}
	}
	for _, r := range sorted(refused) {
		problems = append(problems, fmt.Errorf("%s was refused %d times", r, refused[r]))
	}
	fmt.Fprintf(out, "rbac: the operator has %d rights and used %d of them\n", len(granted), len(used))
	return errors.Join(problems...)
}

// requests counts the operator's requests by the right they need: those that were allowed, and those that were refused.
func requests(log io.Reader) (used, refused map[right]int, err error) {
	used, refused = map[right]int{}, map[right]int{}
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var event event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			return nil, nil, err
		}
		if event.User.Username != "system:serviceaccount:"+namespace+":"+account || event.ObjectRef.Resource == "" {
			continue
		}
		r := right{event.ObjectRef.APIGroup, event.ObjectRef.Resource, event.Verb}
		if event.ObjectRef.Subresource != "" {
			r.resource += "/" + event.ObjectRef.Subresource
		}
		if event.Annotations[decision] == "allow" {
			used[r]++
		} else {
			refused[r]++
		}
	}
	return used, refused, lines.Err()
}

// grants returns what the roles allow that are bound to the operator's service account.
func grants(ctx context.Context) (map[right]int, error) {
	scheme := runtime.NewScheme()
	if err := rbacv1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, err
	}
	kube, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	var clusterBindings rbacv1.ClusterRoleBindingList
	var bindings rbacv1.RoleBindingList
	if err := errors.Join(kube.List(ctx, &clusterBindings), kube.List(ctx, &bindings)); err != nil {
		return nil, err
	}
	all := map[right]int{}
	add := func(rules []rbacv1.PolicyRule) {
		for _, rule := range rules {
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, verb := range rule.Verbs {
						all[right{group, resource, verb}]++
					}
				}
			}
		}
	}
	ofRole := func(reference rbacv1.RoleRef, namespace string) error {
		if reference.Kind == "ClusterRole" {
			var role rbacv1.ClusterRole
			err := kube.Get(ctx, client.ObjectKey{Name: reference.Name}, &role)
			add(role.Rules)
			return err
		}
		var role rbacv1.Role
		err := kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: reference.Name}, &role)
		add(role.Rules)
		return err
	}
	for _, b := range clusterBindings.Items {
		if slices.ContainsFunc(b.Subjects, operator) {
			if err := ofRole(b.RoleRef, ""); err != nil {
				return nil, err
			}
		}
	}
	for _, b := range bindings.Items {
		if slices.ContainsFunc(b.Subjects, operator) {
			if err := ofRole(b.RoleRef, b.Namespace); err != nil {
				return nil, err
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no role is bound to service account %s/%s", namespace, account)
	}
	return all, nil
}

func operator(s rbacv1.Subject) bool {
	return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == namespace && s.Name == account
}

func sorted(rights map[right]int) []right {
	return slices.SortedFunc(maps.Keys(rights), func(a, b right) int { return strings.Compare(a.String(), b.String()) })
}
