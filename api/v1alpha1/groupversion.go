// SPDX-License-Identifier: Apache-2.0

// The group and version under which the kinds are registered in a scheme.

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var (
	// GroupVersion of every kind in this package.
	GroupVersion = schema.GroupVersion{Group: "spate.dev", Version: "v1alpha1"}

	// SchemeGroupVersion is GroupVersion by the name that generated clients use.
	SchemeGroupVersion = GroupVersion

	// SchemeBuilder collects the functions that add this package's kinds to a scheme.
	SchemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme adds this package's kinds to a scheme.
	AddToScheme = SchemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&TrafficGenerator{}, &TrafficGeneratorList{},
		&StatelessStream{}, &StatelessStreamList{},
		&ASTFTemplate{}, &ASTFTemplateList{},
		&ClientGroup{}, &ClientGroupList{},
		&TrafficProfile{}, &TrafficProfileList{},
		&TrafficRun{}, &TrafficRunList{},
		&TrafficSearch{}, &TrafficSearchList{},
		&TrafficCapture{}, &TrafficCaptureList{},
		&TrafficPing{}, &TrafficPingList{},
		&TrafficRecordsReader{}, &TrafficRecordsReaderList{},
		&TrafficStatsReader{}, &TrafficStatsReaderList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
