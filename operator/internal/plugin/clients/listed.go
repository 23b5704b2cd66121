// SPDX-License-Identifier: Apache-2.0

package clients

// This file answers: how is a client shown?

import (
	"cmp"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	spatev1 "spate.dev/api/v1alpha1"
	"spate.dev/operator/internal/engine/enginev1"
	"spate.dev/operator/internal/plugin/output"
)

// listed is a client, for programs.
type listed struct {
	Clients string   `json:"clients"`
	Number  uint64   `json:"number"`
	Pod     string   `json:"pod"`
	MAC     string   `json:"mac"`
	VLANs   []uint32 `json:"vlans,omitempty"`
	State   string   `json:"state"`
	Cause   string   `json:"cause,omitempty"`
	// SetupTime until it was bound; absent if it was not yet.
	SetupTime  *spatev1.MeasuredTime `json:"setupTime,omitempty"`
	IPv4       *ipv4                 `json:"ipv4,omitempty"`
	IPv6       *ipv6                 `json:"ipv6,omitempty"`
	GivenTwice *uint64               `json:"givenTwice,omitempty"`
}

// ipv4 is what a client has of IPv4.
type ipv4 struct {
	Address    string                `json:"address"`
	Gateway    string                `json:"gateway,omitempty"`
	GatewayMAC string                `json:"gatewayMAC,omitempty"`
	Server     string                `json:"server,omitempty"`
	LeaseLeft  *spatev1.MeasuredTime `json:"leaseLeft,omitempty"`
}

// ipv6 is what a client has of IPv6.
type ipv6 struct {
	LinkLocal string                `json:"linkLocal,omitempty"`
	SLAAC     string                `json:"slaac,omitempty"`
	Leased    string                `json:"leased,omitempty"`
	Delegated string                `json:"delegated,omitempty"`
	Router    string                `json:"router,omitempty"`
	RouterMAC string                `json:"routerMAC,omitempty"`
	LeaseLeft *spatev1.MeasuredTime `json:"leaseLeft,omitempty"`
}

func listedOf(pod string, c *enginev1.EmulatedClient) listed {
	made := listed{Clients: c.Group, Number: c.Number, Pod: pod, MAC: mac(c.Mac), State: c.State, Cause: c.Cause, GivenTwice: c.GivenTwice}
	for _, tag := range c.Vlans {
		made.VLANs = append(made.VLANs, tag.Id)
	}
	if c.SetupNs > 0 {
		made.SetupTime = measured(&c.SetupNs)
	}
	if v4 := c.Ipv4; v4 != nil {
		own := address(v4.Address)
		if v4.PrefixLen > 0 {
			own = fmt.Sprintf("%s/%d", own, v4.PrefixLen)
		}
		made.IPv4 = &ipv4{own, address(v4.Gateway), mac(v4.GatewayMac), address(v4.Server), measured(v4.LeaseLeftNs)}
	}
	if v6 := c.Ipv6; v6 != nil {
		delegated := address(v6.Delegated)
		if delegated != "" {
			delegated = fmt.Sprintf("%s/%d", delegated, v6.DelegatedLen)
		}
		made.IPv6 = &ipv6{address(v6.LinkLocal), address(v6.Slaac), address(v6.Leased), delegated, address(v6.Router), mac(v6.RouterMac), measured(v6.LeaseLeftNs)}
	}
	return made
}

func mac(bytes []byte) string { return net.HardwareAddr(bytes).String() }

// address as text; empty if there is none.
func address(bytes []byte) string {
	a, ok := netip.AddrFromSlice(bytes)
	if !ok {
		return ""
	}
	return a.String()
}

func measured(ns *uint64) *spatev1.MeasuredTime {
	if ns == nil {
		return nil
	}
	value := spatev1.MeasuredTime(*ns)
	return &value
}

// report is the document.
type report struct {
	Run     string   `json:"run"`
	Clients []listed `json:"clients"`
}

// row is a client, for CSV.
type row struct {
	Clients   string `json:"clients"`
	Number    uint64 `json:"number"`
	Pod       string `json:"pod"`
	MAC       string `json:"mac"`
	VLANs     string `json:"vlans"`
	State     string `json:"state"`
	Cause     string `json:"cause"`
	IPv4      string `json:"ipv4"`
	Gateway   string `json:"gateway"`
	Server    string `json:"server"`
	LeaseLeft string `json:"leaseLeft"`
	IPv6      string `json:"ipv6"`
	Delegated string `json:"delegated"`
	SetupTime string `json:"setupTime"`
}

func rowOf(c listed) row {
	r := row{Clients: c.Clients, Number: c.Number, Pod: c.Pod, MAC: c.MAC, VLANs: vlans(c.VLANs), State: c.State, Cause: c.Cause, SetupTime: text(c.SetupTime)}
	if c.IPv4 != nil {
		r.IPv4, r.Gateway, r.Server, r.LeaseLeft = c.IPv4.Address, c.IPv4.Gateway, c.IPv4.Server, text(c.IPv4.LeaseLeft)
	}
	if c.IPv6 != nil {
		r.IPv6, r.Delegated = cmp.Or(c.IPv6.Leased, c.IPv6.SLAAC, c.IPv6.LinkLocal), c.IPv6.Delegated
	}
	return r
}

func vlans(ids []uint32) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.FormatUint(uint64(id), 10)
	}
	return strings.Join(texts, "/")
}

// text of a time to milliseconds; empty if it is not known.
func text(t *spatev1.MeasuredTime) string {
	if t == nil {
		return ""
	}
	return time.Duration(*t).Round(time.Millisecond).String()
}

// shown are the clients in every form.
func shown(run *spatev1.TrafficRun, all []listed) output.Shown {
	document := &report{Run: run.Name, Clients: all}
	if document.Clients == nil {
		document.Clients = []listed{}
	}
	rows := make([]row, len(all))
	for i, c := range all {
		rows[i] = rowOf(c)
	}
	return output.Shown{
		Document: document, Lists: []output.List{{Name: "client", Objects: rows}},
		Tables: func(w io.Writer, wide bool) error { return writeTable(w, rows, wide) },
	}
}

// writeTable writes clients for people; wide with pods, gateways, prefixes and times.
func writeTable(w io.Writer, rows []row, wide bool) error {
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	headings := []string{"CLIENTS", "N", "MAC", "VLANS", "STATE", "CAUSE", "IPV4", "SERVER", "LEASE LEFT", "IPV6"}
	if wide {
		headings = append(headings, "POD", "GATEWAY", "DELEGATED", "SETUP TIME")
	}
	fmt.Fprintln(out, strings.Join(headings, "\t"))
	for _, r := range rows {
		cells := []string{r.Clients, strconv.FormatUint(r.Number, 10), r.MAC, r.VLANs, r.State, r.Cause, r.IPv4, r.Server, r.LeaseLeft, r.IPv6}
		if wide {
			cells = append(cells, r.Pod, r.Gateway, r.Delegated, r.SetupTime)
		}
		for i := range cells {
			cells[i] = cmp.Or(cells[i], "-")
		}
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}
	return out.Flush()
}
