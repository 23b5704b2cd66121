// SPDX-License-Identifier: Apache-2.0

// How do messages of group membership become bytes: IGMP, and MLD in ICMPv6?

package packet

import (
	"encoding/binary"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	spatev1 "spate.dev/api/v1alpha1"
)

const (
	defaultRobustness    = 2   // RFC 3376 section 8.1, RFC 3810 section 9.1
	defaultQueryInterval = 125 // seconds: RFC 3376 section 8.2, RFC 3810 section 9.2
	defaultIGMPResponse  = 100 // tenths of a second: RFC 2236 section 8.3, RFC 3376 section 8.3
	defaultMLDResponse   = 10000
	routerAlertIPv6      = 5 // RFC 2711; the value for MLD is 0

	igmpQuery    = 0x11
	igmpReportV3 = 0x22
	mldQuery     = 130
	mldReportV1  = 131
	mldDone      = 132
	mldReportV2  = 143
)

var igmpTypes = map[spatev1.IGMPMessage]uint64{
	spatev1.IGMPQueryV1: igmpQuery, spatev1.IGMPQueryV2: igmpQuery, spatev1.IGMPQueryV3: igmpQuery,
	spatev1.IGMPReportV1: 0x12, spatev1.IGMPReportV2: 0x16, spatev1.IGMPReportV3: igmpReportV3, spatev1.IGMPLeave: 0x17,
}

var mldTypes = map[spatev1.MLDMessage]uint64{
	spatev1.MLDQueryV1: mldQuery, spatev1.MLDQueryV2: mldQuery, spatev1.MLDReportV1: mldReportV1, spatev1.MLDReportV2: mldReportV2, spatev1.MLDDone: mldDone,
}

var recordTypes = map[spatev1.MulticastRecordType]uint64{
	spatev1.ModeIsInclude: 1, spatev1.ModeIsExclude: 2, spatev1.ChangeToIncludeMode: 3, spatev1.ChangeToExcludeMode: 4,
	spatev1.AllowNewSources: 5, spatev1.BlockOldSources: 6,
}

// The parts of queries and reports behind those of all messages (RFC 3376 section 4, RFC 3810 section 5).
var (
	querierLayout    = layout{{"", 4}, {"suppressRouterProcessing", 1}, {"qrv", 3}, {"qqic", 8}, {"numberOfSources", 16}}
	igmpReportLayout = layout{{"type", 8}, {"", 8}, {"checksum", 16}, {"", 16}, {"numberOfGroupRecords", 16}}
	mldReportLayout  = layout{{"type", 8}, {"code", 8}, {"checksum", 16}, {"", 16}, {"numberOfMulticastAddressRecords", 16}}
	mldLayout        = layout{{"type", 8}, {"code", 8}, {"checksum", 16}, {"maximumResponseCode", 16}, {"", 16}, {"multicastAddress", 128}}
)

// membership is a message of IGMP or MLD in common terms; its names are those of the API's fields.
type membership struct {
	// query is true for queries of all versions, querier for those with the fields of a querier, report for those with records.
	query, querier, report bool
	// newest is the message with the fields of a querier, reporting the one with records.
	newest, reporting string

	addressName, responseName, recordsName, countName string

	address                      string
	response                     *int32
	defaultResponse, maxResponse int64
	suppress                     bool
	qrv, qqic                    *int32
	sources                      []string
	records                      []spatev1.MulticastRecord
	// parse reads an address of the protocol's family.
	parse func(text string, at *field.Path) []byte
}

func (s *stack) igmp(d *spatev1.IGMPHeader, at *field.Path) *header {
	kind, known := igmpTypes[d.Message]
	if !known {
		s.fail(field.NotSupported(at.Child("message"), d.Message, sorted(igmpTypes)))
		return lay(IGMP)
	}
	m := membership{
		query: kind == igmpQuery, querier: d.Message == spatev1.IGMPQueryV3, report: kind == igmpReportV3,
		addressName: "groupAddress", recordsName: "groupRecords", countName: "numberOfGroupRecords", newest: string(spatev1.IGMPQueryV3), reporting: string(spatev1.IGMPReportV3),
		address: string(d.GroupAddress), response: d.MaxRespCode, responseName: "maxRespCode", defaultResponse: defaultIGMPResponse, maxResponse: 255,
		suppress: d.SuppressRouterProcessing, qrv: d.QRV, qqic: d.QQIC, sources: d.SourceAddresses, records: d.GroupRecords,
		parse: func(text string, at *field.Path) []byte { return s.ipv4Address(spatev1.IPv4Address(text), at) },
	}
	if d.Message == spatev1.IGMPQueryV1 {
		m.defaultResponse = 0 // by which version 1 is known (RFC 3376 section 7.1)
	}
	h := lay(IGMP)
	if m.report {
		h = &header{kind: IGMP, fields: map[string]Location{}}
		h.extend(igmpReportLayout)
	}
	h.set("type", kind)
	s.member(h, m, at)
	h.summed(s.given(d.Checksum, at.Child("checksum")), sum{})
	return h
}

