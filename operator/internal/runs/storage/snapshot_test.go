// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
)

// store has ConfigMaps by name, and their owners.
type store struct {
	client.Client
	chunks map[string][]byte
	owners []metav1.OwnerReference
	reads  int
}

func (s *store) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	chunk, there := s.chunks[key.Name]
	if !there {
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	}
	s.reads++
	into.(*corev1.ConfigMap).BinaryData = map[string][]byte{keyPacked: chunk, "plan": chunk}
	return nil
}

func (s *store) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	s.owners = append(s.owners, object.GetOwnerReferences()...)
	s.chunks[object.GetName()] = slices.Clone(object.(*corev1.ConfigMap).BinaryData[keyPacked])
	return nil
}

func (s *store) Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	_ = spatev1.AddToScheme(scheme)
	return scheme
}

// aRun returns a run that has been resolved.
func aRun() *spatev1.TrafficRun {
	run := &spatev1.TrafficRun{Status: spatev1.TrafficRunStatus{Resolved: &spatev1.ResolvedRun{}}}
	run.Namespace, run.Name, run.UID = "n", "r", "u"
	return run
}

func TestPlansArePackedAndComeBack(t *testing.T) {
	random := make([]byte, 3<<20) // incompressible
	state := uint64(1)
	for i := range random {
		state = state*6364136223846793005 + 1442695040888963407
		random[i] = byte(state >> 56)
	}
	for name, c := range map[string]struct {
		plan   []byte
		chunks int
	}{
		"copies": {bytes.Repeat([]byte("the copies of a stream differ in a few bytes"), 100000), 1}, "captures": {random, 5},
	} {
		s := &store{chunks: map[string][]byte{}}
		saved, err := Save(t.Context(), s, aRun(), func(w io.Writer) error { _, err := w.Write(c.plan); return err })
		if err != nil || len(saved.Chunks) != c.chunks || saved.Bytes != int64(len(c.plan)) {
			t.Fatalf("%s: %d chunks, %v", name, len(saved.Chunks), err)
		}
		if others := slices.DeleteFunc(slices.Clone(s.owners), func(o metav1.OwnerReference) bool { return o.Kind == "TrafficRun" && o.UID == "u" && *o.Controller }); len(s.owners) != c.chunks || len(others) > 0 {
			t.Errorf("%s: chunks go with %v", name, s.owners)
		}
		run := aRun()
		run.Status.Resolved.Snapshot = saved
		if back, err := Load(t.Context(), s, run); err != nil || !bytes.Equal(back, c.plan) || s.reads != c.chunks {
			t.Errorf("%s: %d bytes came back in %d reads, %v", name, len(back), s.reads, err)
		}
		for what, damage := range map[string]func(*spatev1.Snapshot){
			"is longer":          func(s *spatev1.Snapshot) { s.Bytes-- },
			"its digest differs": func(s *spatev1.Snapshot) { s.Digest = "0" + s.Digest[1:] + "0" },
			"is gone": func(s *spatev1.Snapshot) {
				s.Chunks = append(slices.Clip(s.Chunks), spatev1.DataReference{Kind: spatev1.DataConfigMap, Name: "other", Key: keyPacked})
			},
		} {
			broken := run.DeepCopy()
			damage(&broken.Status.Resolved.Snapshot)
			var lost *LostError
			if _, err := Load(t.Context(), s, broken); !errors.As(err, &lost) || !strings.Contains(err.Error(), what) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
		last := string(saved.Chunks[c.chunks-1].Name)
		s.chunks[last] = s.chunks[last][:len(s.chunks[last])/2]
		var lost *LostError
		if _, err := Load(t.Context(), s, run); !errors.As(err, &lost) {
			t.Errorf("%s: half a chunk is taken: %v", name, err)
		}
		if _, err := readOutline(t.Context(), s, run); !errors.As(err, &lost) {
			t.Errorf("%s: half a chunk is taken: %v", name, err)
		}
	}
}

// A plan with many streams is large even without their frames.
func TestOneLargeOutlineIsInMemoryAtATime(t *testing.T) {
	encoded, err := proto.Marshal(&enginev1.Plan{Streams: []*enginev1.Stream{{Packet: &enginev1.Packet{Frame: make([]byte, Large)}}}})
	if err != nil {
		t.Fatal(err)
	}
	c := &store{chunks: map[string][]byte{}}
	run := aRun()
	run.Status.Resolved.Snapshot, err = Save(t.Context(), c, aRun(), func(w io.Writer) error { _, err := w.Write(encoded); return err })
	if err != nil {
		t.Fatal(err)
	}
	memory, looking := &Memory{Reader: c}, atomic.Int32{}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			if err := memory.Outline(t.Context(), run, func(*enginev1.Plan) error {
				defer looking.Add(-1)
				if looking.Add(1) > 1 {
					t.Error("another is in memory")
				}
				time.Sleep(20 * time.Millisecond)
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// secretStore has one Secret for any name, and counts reads.
type secretStore struct {
	client.Reader
	data  map[string]map[string][]byte
	reads int
}

func (s *secretStore) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.reads++
	into.(*corev1.Secret).Data = s.data[key.Name]
	return nil
}

func TestKeysOfSecretsComeInThePlansOrderAndEachSecretIsReadOnce(t *testing.T) {
	s := &secretStore{data: map[string]map[string][]byte{"b": {"x": []byte("bx"), "y": []byte("by")}, "a": {"x": []byte("ax")}}}
	run := aRun()
	run.Status.Resolved.Snapshot.Secrets = []spatev1.SecretSnapshot{{Name: "b", Key: "y"}, {Name: "a", Key: "x"}, {Name: "b", Key: "x"}}
	memory := &Memory{Live: s}
	encoded, err := memory.Secrets(t.Context(), run)
	got := &enginev1.Plan{}
	if err != nil || proto.Unmarshal(encoded, got) != nil || string(bytes.Join(got.Data, []byte(" "))) != "by ax bx" || s.reads != 2 {
		t.Errorf("%q in %d reads, %v", got.Data, s.reads, err)
	}
	run.Status.Resolved.Snapshot.Secrets[2].ResourceVersion = "7"
	var lost *LostError
	if _, err := memory.Secrets(t.Context(), run); !errors.As(err, &lost) || !strings.Contains(err.Error(), `Secret "b"`) {
		t.Errorf("a Secret that has changed: %v", err)
	}
}

func TestPlansOfEarlierOperatorsAreReadAsTheyAre(t *testing.T) {
	plan := []byte("not packed")
	sum := sha256.Sum256(plan)
	run := aRun()
	run.Status.Resolved.Snapshot = spatev1.Snapshot{Bytes: int64(len(plan)), Digest: hex.EncodeToString(sum[:]), Chunks: []spatev1.DataReference{{Kind: spatev1.DataConfigMap, Name: "r-plan-0", Key: "plan"}}}
	if back, err := Load(t.Context(), &store{chunks: map[string][]byte{"r-plan-0": plan}}, run); err != nil || !bytes.Equal(back, plan) {
		t.Errorf("%q, %v", back, err)
	}
}

func TestStreamsWithOneMarkAreCountedAsTheFirst(t *testing.T) {
	stream := func(name, group string, measure *enginev1.Measure) *enginev1.Stream {
		return &enginev1.Stream{Name: name, Group: group, Measure: measure}
	}
	ipv4 := func(n uint32) *enginev1.Measure {
		return &enginev1.Measure{Mark: &enginev1.Mark{Field: &enginev1.Mark_Ipv4Identification{Ipv4Identification: n}}}
	}
	ipv6 := &enginev1.Measure{Mark: &enginev1.Mark{Field: &enginev1.Mark_Ipv6FlowLabel{Ipv6FlowLabel: 7}}}
	got := countedAs([]*enginev1.Stream{
		stream("a", "", &enginev1.Measure{Flow: true}), stream("b", "", ipv4(7)), stream("c-0", "c", ipv4(9)), stream("c-1", "c", ipv4(9)),
		stream("d", "", ipv4(7)), stream("e", "", ipv6), stream("f-0", "f", ipv4(9)), stream("g", "", nil),
	})
	if want := map[string]string{"d": "b", "f": "c"}; !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
