// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// clients adds a row that answers: how many emulated clients are bound, how fast, and what became of the others?
func clients(d *dashboard.DashboardBuilder) {
	const setup = "spate_client_setup_seconds_bucket"
	events := func(names string) query {
		return query{rate("clients, event", "spate_client_events_total", ofRun+`,event=~"`+names+`"`), "{{clients}} {{event}}"}
	}
	// Of all clients since the run was prepared: most are bound before it sends, within a scrape or two.
	times := func(of float64, name string) query {
		return query{fmt.Sprintf("histogram_quantile(%g, %s)", of, total("clients, le", setup, ofRun)), "{{clients}} " + name}
	}
	d.WithRow(row("Clients")).
		WithPanel(graph("Clients by state", "Bound, Renewing and Rebinding ones have their addresses.", "short", 12,
			query{total("clients, state", "spate_clients", ofRun), "{{clients}} {{state}}"})).
		WithPanel(graph("Clients that have failed", "By cause; they go on to try.", "short", 12,
			query{total("clients, cause", "spate_clients_failed", ofRun), "{{clients}} {{cause}}"})).
		WithPanel(graph("Setups, renewals and losses", "Clients bound the first time, leases prolonged, and addresses that clients had and have no more.", "cps", 8,
			events("setups|renewals|leases_lost"))).
		WithPanel(graph("Messages of DHCP", "Sent and received, by type.", "pps", 8, events("dhcp4_.*|dhcp6_.*"))).
		WithPanel(graph("Setup time", "From the start of a client until it was bound, of all clients so far.", "s", 8, times(0.5, "p50"), times(0.99, "p99")))
}
