// Package config reads the daemon's configuration: HCL or JSON files,
// environment variables and flags, laid over one another attribute by
// attribute, with every fault reported at once.
package config

import (
	"time"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// Config is the whole configuration of the daemon, after layering and
// validation. The hcl tags are the schema: the names of blocks and attributes
// in files, and of the flags and variables made of them.
type Config struct {
	// LogLevel is trace, debug, info, warn or error.
	LogLevel string `hcl:"log_level"`
	// LogJSON writes each log line as a JSON object.
	LogJSON bool `hcl:"log_json"`
	// DataDir holds the lock file. Nothing else must survive a restart.
	DataDir string `hcl:"data_dir"`

	Consul    Consul    `hcl:"consul,block"`
	HDS       HDS       `hcl:"hds,block"`
	Defaults  Defaults  `hcl:"defaults,block"`
	Checks    Checks    `hcl:"checks,block"`
	Admin     Admin     `hcl:"admin,block"`
	Telemetry Telemetry `hcl:"telemetry,block"`

	// Services are the service blocks of all files, in order.
	Services []probe.Service
}

// Consul says how to reach the local agent. What is unset comes from the
// CONSUL_* variables that every Consul tool reads.
type Consul struct {
	// Address is host:port, http://, https:// or unix://.
	Address string `hcl:"address"`
	// Token is the ACL token. It is never a flag and never shown.
	Token string `hcl:"token"`
	// TokenFile holds the ACL token; it is read again when it changes.
	TokenFile string `hcl:"token_file"`
	// Namespace and Partition are passed through when set (Consul Enterprise).
	Namespace string `hcl:"namespace"`
	Partition string `hcl:"partition"`
	// NodeName is the agent's node; when empty it is asked of the agent.
	NodeName string `hcl:"node_name"`
	// NodeAddress stands in for a service's empty address; when empty it is
	// asked of the agent.
	NodeAddress string `hcl:"node_address"`
	// PollInterval is the pause between two safety polls of the agent.
	PollInterval time.Duration `hcl:"poll_interval"`
	TLS          ConsulTLS     `hcl:"tls,block"`
}

// ConsulTLS is the TLS towards the Consul agent.
type ConsulTLS struct {
	CAFile     string `hcl:"ca_file"`
	CertFile   string `hcl:"cert_file"`
	KeyFile    string `hcl:"key_file"`
	ServerName string `hcl:"server_name"`
	SkipVerify bool   `hcl:"skip_verify"`
}

// HDS says how Envoys reach the daemon and what they are told.
type HDS struct {
	// Listen are unix:// paths and host:port addresses.
	Listen []string `hcl:"listen"`
	// SocketMode is the octal mode of the unix sockets.
	SocketMode string `hcl:"socket_mode"`
	// SocketGroup is the group, by name or number, that owns the unix sockets;
	// empty leaves it alone.
	SocketGroup string `hcl:"socket_group"`
	// NodeIDs are globs of the Envoy node ids that are node Envoys.
	NodeIDs []string `hcl:"node_ids"`
	// ReportInterval is the pause between two reports of an Envoy.
	ReportInterval time.Duration `hcl:"report_interval"`
	// MaxStreams bounds the open streams.
	MaxStreams int `hcl:"max_streams"`
	// AllowPlaintext permits TCP listeners off loopback without TLS.
	AllowPlaintext bool `hcl:"allow_plaintext"`
	// Auth is none or consul.
	Auth string `hcl:"auth"`
	TLS  HDSTLS `hcl:"tls,block"`
}

// HDSTLS is the TLS of the TCP listeners.
type HDSTLS struct {
	CertFile          string   `hcl:"cert_file"`
	KeyFile           string   `hcl:"key_file"`
	ClientCAFile      string   `hcl:"client_ca_file"`
	AllowedIdentities []string `hcl:"allowed_identities"`
}

// Defaults are the attributes of probes that set none of their own.
type Defaults struct {
	Interval           time.Duration `hcl:"interval"`
	Timeout            time.Duration `hcl:"timeout"`
	HealthyThreshold   int           `hcl:"healthy_threshold"`
	UnhealthyThreshold int           `hcl:"unhealthy_threshold"`
	// Observer is auto, sidecar or node.
	Observer string `hcl:"observer"`
	// Mode is enforce or shadow.
	Mode string `hcl:"mode"`
	// CAFile serves every probe with tls that names none.
	CAFile string `hcl:"ca_file"`
}

// Checks says how verdicts become Consul checks.
type Checks struct {
	// TTL is the TTL of every check.
	TTL time.Duration `hcl:"ttl"`
	// InitialStatus of an instance that appears: critical, warning, passing, none.
	InitialStatus string `hcl:"initial_status"`
	// StaleAfter is how long a probe may go without an answer.
	StaleAfter time.Duration `hcl:"stale_after"`
	// OnStale is expire, critical or keep.
	OnStale string `hcl:"on_stale"`
	// AdoptTimeout bounds how long a check is kept alive without an answer.
	AdoptTimeout time.Duration `hcl:"adopt_timeout"`
	// OrphanGrace is how long a check of ours that no probe explains is kept.
	OrphanGrace time.Duration `hcl:"orphan_grace"`
	// OnShutdown is keep, deregister or critical.
	OnShutdown string `hcl:"on_shutdown"`
}

// Admin is the HTTP interface for people and scripts.
type Admin struct {
	// Listen is host:port; it must be loopback.
	Listen string `hcl:"listen"`
	// MetricsListen serves only metrics and health, and may be off loopback.
	MetricsListen string `hcl:"metrics_listen"`
	// EnableDebug adds /debug/pprof.
	EnableDebug bool `hcl:"enable_debug"`
}

// Telemetry sends metrics to statsd; Prometheus is always there. The names are
// those of Consul's own block.
type Telemetry struct {
	// StatsdAddress is host:port.
	StatsdAddress string `hcl:"statsd_address"`
	// DogstatsdAddr is host:port, or unix:// and the path of a datagram socket.
	DogstatsdAddr string `hcl:"dogstatsd_addr"`
	// DogstatsdTags are name:value, and go with every series.
	DogstatsdTags []string `hcl:"dogstatsd_tags"`
}
