// SPDX-License-Identifier: Apache-2.0

// Which bytes of ConfigMaps and Secrets does a plan contain, and which does it only refer to? Whoever may read a run's
// ConfigMaps can read the stored plan, so it contains no bytes of Secrets: engines receive these separately.

package plan

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plan/data"
)

func dataOf(in *Input) data.Data {
	d := data.Data{Bytes: in.Data}
	if d.Bytes == nil {
		d.Bytes = map[spatev1.DataReference][]byte{}
	}
	for _, ref := range DataReferences(in.Profile, in.Streams, in.Templates) {
		if ref.Kind == spatev1.DataSecret {
			d.Secrets = append(d.Secrets, ref)
		}
	}
	return d
}

// PlanWithData is Plan with the bytes of Secrets that it refers to: for engines, never to be stored.
func (r *Resolved) PlanWithData(id Identity) *enginev1.Plan {
	p := r.Plan(id)
	p.Data = r.secretBytes
	return p
}

// SecretBytes returns the number of bytes of Secrets that a plan refers to; each key counts once.
func SecretBytes(p *enginev1.Plan) (total int64) {
	each := map[uint32]uint64{}
	count := func(ref *enginev1.DataRef) { // GetBytes of nil is 0
		each[ref.GetIndex()] = max(each[ref.GetIndex()], ref.GetBytes())
	}
	for _, s := range p.GetStreams() {
		count(s.GetReplay().GetData())
	}
	for _, payload := range p.GetStateful().GetPayloads() {
		count(payload.GetData())
	}
	for _, t := range p.GetStateful().GetTemplates() {
		count(t.GetCapture().GetData())
	}
	for _, bytes := range each {
		total += int64(bytes)
	}
	return total
}

// EncodeData returns the bytes to append to an encoded plan, so that it has the data it refers to: encoded messages
// that follow each other are merged.
func EncodeData(data [][]byte) ([]byte, error) {
	bytes, err := proto.Marshal(&enginev1.Plan{Data: data})
	if err != nil {
		return nil, fmt.Errorf("encode the data of Secrets: %w", err)
	}
	return bytes, nil
}
