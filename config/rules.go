package config

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/hashicorp/hcl/v2"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

const shortTTL = 30 * time.Second

// checkRules checks what depends on several attributes. A rule is silent when
// one of them is faulty already.
func (l *loader) checkRules() {
	l.checkTimes()
	l.checkPairs()
	l.checkListening()
	l.checkChecks()
}

func (l *loader) checkTimes() {
	const ttl, stale, report = "checks.ttl", "checks.stale_after", "hds.report_interval"
	c, h := l.config.Checks, l.config.HDS
	l.require(c.TTL >= 3*h.ReportInterval, []string{ttl, report},
		"checks.ttl is %s, less than three times hds.report_interval, %s: a check would expire between two reports", c.TTL, h.ReportInterval)
	l.require(c.StaleAfter >= 2*h.ReportInterval, []string{stale, report},
		"checks.stale_after is %s, less than twice hds.report_interval, %s: a probe would be stale between two reports", c.StaleAfter, h.ReportInterval)
	l.require(c.StaleAfter < c.TTL, []string{stale, ttl},
		"checks.stale_after is %s, and must be less than checks.ttl, %s: a check would expire before its probe is stale", c.StaleAfter, c.TTL)
	if c.TTL < shortTTL && !l.bad[ttl] {
		l.warn(ttl, "%s is short: a restart or an upgrade of the Consul agent that takes longer than this lets healthy checks expire", c.TTL)
	}
}

func (l *loader) checkPairs() {
	for _, p := range [][2]string{
		{"consul.tls.cert_file", "consul.tls.key_file"},
		{"hds.tls.cert_file", "hds.tls.key_file"},
	} {
		l.require(l.text(p[0]) == "" || l.text(p[1]) != "", []string{p[0], p[1]}, "%s needs %s too", p[0], p[1])
		l.require(l.text(p[1]) == "" || l.text(p[0]) != "", []string{p[1], p[0]}, "%s needs %s too", p[1], p[0])
	}
	l.require(l.config.HDS.TLS.ClientCAFile == "" || l.config.HDS.TLS.CertFile != "",
		[]string{"hds.tls.client_ca_file", "hds.tls.cert_file"}, "hds.tls.client_ca_file needs hds.tls.cert_file too")
	l.require(len(l.config.Telemetry.DogstatsdTags) == 0 || l.config.Telemetry.DogstatsdAddr != "",
		[]string{"telemetry.dogstatsd_tags", "telemetry.dogstatsd_addr"}, "telemetry.dogstatsd_tags needs telemetry.dogstatsd_addr too")
	l.require(len(l.config.HDS.TLS.AllowedIdentities) == 0 || l.config.HDS.TLS.ClientCAFile != "",
		[]string{"hds.tls.allowed_identities", "hds.tls.client_ca_file"}, "hds.tls.allowed_identities needs hds.tls.client_ca_file too")
}

func (l *loader) text(path string) string {
	return l.byPath[path].field(l.config).String()
}

// checkListening checks the addresses of all listeners together.
func (l *loader) checkListening() {
	const listen, admin, metrics = "hds.listen", "admin.listen", "admin.metrics_listen"
	h := l.config.HDS
	seen := map[string]string{}
	for _, a := range h.Listen {
		l.checkUnique(seen, listen, a)
		if addr, err := parseTCP(a); err == nil && !l.bad[listen] && !l.bad["hds.tls.cert_file"] {
			l.checkTCP(a, addr)
		}
	}
	l.checkUnused()
	l.checkUnique(seen, admin, l.config.Admin.Listen)
	if m := l.config.Admin.MetricsListen; m != "" {
		l.checkUnique(seen, metrics, m)
	}
}

// checkTCP checks what protects a TCP address.
func (l *loader) checkTCP(address string, addr netip.AddrPort) {
	const listen = "hds.listen"
	h := l.config.HDS
	byToken := h.Auth == "consul"
	switch {
	case h.TLS.CertFile != "":
		if !loopback(addr) && h.TLS.ClientCAFile == "" && !byToken && !l.bad["hds.tls.client_ca_file"] {
			l.warn(listen, "%s is off loopback, and hds.tls has no client_ca_file: whoever reaches it may claim to be any Envoy", address)
		}
		return
	case !loopback(addr):
		l.require(h.AllowPlaintext, []string{listen, "hds.allow_plaintext"},
			"%s is off loopback: it needs hds.tls, or hds.allow_plaintext = true where the network keeps strangers away", address)
		if h.AllowPlaintext && !byToken {
			l.warn(listen, "%s is off loopback and plain text: whoever reaches it may claim to be any Envoy", address)
		}
	}
	if byToken {
		l.warn("hds.auth", "tokens cross %s in plain text", address)
	}
}

// checkUnused tells of TLS that no listener uses: unix sockets never do.
func (l *loader) checkUnused() {
	h := l.config.HDS
	isTCP := func(s Listener) bool { return s.Network == "tcp" }
	if h.TLS.CertFile != "" && !l.bad["hds.listen"] && !slices.ContainsFunc(h.Listeners(), isTCP) {
		l.warn("hds.tls.cert_file", "hds.listen has no TCP address: hds.tls has no effect on unix sockets")
	}
}

// loopback says whether only this node reaches an address. The unspecified
// address stands for all of them.
func loopback(a netip.AddrPort) bool { return a.Addr().IsLoopback() }

func (l *loader) checkUnique(seen map[string]string, path, address string) {
	_, canonical, err := parseListener(address)
	if err != nil {
		return // reported already
	}
	if before, ok := seen[canonical]; ok {
		l.require(false, []string{path, before}, "%s is given twice, in %s and %s", address, before, path)
		return
	}
	seen[canonical] = path
}

// checkChecks checks what the attributes of each check add up to, with the
// defaults that it falls back to.
func (l *loader) checkChecks() {
	defaults := l.config.Rules().Defaults
	long := probe.CheckGrace(defaults)
	l.require(long == nil, []string{"defaults.interval", "defaults.timeout", "defaults.unhealthy_threshold"}, "%v", long)
	for _, c := range l.checks {
		if c.bad {
			continue
		}
		s := effective(c.settings, defaults)
		faults := []error{probe.CheckPayloads(s)}
		if long == nil { // else each check that does not set them all would repeat it
			faults = append(faults, probe.CheckGrace(s))
		}
		if s.TLS == probe.On && (s.TLSCAFile != "" || !l.bad[caPath]) {
			faults = append(faults, probe.CheckTLS(s))
		}
		for _, err := range faults {
			if err != nil {
				l.refuse("check", c.at, err)
			}
		}
	}
}

// require reports a rule over several attributes that is not kept, unless one
// of them is faulty. It points at the first that does not have its default.
func (l *loader) require(ok bool, paths []string, format string, args ...any) {
	if ok {
		return
	}
	at := ""
	for _, p := range paths {
		if l.bad[p] {
			return
		}
		if at == "" && l.sources[p] != (Source{}) {
			at = p
		}
	}
	if at == "" {
		at = paths[0]
	}
	l.diags = append(l.diags, diagnostic(hcl.DiagError, at, l.sources[at], fmt.Sprintf(format, args...)))
}

func (l *loader) warn(path, format string, args ...any) {
	l.diags = append(l.diags, diagnostic(hcl.DiagWarning, path, l.sources[path], fmt.Sprintf(format, args...)))
}
