package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"syscall"
	"time"
)

// daemonReady bounds the wait for /v1/ready.
const daemonReady = 15 * time.Second

// DaemonOptions of a consul-hds agent.
type DaemonOptions struct {
	// Name of the process and of its log; "consul-hds" when empty.
	Name string
	// Consul is the agent to work for; nil leaves consul.address unset.
	Consul *Consul
	// Config is HCL laid over the lab's own file, which sets log_level,
	// data_dir, consul.address, hds.listen and admin.listen.
	Config string
	// Args follow `agent -config-file … -config-file …`.
	Args []string
	// Env are NAME=value, laid over the environment.
	Env []string
	// Binary is a built daemon; empty builds it from the working tree.
	Binary string
}

// Daemon is a consul-hds agent.
type Daemon struct {
	*Process
	config string
	data   string
	admin  string
	socket string
}

// StartDaemon starts the daemon. It does not wait until it is ready: see
// WaitReady.
func (l *Lab) StartDaemon(ctx context.Context, opts DaemonOptions) (*Daemon, error) {
	d, binary := &Daemon{}, opts.Binary
	var err error
	if binary == "" {
		if binary, err = l.DaemonBinary(ctx); err != nil {
			return nil, err
		}
	}
	name := l.uniqueName(opts.Name, "consul-hds")
	d.config = l.Path(name + ".hcl")
	base, err := d.baseConfig(l, name, opts.Consul)
	if err != nil {
		return nil, err
	}
	baseFile := l.Path(name + "-lab.hcl")
	if err := errors.Join(os.WriteFile(baseFile, []byte(base), 0o644), d.WriteConfig(opts.Config)); err != nil {
		return nil, err
	}
	args := append([]string{"agent", "-config-file", baseFile, "-config-file", d.config}, opts.Args...)
	if d.Process, err = l.start(name, binary, args, opts.Env); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Daemon) baseConfig(l *Lab, name string, consul *Consul) (string, error) {
	port, err := l.Port()
	if err != nil {
		return "", err
	}
	d.admin, d.data = loopback(port), l.Path(name+"-data")
	if d.socket, err = l.SocketPath(name + ".sock"); err != nil {
		return "", err
	}
	config := fmt.Sprintf("log_level = \"debug\"\ndata_dir  = %q\n\nadmin {\n  listen = %q\n}\n\nhds {\n  listen = [%q]\n}\n",
		d.data, d.admin, d.HDSAddr())
	if consul != nil {
		config += fmt.Sprintf("\nconsul {\n  address = %q\n}\n", consul.HTTPAddr())
	}
	return config, nil
}

// WriteConfig writes the file that DaemonOptions.Config was written to anew;
// SIGHUP makes the daemon read it.
func (d *Daemon) WriteConfig(config string) error {
	if err := os.WriteFile(d.config, []byte(config), 0o644); err != nil {
		return fmt.Errorf("writing the daemon's configuration: %w", err)
	}
	return nil
}

// Binary is the path of the program that Start and Command run.
func (d *Daemon) Binary() string { return d.program() }

// AdminAddr is host:port of the HTTP interface; it survives restarts.
func (d *Daemon) AdminAddr() string { return d.admin }

// DataDir is the data_dir that the lab's own configuration sets; the daemon
// makes it.
func (d *Daemon) DataDir() string { return d.data }

// HDSAddr is the unix:// address of the HDS listener that the lab's own
// configuration sets.
func (d *Daemon) HDSAddr() string { return "unix://" + d.socket }

// WaitReady waits until GET /v1/ready answers 200.
func (d *Daemon) WaitReady(ctx context.Context) error {
	return d.until(ctx, daemonReady, func() error {
		_, err := d.Get(ctx, "/v1/ready")
		return err
	})
}

// Get asks the HTTP interface and returns the body of a 2xx answer; any other
// is an error that has its status and body.
func (d *Daemon) Get(ctx context.Context, path string) ([]byte, error) {
	return httpDo(ctx, http.MethodGet, "http://"+d.admin+path)
}

