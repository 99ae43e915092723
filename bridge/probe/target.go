package probe

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

// definitionFormat goes into every cluster's name: it has to change when the
// same settings begin to be sent to Envoys in another form, for an Envoy that
// lives through an upgrade must not update a cluster in place.
const definitionFormat = 2

// aim decides who observes the probe, and where it connects to.
func (d *deriver) aim(p *Probe, inst *catalog.Instance) error {
	side := d.out.proxies.sidecars
	switch p.Settings.Observer {
	case Node:
		side = nil
	case Auto:
		p.ByNode = len(side) == 0
	}
	p.ByNode = p.ByNode || p.Settings.Observer == Node

	place := placeOf(inst, d.snap.Node)
	if len(side) > 0 {
		place = placeOfSidecar(side[0], inst)
	}
	var err error
	if p.Target, err = d.target(place, p.Settings); err != nil {
		return err
	}
	if p.Settings.Kind != TCP && p.Settings.Host == "" {
		p.Settings.Host = p.Target.host()
	}
	return d.assign(p, inst, side)
}

// assign names the sidecars that observe the probe. One probe has one target: a
// second sidecar that knows the app by another one cannot observe it.
func (d *deriver) assign(p *Probe, inst *catalog.Instance, side []*catalog.Instance) error {
	for _, s := range side {
		t, err := d.target(placeOfSidecar(s, inst), p.Settings)
		if err != nil || t != p.Target {
			d.problem(inst, SourceConsul, fmt.Errorf("sidecar %q does not observe: it reaches the service elsewhere than sidecar %q does", clip(s.ID), clip(side[0].ID)))
			continue
		}
		p.Sidecars = append(p.Sidecars, s.ID)
	}
	return nil
}

// warnOfAlias reports the sidecars of a probed instance that would go on to get
// mesh traffic when the instance is critical: where an operator gives a sidecar
// checks of its own, Consul adds no alias check of its service (consul #5332).
func (d *deriver) warnOfAlias(inst *catalog.Instance) {
	for _, s := range d.out.proxies.bare {
		d.problem(inst, SourceConsul, fmt.Errorf("sidecar %q has no alias check of this service: a critical service would still get mesh traffic; add one to the sidecar's checks", clip(s.ID)))
	}
}

// warnOfForeign reports the proxies that would be sidecars of a probed instance if
// they named its service.
func (d *deriver) warnOfForeign(inst *catalog.Instance) {
	for _, s := range d.out.proxies.foreign {
		d.problem(inst, SourceConsul, fmt.Errorf("proxy %q is not taken for a sidecar of it: it names this id, and the service %q in place of %q",
			clip(s.ID), clip(s.Proxy.DestinationServiceName), inst.Service))
	}
}

// place is where an instance is, before a probe's own address or port.
type place struct {
	address string
	port    int
	socket  string
}

// placeOf is where a node Envoy finds an instance.
func placeOf(inst *catalog.Instance, node catalog.Node) place {
	return place{address: cmp.Or(inst.Address, node.Address), port: inst.Port, socket: inst.SocketPath}
}

// placeOfSidecar is where an instance's own sidecar finds it. What a sidecar's
// registration leaves out has Consul's default (facts/consul.md 0.18, 4).
func placeOfSidecar(side, inst *catalog.Instance) place {
	return place{
		address: cmp.Or(side.Proxy.LocalServiceAddress, "127.0.0.1"),
		port:    cmp.Or(side.Proxy.LocalServicePort, inst.Port),
		socket:  side.Proxy.LocalServiceSocketPath,
	}
}

// errRegistered is a fault of what the instance is registered with, and not of
// what its probe asks for.
type errRegistered struct{ error }

// Unwrap is for errors.Is and errors.As.
func (e errRegistered) Unwrap() error { return e.error }

// registered marks a fault, if there is one, as the registration's own if it is.
func registered(err error, own bool) error {
	if err == nil || !own {
		return err
	}
	return errRegistered{err}
}

