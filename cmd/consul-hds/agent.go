package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"os/user"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/hcl/v2"
	"google.golang.org/grpc/grpclog"

	"github.com/consul-hds/consul-hds/bridge"
	"github.com/consul-hds/consul-hds/config"
)

const agentHelp = `
Usage: consul-hds agent [options]

  Runs the daemon: watches the services of the local Consul agent, tells the
  Envoys of this node by the Health Discovery Service what to probe, and keeps
  a Consul TTL check in step with what they report for each probe.

  SIGHUP reads the configuration again; a faulty one leaves the running one in
  place. SIGINT and SIGTERM end the daemon within 4 seconds, a second one at
  once. What becomes of the checks then is checks.on_shutdown: they stay as they
  are by default.

  The daemon keeps to one core, which is enough for 10,000 checks and costs a
  node the least; GOMAXPROCS in its environment lets it have more.

  The ACL token has no flag, but its file has: -consul-token-file. Exits with 1
  if the daemon cannot start or fails, with 2 if the configuration is not valid.
`

// runAgent runs the daemon.
func runAgent(args []string, env environment) int {
	fs := newFlags("agent")
	options := configFlags(fs, env)
	if code, ok := parseFlags(fs, args, env, agentHelp); !ok {
		return code
	}
	if code, ok := refuseArguments(fs, env); !ok {
		return code
	}
	loaded, diags := config.Load(*options)
	if diags.HasErrors() {
		_ = loaded.WriteDiagnostics(env.stderr, diags) // there is no log yet
		return exitUsage
	}
	d := &daemon{options: *options, env: env, running: loaded.Config, loaded: loaded}
	d.startLogging()
	d.warn(diags)
	if err := d.run(); err != nil {
		d.logger.Error("consul-hds failed", "error", err)
		return exitFailed
	}
	return exitOK
}

// sameSignal is how soon after the first signal a second one is still the same:
// who signals both the process and its group, as timeout(1) does, means it once.
const sameSignal = 100 * time.Millisecond

// daemon is a running agent command.
type daemon struct {
	options config.Options
	env     environment
	running *config.Config
	loaded  *config.Loaded // which running is of
	logger  hclog.Logger
}

// startLogging makes the logger. What gRPC has to say is logged by it too, so that
// each line is in the one format.
func (d *daemon) startLogging() {
	d.logger = hclog.New(&hclog.LoggerOptions{
		Name: "consul-hds", Level: hclog.LevelFromString(d.running.LogLevel), JSONFormat: d.running.LogJSON, Output: d.env.stderr,
	})
	ofGRPC := d.logger.Named("grpc").StandardWriter(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug})
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, ofGRPC))
}

// cores is how many cores the daemon may use at once; 0 leaves that as it is. On
// several, it wakes up threads all the time to look for work that is done already,
// which costs it a third more. What the Go runtime takes for no number is none here.
func cores(env environment) int {
	if n, err := strconv.ParseInt(env.getenv("GOMAXPROCS"), 10, 32); err == nil && n > 0 {
		return 0
	}
	return 1
}

// run runs the bridge until a signal ends it.
func (d *daemon) run() error {
	runtime.GOMAXPROCS(cores(d.env))
	c := d.running
	gid, err := groupID(c.HDS.SocketGroup)
	if err != nil {
		return err
	}
	b, err := bridge.New(d.bridgeConfig(gid))
	if err != nil {
		return err
	}
	d.logger.Info("starting", "version", d.version(), "consul", c.Consul.Address, "listen", c.HDS.Listen, "admin", c.Admin.Listen)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	go d.obey(ctx, signals, cancel, b)
	return b.Run(ctx)
}

// obey acts on signals: SIGHUP reloads, the first other one ends the daemon in
// order, the next at once.
func (d *daemon) obey(ctx context.Context, signals <-chan os.Signal, cancel func(), b *bridge.Bridge) {
	var first time.Time
	for s := range signals {
		switch {
		case s == syscall.SIGHUP && ctx.Err() == nil:
			go func() { _, _ = b.Reload() }() // it may hang on a file; the bridge logs why it fails
		case s == syscall.SIGHUP:
		case ctx.Err() == nil:
			d.logger.Info("shutting down; another signal exits at once", "signal", s.String())
			first = time.Now()
			cancel()
		case time.Since(first) < sameSignal:
		default:
			d.logger.Warn("received a second signal, exiting at once", "signal", s.String())
			os.Exit(exitFailed)
		}
	}
}

