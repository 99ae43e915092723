// Package bridge puts the parts together and owns their lives: what Consul
// knows becomes probes, probes become specifiers for Envoys, their reports
// become verdicts, and verdicts become Consul checks.
package bridge

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/consul-hds/consul-hds/bridge/health"
	"github.com/consul-hds/consul-hds/bridge/probe"
)

// Config is everything a bridge needs to run.
type Config struct {
	Version string
	Logger  hclog.Logger
	// DataDir holds the lock file.
	DataDir   string
	Consul    ConsulConfig
	HDS       HDSConfig
	Admin     AdminConfig
	Telemetry TelemetryConfig
	// OnShutdown is what becomes of the checks at an orderly end: keep, deregister
	// or critical.
	OnShutdown string
	// Settings is the part that Reload can change.
	Settings Settings
	// Reload reads the settings anew, for Bridge.Reload. It names what else has
	// changed, which needs a restart.
	Reload func() (s Settings, needRestart []string, err error)
	// Draw draws the random part of pauses, from 0 to below n; nil draws by chance.
	// It is for tests that have to be the same twice, and is called by several
	// goroutines.
	Draw func(n time.Duration) time.Duration
}

// ConsulConfig says how to reach the local agent.
type ConsulConfig struct {
	// Address is host:port, http://, https:// or unix://.
	Address string
	// Token is the ACL token; TokenFile holds it and is read again when it
	// changes. At most one of them is set.
	Token, TokenFile     string
	Namespace, Partition string
	// NodeName and NodeAddress replace what the agent says of its node, where set.
	NodeName, NodeAddress string
	PollInterval          time.Duration
	// CAFile, CertFile, KeyFile, ServerName and SkipVerify are for https.
	CAFile, CertFile, KeyFile, ServerName string
	SkipVerify                            bool
}

// HDSConfig says where Envoys connect to.
type HDSConfig struct {
	// Listen are unix:// paths and host:port addresses.
	Listen []string
	// SocketMode is the mode of unix sockets; SocketGID their group, or negative.
	SocketMode uint32
	SocketGID  int
	MaxStreams int
	// Auth is AuthNone or AuthConsul.
	Auth string
	TLS  HDSTLSConfig
}

// HDSTLSConfig is the TLS of the TCP addresses; without a certificate there is
// none.
type HDSTLSConfig struct {
	// The files are in PEM, and are read again when they change.
	CertFile, KeyFile, ClientCAFile string
	// AllowedIdentities are globs of the URI or DNS names that an Envoy's
	// certificate may hold; empty is any.
	AllowedIdentities []string
}

// AdminConfig says where people and scripts connect to.
type AdminConfig struct {
	Listen        string
	MetricsListen string
	EnableDebug   bool
}

// TelemetryConfig says where metrics are sent to; Prometheus fetches them.
type TelemetryConfig struct {
	// StatsdAddress and DogstatsdAddr are host:port; the second can also be unix://
	// and the path of a socket. Empty sends nothing.
	StatsdAddress, DogstatsdAddr string
	// DogstatsdTags are name:value.
	DogstatsdTags []string
}

// Settings are what can be changed while the bridge runs.
type Settings struct {
	Rules probe.Rules
	// Text is the whole configuration in force for people, without secrets.
	Text string
	// NodeIDs are globs of the node ids that are node Envoys.
	NodeIDs []string
	// ReportInterval is the pause between two reports of an Envoy.
	ReportInterval time.Duration
	// TTL is that of every check; OrphanGrace is how long a check that no probe
	// explains is kept.
	TTL, OrphanGrace time.Duration
	// StaleAfter is how long a probe may go without an answer, AdoptTimeout how
	// long a check may await one as it stands.
	StaleAfter, AdoptTimeout time.Duration
	// OnStale is expire, critical or keep.
	OnStale string
	// InitialStatus of an instance that appears is critical, warning, passing or
	// none.
	InitialStatus string
}

// policy is the part of the settings that verdicts are made by.
func (s Settings) policy() health.Policy {
	initial := health.Status(s.InitialStatus)
	if s.InitialStatus == "none" {
		initial = health.None
	}
	return health.Policy{
		ReportInterval: s.ReportInterval, StaleAfter: s.StaleAfter, AdoptTimeout: s.AdoptTimeout,
		OnStale: health.OnStale(s.OnStale), InitialStatus: initial,
	}
}