func (s *stack) multicastListener(d *spatev1.MulticastListener, at *field.Path) *header {
	h := &header{kind: ICMPv6, fields: map[string]Location{}}
	kind, known := mldTypes[d.Message]
	if !known {
		s.fail(field.NotSupported(at.Child("message"), d.Message, sorted(mldTypes)))
		return lay(ICMPv6)
	}
	m := membership{
		query: kind == mldQuery, querier: d.Message == spatev1.MLDQueryV2, report: kind == mldReportV2,
		addressName: "multicastAddress", recordsName: "multicastAddressRecords", countName: "numberOfMulticastAddressRecords", newest: string(spatev1.MLDQueryV2), reporting: string(spatev1.MLDReportV2),
		address: string(d.MulticastAddress), response: d.MaximumResponseCode, responseName: "maximumResponseCode", defaultResponse: defaultMLDResponse, maxResponse: 65535,
		suppress: d.SuppressRouterProcessing, qrv: d.QRV, qqic: d.QQIC, sources: d.SourceAddresses, records: d.MulticastAddressRecords,
		parse: s.ipv6Address,
	}
	if m.report {
		h.extend(mldReportLayout)
	} else {
		h.extend(mldLayout)
	}
	h.set("type", kind)
	s.member(h, m, at)
	return h
}

// member writes what the messages of both protocols have behind their type and checksum.
func (s *stack) member(h *header, m membership, at *field.Path) {
	h.closed = true
	s.memberFits(m, at)
	if m.report {
		h.set(m.countName, s.entries(len(m.records), at.Child(m.recordsName)))
		for i := range m.records {
			s.record(h, m, &m.records[i], at.Child(m.recordsName).Index(i))
		}
		return
	}
	if m.address != "" {
		h.copy(m.addressName, m.parse(m.address, at.Child(m.addressName)))
	}
	if m.query {
		h.set(m.responseName, s.optional(m.response, m.defaultResponse, m.maxResponse, at.Child(m.responseName)))
	}
	if !m.querier {
		return
	}
	h.extend(querierLayout)
	h.flag("suppressRouterProcessing", m.suppress)
	h.set("qrv", s.optional(m.qrv, defaultRobustness, 7, at.Child("qrv")))
	h.set("qqic", s.optional(m.qqic, defaultQueryInterval, 255, at.Child("qqic")))
	h.set("numberOfSources", s.entries(len(m.sources), at.Child("sourceAddresses")))
	for i, source := range m.sources {
		h.appendBytes("sourceAddress", m.parse(source, at.Child("sourceAddresses").Index(i)))
	}
}

// memberFits refuses fields that the message does not have.
func (s *stack) memberFits(m membership, at *field.Path) {
	switch {
	case m.report && m.address != "":
		s.fail(field.Forbidden(at.Child(m.addressName), m.reporting+" has "+m.recordsName+" instead"))
	case !m.report && !m.query && m.address == "":
		s.fail(field.Required(at.Child(m.addressName), "only queries and "+m.reporting+" have none"))
	}
	if !m.report && len(m.records) > 0 {
		s.fail(field.Forbidden(at.Child(m.recordsName), "goes with message: "+m.reporting))
	}
	if !m.query && m.response != nil {
		s.fail(field.Forbidden(at.Child(m.responseName), "goes with a query"))
	}
	for name, present := range map[string]bool{
		"suppressRouterProcessing": m.suppress, "qrv": m.qrv != nil, "qqic": m.qqic != nil, "sourceAddresses": len(m.sources) > 0,
	} {
		if present && !m.querier {
			s.fail(field.Forbidden(at.Child(name), "goes with message: "+m.newest))
		}
	}
}

// record appends a group record or a multicast address record. Fields of the first can be located by name.
func (s *stack) record(h *header, m membership, r *spatev1.MulticastRecord, at *field.Path) {
	kind, known := recordTypes[r.RecordType]
	if !known {
		s.fail(field.NotSupported(at.Child("recordType"), r.RecordType, sorted(recordTypes)))
	}
	h.append("recordType", 8, kind)
	h.bytes = append(h.bytes, 0) // no auxiliary data
	h.bytes = binary.BigEndian.AppendUint16(h.bytes, uint16(s.entries(len(r.SourceAddresses), at.Child("sourceAddresses"))))
	h.appendBytes("multicastAddress", m.parse(r.MulticastAddress, at.Child("multicastAddress")))
	for i, source := range r.SourceAddresses {
		h.appendBytes("sourceAddress", m.parse(source, at.Child("sourceAddresses").Index(i)))
	}
}

// entries checks the length of a list that has a field of 16 bits for it, and that a packet has room for.
func (s *stack) entries(count int, at *field.Path) uint64 {
	const most = 128
	if count > most {
		s.fail(field.TooMany(at, count, most))
		return 0
	}
	return uint64(count)
}

// appendBytes adds a field of whole bytes. If the name exists already, it keeps its location.
func (h *header) appendBytes(name string, value []byte) {
	where := Location{len(h.bytes) * 8, len(value) * 8}
	h.bytes = append(h.bytes, value...)
	if _, known := h.fields[name]; !known {
		h.fields[name] = where
	}
}

// announcesMLD reports whether the message behind an IPv6 header, its extension headers skipped, is one of MLD.
func announcesMLD(behind []spatev1.Header) bool {
	at := slices.IndexFunc(behind, func(h spatev1.Header) bool {
		kind, _ := kindOf(&h)
		return !slices.Contains(extensionKinds, kind)
	})
	return at >= 0 && behind[at].ICMPv6 != nil && behind[at].ICMPv6.MulticastListener != nil
}