// reload loads the configuration again, and names what it cannot take over.
func (d *daemon) reload() (s bridge.Settings, needRestart []string, err error) {
	loaded, diags := config.Load(d.options)
	if diags.HasErrors() {
		return bridge.Settings{}, nil, diags
	}
	d.warn(diags)
	d.logger.SetLevel(hclog.LevelFromString(loaded.Config.LogLevel))
	return settings(loaded, inForce(d.running, loaded.Config)), changedFixed(d.running, loaded.Config), nil
}

// warn logs the warnings of a configuration that is valid.
func (d *daemon) warn(diags hcl.Diagnostics) {
	for _, warning := range diags {
		d.logger.Warn("the configuration is valid, but", "warning", warning.Error())
	}
}

func (d *daemon) version() string {
	info, _ := debug.ReadBuildInfo()
	return versionName(info)
}

// bridgeConfig is the configuration as the bridge takes it.
func (d *daemon) bridgeConfig(gid int) bridge.Config {
	c := d.running
	return bridge.Config{
		Version: d.version(), Logger: d.logger, DataDir: c.DataDir,
		Consul: consulConfig(c),
		HDS: bridge.HDSConfig{
			Listen: c.HDS.Listen, SocketMode: uint32(c.HDS.Mode()), SocketGID: gid, MaxStreams: c.HDS.MaxStreams,
			Auth: c.HDS.Auth, TLS: listenerTLS(c),
		},
		Admin: bridge.AdminConfig{Listen: c.Admin.Listen, MetricsListen: c.Admin.MetricsListen, EnableDebug: c.Admin.EnableDebug},
		Telemetry: bridge.TelemetryConfig{
			StatsdAddress: c.Telemetry.StatsdAddress, DogstatsdAddr: c.Telemetry.DogstatsdAddr, DogstatsdTags: c.Telemetry.DogstatsdTags,
		},
		OnShutdown: c.Checks.OnShutdown, Settings: settings(d.loaded, c),
		Reload: d.reload,
	}
}

// consulConfig is how to reach the local agent.
func consulConfig(c *config.Config) bridge.ConsulConfig {
	return bridge.ConsulConfig{
		Address: c.Consul.Address, Token: c.Consul.Token, TokenFile: c.Consul.TokenFile,
		Namespace: c.Consul.Namespace, Partition: c.Consul.Partition,
		NodeName: c.Consul.NodeName, NodeAddress: c.Consul.NodeAddress, PollInterval: c.Consul.PollInterval,
		CAFile: c.Consul.TLS.CAFile, CertFile: c.Consul.TLS.CertFile, KeyFile: c.Consul.TLS.KeyFile,
		ServerName: c.Consul.TLS.ServerName, SkipVerify: c.Consul.TLS.SkipVerify,
	}
}

// listenerTLS is the TLS of the TCP addresses that Envoys connect to.
func listenerTLS(c *config.Config) bridge.HDSTLSConfig {
	t := c.HDS.TLS
	return bridge.HDSTLSConfig{
		CertFile: t.CertFile, KeyFile: t.KeyFile, ClientCAFile: t.ClientCAFile, AllowedIdentities: t.AllowedIdentities,
	}
}

// settings is the part of the configuration that a reload can change. inForce is
// the configuration of which it becomes a part.
func settings(l *config.Loaded, inForce *config.Config) bridge.Settings {
	c := l.Config
	return bridge.Settings{
		Rules: l.Rules(), Text: inForce.Public(), NodeIDs: c.HDS.NodeIDs, ReportInterval: c.HDS.ReportInterval,
		TTL: c.Checks.TTL, OrphanGrace: c.Checks.OrphanGrace,
		StaleAfter: c.Checks.StaleAfter, AdoptTimeout: c.Checks.AdoptTimeout,
		OnStale: c.Checks.OnStale, InitialStatus: c.Checks.InitialStatus,
	}
}

// groupID finds a group by name or number; empty is -1.
func groupID(group string) (int, error) {
	if group == "" {
		return -1, nil
	}
	if n, err := strconv.Atoi(group); err == nil {
		return n, nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return 0, fmt.Errorf("hds.socket_group: %w", err)
	}
	n, err := strconv.Atoi(g.Gid)
	if err != nil {
		return 0, errors.New("hds.socket_group: group " + group + " has no number")
	}
	return n, nil
}