// Put is Get with the method PUT.
func (d *Daemon) Put(ctx context.Context, path string) ([]byte, error) {
	return httpDo(ctx, http.MethodPut, "http://"+d.admin+path)
}

// Restart ends the daemon with sig, starts it again and waits until it is
// ready.
func (d *Daemon) Restart(ctx context.Context, sig syscall.Signal) error {
	if err := d.restart(ctx, sig); err != nil {
		return err
	}
	return d.WaitReady(ctx)
}

// Command runs another subcommand of the daemon's program to its end, and
// returns what it printed on both outputs and its exit code.
func (d *Daemon) Command(ctx context.Context, args ...string) (string, int, error) {
	return output(ctx, d.program(), args...)
}

// Filter runs a subcommand of the program, which needs no running daemon, with
// in as its stdin, and returns what it printed on stdout. Any exit code but 0
// is an error that has what was printed on stderr.
func (l *Lab) Filter(ctx context.Context, in []byte, args ...string) ([]byte, error) {
	binary, err := l.DaemonBinary(ctx)
	if err != nil {
		return nil, err
	}
	return filter(ctx, in, nil, binary, args...)
}

// Status is GET /v1/status: the contract, written down once more so that the
// tests notice when the daemon leaves it.
type Status struct {
	Schema    int              `json:"schema"`
	Version   string           `json:"version"`
	Node      string           `json:"node"`
	Consul    StatusConsul     `json:"consul"`
	Observers []StatusObserver `json:"observers"`
	Refused   []StatusRefused  `json:"refused"`
	Checks    []StatusCheck    `json:"checks"`
	Problems  []StatusProblem  `json:"problems"`
}

// StatusConsul is how the daemon gets on with its agent.
type StatusConsul struct {
	Address  string    `json:"address"`
	Synced   bool      `json:"synced"`
	LastSync time.Time `json:"last_sync"`
	Error    string    `json:"error"`
}

// StatusObserver is an Envoy with an open stream.
type StatusObserver struct {
	NodeID     string    `json:"node_id"`
	Kind       string    `json:"kind"`
	Peer       string    `json:"peer"`
	Envoy      string    `json:"envoy"`
	Applied    bool      `json:"applied"`
	Probes     int       `json:"probes"`
	LastReport time.Time `json:"last_report"`
}

// StatusRefused is the newest refusal of one reason.
type StatusRefused struct {
	Reason string    `json:"reason"`
	Count  int       `json:"count"`
	Last   time.Time `json:"last"`
	Peer   string    `json:"peer"`
	Error  string    `json:"error"`
}

// StatusCheck is one probe and its Consul check.
type StatusCheck struct {
	CheckID   string    `json:"check_id"`
	Service   string    `json:"service"`
	ServiceID string    `json:"service_id"`
	Probe     string    `json:"probe"`
	Kind      string    `json:"kind"`
	Target    string    `json:"target"`
	Mode      string    `json:"mode"`
	Phase     string    `json:"phase"`
	Status    string    `json:"status"`
	Output    string    `json:"output"`
	Since     time.Time `json:"since"`
	Observers []string  `json:"observers"`
	// Maintenance is service, node or not there.
	Maintenance string `json:"maintenance"`
	// Shadow is nil but for checks in shadow mode beside checks of others.
	Shadow *struct{ Agreed, Differed int } `json:"shadow"`
}

// StatusProblem is something that keeps a probe from working.
type StatusProblem struct {
	ServiceID string `json:"service_id"`
	Source    string `json:"source"`
	Message   string `json:"message"`
}

// Status asks the daemon for its status.
func (d *Daemon) Status(ctx context.Context) (Status, error) {
	var s Status
	body, err := d.Get(ctx, "/v1/status")
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(body, &s); err != nil {
		return s, fmt.Errorf("decoding the daemon's status: %w", err)
	}
	return s, nil
}

// Check is the check of that ID.
func (s Status) Check(id string) (StatusCheck, bool) {
	for _, c := range s.Checks {
		if c.CheckID == id {
			return c, true
		}
	}
	return StatusCheck{}, false
}
