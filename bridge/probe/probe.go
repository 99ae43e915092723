// Package probe derives what has to be probed from what is registered. It is
// pure: the same snapshot and rules give the same probes and problems, and
// nothing in it reads a clock, a file or the network. All bounds of probes are
// kept here, so that one place decides what an Envoy may be asked to do.
package probe

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

// Kind is the protocol of a probe.
type Kind string

// The kinds of probes.
const (
	HTTP Kind = "http"
	TCP  Kind = "tcp"
	// GRPC asks the standard health service, grpc.health.v1.Health/Check.
	GRPC Kind = "grpc"
	// Off is no kind of probe: in service meta it withdraws every probe of the
	// instance, also those of the config.
	Off Kind = "off"
)

// ObserverPolicy says which Envoys are to run a probe.
type ObserverPolicy string

// The observer policies. Auto is the instance's own sidecar if one is
// registered, else the node Envoys; never both.
const (
	Auto    ObserverPolicy = "auto"
	Sidecar ObserverPolicy = "sidecar"
	Node    ObserverPolicy = "node"
)

// Mode says what becomes of a probe's verdict.
type Mode string

// The modes. Enforce writes the verdict to Consul; Shadow only shows it.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow"
)

// DefaultName is the name of the probe that service meta describes.
const DefaultName = "default"

// StatusRange is a range of HTTP status codes, both ends included.
type StatusRange struct {
	First, Last int
}

// String is the range as ParseStatuses reads it.
func (r StatusRange) String() string {
	if r.First == r.Last {
		return strconv.Itoa(r.First)
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// Switch is a bool that may be unset.
type Switch string

// The settings of a switch; the zero value is unset.
const (
	On  Switch = "true"
	Not Switch = "false"
)

// Payload is a sequence of bytes to send or to look for.
type Payload string

// MarshalText implements encoding.TextMarshaler, for bytes that are no text.
func (p Payload) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, []byte(p)), nil }

// Settings are the attributes of one probe, from one source. The zero value of
// a field means that the source does not set it: a source that sets a field to
// an invalid zero has to report that itself, with the Check… functions.
type Settings struct {
	Kind Kind

	Interval           time.Duration
	Timeout            time.Duration
	HealthyThreshold   int
	UnhealthyThreshold int
	Observer           ObserverPolicy
	Mode               Mode

	// Address and Port replace the instance's own, for every kind.
	Address string
	Port    int

	// For HTTP only. Headers maps a name to its values.
	Path             string
	Method           string
	Host             string
	Headers          map[string][]string
	ExpectedStatuses []StatusRange
	HTTP2            bool
	Body             Payload

	// For TCP only.
	Send Payload
	// For HTTP and TCP: what the answer has to hold, in this order.
	Receive []Payload

	// For GRPC only: the service asked for; empty is the server as a whole.
	GRPCService string

	// TLS is for every kind. The files are PEM and are read by the daemon.
	TLS           Switch
	TLSServerName string
	TLSCAFile     string
	TLSCertFile   string
	TLSKeyFile    string
	TLSSkipVerify Switch
}

// Check is one check block of the config: a named probe.
type Check struct {
	Name     string
	Settings Settings
	// Places says where each attribute was set.
	Places Places
}

// Service is one service block of the config.
type Service struct {
	// Name is an exact service name or a glob, in which * stands for any text.
	Name   string
	Checks []Check
}

// Rules are what the config says of probes.
type Rules struct {
	// Defaults apply to each probe whose other sources do not set an attribute.
	// Kind and the kinds' own attributes are unset in it.
	Defaults Settings
	// DefaultPlaces says where each of them was set.
	DefaultPlaces Places
	// Services are the service blocks in order of appearance.
	Services []Service
}

// Target is where a probe connects to: an address and port, or a unix socket.
type Target struct {
	Addr   netip.AddrPort
	Socket string
}

// Probe is one health check that an Envoy runs for one instance. It is
// immutable once derived.
type Probe struct {
	// CheckID is the Consul check that the probe feeds, and the probe's identity.
	CheckID   string
	Service   string
	ServiceID string
	Name      string
	Settings  Settings
	Target    Target
	// TLS is nil for a probe in plain text.
	TLS *TLS
	// Sidecars are the service ids of the proxies that observe the probe, in
	// order; ByNode says that the node Envoys do. Never both, but neither where a
	// sidecar is wanted and none is registered.
	Sidecars []string
	ByNode   bool
	// Cluster is the name of the probe's HDS cluster: the check id and a hash of
	// the definition, so that an echoed name proves which definition is applied.
	Cluster string
}

// TLS is the TLS of a probe, with what its files hold.
type TLS struct {
	// ServerName is sent as SNI and has to be a name of the certificate; empty
	// without verification, if none was given.
	ServerName string
	// CA verifies the certificate; nil verifies nothing.
	CA []byte
	// Cert and Key are the client's, both or none of them.
	Cert []byte
	Key  Secret
}

// Secret is a private key: whatever prints it, shows that there is one and
// nothing more.
type Secret []byte

// String implements fmt.Stringer.
func (Secret) String() string { return "(hidden)" }

// GoString implements fmt.GoStringer.
func (Secret) GoString() string { return "(hidden)" }

// Format implements fmt.Formatter: %x and %s of the bytes would show them.
func (s Secret) Format(f fmt.State, _ rune) { fmt.Fprint(f, s.String()) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte("(hidden)"), nil }

// Known is what is known of a host name or a file.
type Known[T any] struct {
	// Value is the last good answer; it means nothing unless Good.
	Value T
	Good  bool
	// Err is why the newest look failed, nil if it did not.
	Err error
}

// World is what probes are derived from, beside the rules.
type World struct {
	Snapshot *catalog.Snapshot
	// Names are the addresses of host names, Files the contents of files, as far
	// as they were looked up: what is missing is awaited.
	Names map[string]Known[netip.Addr]
	Files map[string]Known[[]byte]
}

// Problem is something that keeps a probe from being what its owner asked for.
type Problem struct {
	ServiceID string `json:"service_id"`
	// Source is where the fault is: meta, config, consul or envoy.
	Source  string `json:"source"`
	Message string `json:"message"`
}

// JitterPercent is how much of its interval a probe's pause may be longer.
const JitterPercent = 5

// Prefix begins the id of every check of ours. It is not "_nomad…", whose
// checks Nomad removes (facts/consul.md 5.1).
const Prefix = "hds"

// CheckID is the id of the Consul check of a probe: "hds:<service id>" for the
// probe called default, "hds.<name>:<service id>" for others.
func CheckID(name, serviceID string) string {
	if name == DefaultName {
		return Prefix + ":" + serviceID
	}
	return Prefix + "." + name + ":" + serviceID
}