// target is the probe's target at a place: its own address and port beat the
// place's.
func (d *deriver) target(pl place, s Settings) (Target, error) {
	if pl.socket != "" && s.Address == "" && s.Port == 0 {
		return Target{Socket: pl.socket}, registered(CheckSocket(pl.socket), true)
	}
	address, port := cmp.Or(s.Address, pl.address), cmp.Or(s.Port, pl.port)
	if address == "" {
		return Target{}, registered(errors.New("the service has no address and the node's is not known: set consul.node_name or consul.node_address, give the token agent:read, or set hds_address"), true)
	}
	if port == 0 {
		return Target{}, registered(errors.New("the service has no port: set hds_port, or port in the config"), true)
	}
	if err := CheckPort(port); err != nil {
		return Target{}, registered(fmt.Errorf("port %w", err), s.Port == 0)
	}
	addr, err := d.address(address)
	if err != nil {
		return Target{}, registered(fmt.Errorf("address %w", err), s.Address == "")
	}
	return Target{Addr: netip.AddrPortFrom(addr, uint16(port))}, nil
}

// address is an IP address as it stands, or that of a host name: an Envoy is
// never sent a name, which would be its death (facts/envoy-hds.md 0.4).
func (d *deriver) address(s string) (netip.Addr, error) {
	if !isHostName(s) {
		return ParseAddress(s)
	}
	switch n := look(&d.out.names, d.world.Names, s); {
	case !n.there:
		return netip.Addr{}, errWaiting
	case n.Good:
		if n.Err != nil {
			d.unresolved = fmt.Errorf("host name %q does not resolve any more, its last address %s is probed: %w", s, n.Value, n.Err)
		}
		return n.Value, nil
	default:
		return netip.Addr{}, fmt.Errorf("%q cannot be probed yet: %w", s, n.Err)
	}
}

// host is what a probe's Host header says when nothing else is wanted.
func (t Target) host() string {
	if t.Socket != "" {
		return "localhost"
	}
	return t.Addr.String()
}

// String is the target as people write it: 127.0.0.1:80, [::1]:80 or
// unix:///run/app.sock.
func (t Target) String() string {
	if t.Socket != "" {
		return "unix://" + t.Socket
	}
	return t.Addr.String()
}

// clusterName names the HDS cluster of a probe after its check and its
// definition. Who observes it, and what becomes
// of the verdict, is no part of the definition.
func clusterName(p *Probe) string {
	s := p.Settings
	s.Observer, s.Mode, s.TLSCAFile, s.TLSCertFile, s.TLSKeyFile = "", "", "", "", ""
	canonical, err := json.Marshal(struct {
		Format   int
		Settings Settings
		Target   string
		TLS      string
	}{definitionFormat, s, p.Target.String(), p.TLS.digest()})
	if err != nil {
		panic(fmt.Sprintf("probe settings are plain data, yet: %v", err))
	}
	sum := sha256.Sum256(canonical)
	return p.CheckID + "@" + hex.EncodeToString(sum[:4])
}

// Expects says whether an HTTP probe is content with a status code.
func (p *Probe) Expects(code int) bool {
	return slices.ContainsFunc(p.Settings.ExpectedStatuses, func(r StatusRange) bool {
		return r.First <= code && code <= r.Last
	})
}

// Subject says in a few words what is probed, for outputs and logs.
func (p *Probe) Subject() string {
	s := p.Settings
	kind := string(s.Kind)
	if p.TLS != nil && s.Kind != HTTP {
		kind += "+tls"
	}
	switch {
	case s.Kind == GRPC && s.GRPCService != "":
		return fmt.Sprintf("%s %s of %s", kind, clip(s.GRPCService), p.Target)
	case s.Kind != HTTP:
		return kind + " " + p.Target.String()
	case p.Target.Socket != "":
		return fmt.Sprintf("http %s %s at %s", s.Method, clip(s.Path), p.Target)
	case p.TLS != nil:
		return fmt.Sprintf("http %s https://%s%s", s.Method, p.Target, clip(s.Path))
	}
	return fmt.Sprintf("http %s http://%s%s", s.Method, p.Target, clip(s.Path))
}

// Title is the name of the probe's Consul check.
func (p *Probe) Title() string {
	what := clip(p.Settings.Path)
	switch {
	case p.Settings.Kind == HTTP:
	case p.Target.Socket != "":
		what = p.Target.Socket
	default:
		what = fmt.Sprint(p.Target.Addr.Port())
	}
	return fmt.Sprintf("Envoy HDS: %s %s", p.Settings.Kind, what)
}
