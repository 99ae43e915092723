package config

import (
	"fmt"
	"path/filepath"
	"strconv"
	"time"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// spec is what the hcl tags do not say of an attribute.
type spec struct {
	// value is the default, as a flag would set it.
	value string
	usage string
	// words are the values allowed, in any case.
	words []string
	// check is given a value of the field's type.
	check func(any) error
}

const (
	tokenPath     = "consul.token"
	tokenFilePath = "consul.token_file"
	addressPath   = "consul.address"
	caPath        = "defaults.ca_file"
)

var specs = map[string]spec{
	"log_level": {value: "info", usage: "Lowest level of log lines: trace, debug, info, warn or error.", words: []string{"trace", "debug", "info", "warn", "error"}},
	"log_json":  {value: "false", usage: "Write each log line as a JSON object."},
	"data_dir":  {value: "/run/consul-hds", usage: "Absolute path of the directory that holds the lock file.", check: of(checkAbsolute)},

	"consul.address":         {value: "127.0.0.1:8500", usage: "Address of the local Consul agent: host:port, http://, https:// or unix://.", check: of(checkConsulAddress)},
	"consul.token":           {usage: "ACL token."},
	"consul.token_file":      {usage: "File that holds the ACL token; it is read again when it changes."},
	"consul.namespace":       {usage: "Consul Enterprise namespace to serve."},
	"consul.partition":       {usage: "Consul Enterprise admin partition to serve."},
	"consul.node_name":       {usage: "Name of the agent's node; asked of the agent when unset."},
	"consul.node_address":    {usage: "IP address that stands in for a service's empty address; asked of the agent when unset.", check: of(checkIP)},
	"consul.poll_interval":   {value: "1s", usage: "Pause between two safety polls of the agent.", check: within(100*time.Millisecond, time.Minute)},
	"consul.tls.ca_file":     {usage: "CA certificate that signed the agent's certificate."},
	"consul.tls.cert_file":   {usage: "Client certificate shown to the agent."},
	"consul.tls.key_file":    {usage: "Key of the client certificate."},
	"consul.tls.server_name": {usage: "Name that the agent's certificate must hold."},
	"consul.tls.skip_verify": {value: "false", usage: "Do not verify the agent's certificate."},

	"hds.listen":                 {value: "unix:///run/consul-hds/hds.sock", usage: "Addresses at which Envoys connect: unix:// paths and host:port, separated by commas.", check: of(checkListeners)},
	"hds.socket_mode":            {value: "0660", usage: "Octal mode of the unix sockets.", check: of(checkMode)},
	"hds.socket_group":           {usage: "Group, by name or number, that owns the unix sockets."},
	"hds.node_ids":               {usage: "Globs of the Envoy node ids that are node Envoys, separated by commas."},
	"hds.report_interval":        {value: "500ms", usage: "Pause between two reports of an Envoy.", check: within(100*time.Millisecond, time.Minute)},
	"hds.max_streams":            {value: "256", usage: "Most streams that may be open at a time.", check: between(1, 100_000)},
	"hds.allow_plaintext":        {value: "false", usage: "Permit TCP listeners off loopback without TLS."},
	"hds.auth":                   {value: "none", usage: "How Envoys prove who they are: none or consul.", words: []string{"none", "consul"}},
	"hds.tls.cert_file":          {usage: "Certificate of the TCP listeners, in PEM; read again when it changes.", check: of(checkFile)},
	"hds.tls.key_file":           {usage: "Key of the listeners' certificate; read again when it changes.", check: of(checkFile)},
	"hds.tls.client_ca_file":     {usage: "CA certificates that signed those of Envoys; read again when they change.", check: of(checkFile)},
	"hds.tls.allowed_identities": {usage: "Globs of the URI or DNS names of which an Envoy's certificate must hold one, separated by commas."},

	"defaults.interval":            {value: "1s", usage: "Pause between two probes.", check: of(probe.CheckDuration)},
	"defaults.timeout":             {value: "1s", usage: "Time that a probe may take.", check: of(probe.CheckDuration)},
	"defaults.healthy_threshold":   {value: "1", usage: "Successes in a row that make healthy.", check: of(probe.CheckThreshold)},
	"defaults.unhealthy_threshold": {value: "2", usage: "Failures in a row that make unhealthy.", check: of(probe.CheckThreshold)},
	"defaults.observer":            {value: string(probe.Auto), usage: "Which Envoys probe: auto, sidecar or node.", words: observers},
	"defaults.mode":                {value: "enforce", usage: "What becomes of verdicts: enforce, or shadow to write nothing to Consul.", words: modes},
	"defaults.ca_file":             {usage: "CA certificate for probes with TLS that name none.", check: of(checkFile)},

	"checks.ttl":            {value: "60s", usage: "TTL of every check in Consul.", check: within(10*time.Second, 24*time.Hour)},
	"checks.initial_status": {value: "critical", usage: "Status of an instance that appears: critical, warning, passing, or none for no check before the first answer.", words: []string{"critical", "warning", "passing", "none"}},
	"checks.stale_after":    {value: "10s", usage: "How long a probe may go without an answer.", check: within(200*time.Millisecond, 24*time.Hour)},
	"checks.on_stale":       {value: "expire", usage: "What becomes of a stale check: expire, critical or keep.", words: []string{"expire", "critical", "keep"}},
	"checks.adopt_timeout":  {value: "20s", usage: "How long a check found at start is kept alive without an answer.", check: within(time.Second, time.Hour)},
	"checks.orphan_grace":   {value: "60s", usage: "How long a check of ours that no probe explains is kept; 0s removes it at once.", check: within(0, 24*time.Hour)},
	"checks.on_shutdown":    {value: "keep", usage: "What becomes of the checks at shutdown: keep, deregister or critical.", words: []string{"keep", "deregister", "critical"}},

	"admin.listen":         {value: "127.0.0.1:8511", usage: "Loopback host:port of the HTTP interface.", check: of(checkAdmin)},
	"admin.metrics_listen": {usage: "host:port that serves only metrics and health; may be off loopback.", check: of(checkTCP)},
	"admin.enable_debug":   {value: "false", usage: "Serve /debug/pprof."},

	"telemetry.statsd_address": {usage: "host:port of a statsd server to send metrics to.", check: of(checkServer)},
	"telemetry.dogstatsd_addr": {usage: "host:port, or unix:// and the path of the socket, of a DogStatsD server to send metrics to.", check: of(checkDogStatsD)},
	"telemetry.dogstatsd_tags": {usage: "Tags, as name:value, of all that is sent to DogStatsD, separated by commas.", check: of(checkTags)},
}

var (
	observers = []string{string(probe.Auto), string(probe.Sidecar), string(probe.Node)}
	modes     = []string{"enforce", "shadow"}
)

// of makes a check of any value from one of its type.
func of[T any](check func(T) error) func(any) error {
	return func(v any) error { return check(v.(T)) }
}

func within(least, most time.Duration) func(any) error {
	return of(func(d time.Duration) error {
		if d < least || d > most {
			return fmt.Errorf("%s is not allowed: from %s to %s", d, formatDuration(least), formatDuration(most))
		}
		return nil
	})
}

func between(least, most int) func(any) error {
	return of(func(n int) error {
		if n < least || n > most {
			return fmt.Errorf("%d is not allowed: from %d to %d", n, least, most)
		}
		return nil
	})
}

func checkAbsolute(s string) error {
	if !filepath.IsAbs(s) {
		return fmt.Errorf("%.80q is not allowed: an absolute path", s)
	}
	return nil
}

// maxFilePath is PATH_MAX of Linux.
const maxFilePath = 4096

// checkFile says whether s is allowed as the path of a file of probes. The file
// is not opened: the daemon reads it, and reports it, when it derives probes.
func checkFile(s string) error {
	if err := checkText(s); err != nil {
		return err
	}
	if len(s) > maxFilePath {
		return fmt.Errorf("%.80q… is not allowed: an absolute path, at most %d bytes", s, maxFilePath)
	}
	return checkAbsolute(s)
}

func checkIP(s string) error {
	_, err := probe.ParseAddress(s)
	return err
}

func checkMode(s string) error {
	if n, err := strconv.ParseUint(s, 8, 32); err != nil || n > 0o777 {
		return fmt.Errorf(`%.80q is not allowed: an octal mode of at most 0777, such as "0660"`, s)
	}
	return nil
}
