package main

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/consul-hds/consul-hds/bridge"
)

// writeStatus writes a status for people.
func writeStatus(w io.Writer, s bridge.Status, colour bool) {
	synced := cell{"synced", green}
	if !s.Consul.Synced {
		synced = cell{"not synced: " + s.Consul.Error, red}
	}
	fmt.Fprintf(w, "consul-hds %s on node %q, Consul at %s %s\n", clean(s.Version), s.Node, clean(s.Consul.Address), synced.painted(colour))
	section(w, fmt.Sprintf("Observers (%d)", len(s.Observers)), row("NODE ID", "KIND", "ENVOY", "PROBES", "APPLIED", "PEER"), observerRows(s), colour)
	if len(s.Refused) > 0 {
		section(w, fmt.Sprintf("Refused in the last 5 minutes (%d)", len(s.Refused)), row("REASON", "COUNT", "LAST", "PEER", "ERROR"), refusedRows(s), colour)
	}
	section(w, fmt.Sprintf("Checks (%d)", len(s.Checks)), row("SERVICE", "CHECK ID", "PHASE", "STATUS", "OUTPUT"), checkRows(s), colour)
	section(w, fmt.Sprintf("Problems (%d)", len(s.Problems)), nil, problemRows(s), colour)
}

func section(w io.Writer, title string, header []cell, rows [][]cell, colour bool) {
	fmt.Fprintf(w, "\n%s\n", cell{title, bold}.painted(colour))
	if header != nil && len(rows) > 0 {
		rows = append([][]cell{header}, rows...)
	}
	writeTable(w, rows, colour)
}

func observerRows(s bridge.Status) (rows [][]cell) {
	for _, o := range s.Observers {
		r := row(o.NodeID, o.Kind, o.Envoy, strconv.Itoa(o.Probes), strconv.FormatBool(o.Applied), o.Peer)
		if !o.Applied {
			r[4].paint = yellow
		}
		rows = append(rows, r)
	}
	return rows
}

// refusedRows are the Envoys that were not let in, the newest of each reason.
func refusedRows(s bridge.Status) (rows [][]cell) {
	for _, r := range s.Refused {
		out := row(r.Reason, strconv.Itoa(r.Count), r.Last.UTC().Format(time.RFC3339), r.Peer, r.Error)
		out[0].paint = yellow
		rows = append(rows, out)
	}
	return rows
}

func checkRows(s bridge.Status) (rows [][]cell) {
	for _, c := range s.Checks {
		phase, status := c.Phase, c.StatusWord()
		if c.Mode == "shadow" {
			phase += ", shadow"
		}
		if c.Shadow != nil {
			phase += fmt.Sprintf(" (as Consul's own checks: %d of %d)", c.Shadow.Agreed, c.Shadow.Agreed+c.Shadow.Differed)
		}
		if c.Maintenance != "" {
			status += ", " + c.Maintenance + " in maintenance"
		}
		r := row(c.Service, c.CheckID, phase, status, c.Output)
		r[3].paint = map[string]paint{"passing": green, "warning": yellow, "critical": red}[c.Status]
		if c.Phase == "stale" {
			r[2].paint = yellow
		}
		rows = append(rows, r)
	}
	return rows
}

func problemRows(s bridge.Status) (rows [][]cell) {
	for _, p := range s.Problems {
		r := row(p.ServiceID, p.Source, p.Message)
		r[1].paint = yellow
		rows = append(rows, r)
	}
	return rows
}
