package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/consul-hds/consul-hds/bootstrap"
)

// envoyReady bounds the wait for the admin interface.
const envoyReady = 20 * time.Second

// EnvoyOptions of an Envoy with an HDS client.
type EnvoyOptions struct {
	// Name of the process and of its log; "envoy" when empty.
	Name string
	// NodeID and Cluster are the node's; Cluster is "lab" when empty.
	NodeID, Cluster string
	// Metadata is the node's.
	Metadata map[string]any
	// HDSAddr is where the daemon listens: unix:///path or host:port. Empty is
	// an Envoy without HDS.
	HDSAddr string
	// HDSAuth is how it proves who it is.
	HDSAuth HDSAuth
	// Version is an exact Envoy version; empty takes what EnvoyBinary finds.
	Version string
	// LogLevel is Envoy's; "info" when empty.
	LogLevel string
	// Bootstrap is a whole bootstrap in JSON, as `consul connect envoy
	// -bootstrap` prints it, into which the lab merges its admin address, the
	// HDS client and, when set, the node.
	Bootstrap []byte
	// Overlay is a JSON object to merge in as well, in the same --config-yaml.
	Overlay    []byte
	HotRestart HotRestart
	// Namespace is the network that it runs in; nil is the lab's own.
	Namespace *Namespace
}

// HotRestart makes an Envoy part of a hot restart. The zero value does not.
type HotRestart struct {
	// BaseID is what the Envoys of one hot restart have in common; 0 is none.
	BaseID int
	// Epoch counts them from 0: each takes over from the one before.
	Epoch int
}

// args make the old Envoy go 3 s after the new one is there.
func (h HotRestart) args() []string {
	if h.BaseID == 0 {
		return []string{"--disable-hot-restart"}
	}
	return []string{"--base-id", strconv.Itoa(h.BaseID), "--restart-epoch", strconv.Itoa(h.Epoch),
		"--drain-time-s", "1", "--parent-shutdown-time-s", "3"}
}

// memory is the file of what the Envoys share, which they leave behind: Envoy counts
// ten epochs to a base id.
func (h HotRestart) memory() string {
	return fmt.Sprintf("/dev/shm/envoy_shared_memory_%d", 10*h.BaseID)
}

// Envoy is a running Envoy.
type Envoy struct {
	*Process
	nodeID string
	admin  string
}

// StartEnvoy starts an Envoy with one worker and waits until its admin
// interface answers, which says nothing of its HDS stream.
func (l *Lab) StartEnvoy(ctx context.Context, opts EnvoyOptions) (*Envoy, error) {
	binary, err := EnvoyBinary(ctx, opts.Version, l.opts.Progress)
	if err != nil {
		return nil, err
	}
	port, err := l.Port()
	if err != nil {
		return nil, err
	}
	name := l.uniqueName(opts.Name, "envoy")
	overlay, err := bootstrapOverlay(opts, port)
	if err != nil {
		return nil, err
	}
	base := opts.Bootstrap
	if len(base) == 0 {
		base = []byte("{}")
	}
	if base, err = opts.observe(base); err != nil {
		return nil, err
	}
	file := l.Path(name + ".json")
	if err := os.WriteFile(file, base, 0o600); err != nil {
		return nil, fmt.Errorf("writing the bootstrap of %s: %w", name, err)
	}
	if opts.LogLevel == "" {
		opts.LogLevel = "info"
	}
	if opts.HotRestart.BaseID != 0 {
		l.onClose(func() { _ = os.Remove(opts.HotRestart.memory()) })
	}
	e := &Envoy{nodeID: opts.NodeID, admin: loopback(port)}
	args := []string{"-c", file, "--config-yaml", string(overlay), "--concurrency", "1", "-l", opts.LogLevel}
	e.Process, err = l.startIn(opts.Namespace, name, binary, append(args, opts.HotRestart.args()...), nil)
	if err != nil {
		return nil, err
	}
	if err := e.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, e.Kill())
	}
	return e, nil
}

// object is a JSON object.
type object = map[string]any

// bootstrapOverlay is the part of the bootstrap that the lab writes: admin and
// node, as JSON (which is YAML).
func bootstrapOverlay(opts EnvoyOptions, adminPort int) ([]byte, error) {
	overlay := object{}
	if len(opts.Overlay) > 0 {
		if err := json.Unmarshal(opts.Overlay, &overlay); err != nil {
			return nil, fmt.Errorf("reading the overlay: %w", err)
		}
	}
	overlay["admin"] = object{"address": socketAddress("127.0.0.1", adminPort)}
	if opts.NodeID != "" || len(opts.Bootstrap) == 0 {
		node := object{"id": opts.NodeID, "cluster": opts.Cluster}
		if opts.Cluster == "" {
			node["cluster"] = "lab"
		}
		if opts.Metadata != nil {
			node["metadata"] = opts.Metadata
		}
		overlay["node"] = node
	}
	return json.Marshal(overlay)
}

// observe makes the Envoy of a bootstrap an HDS client, as the command bootstrap
// does.
func (o EnvoyOptions) observe(base []byte) ([]byte, error) {
	if o.HDSAddr == "" {
		return base, nil
	}
	a, err := bootstrap.New(bootstrap.Options{Address: o.HDSAddr, NodeID: o.NodeID, TLS: o.HDSAuth.TLS, Token: o.HDSAuth.Token})
	if err != nil {
		return nil, err
	}
	return a.AddTo(base)
}

func socketAddress(host string, port int) object {
	return object{"socket_address": object{"address": host, "port_value": port}}
}

// ValidateBootstrap has an Envoy of that exact version judge a bootstrap, by its
// --mode validate, and returns what it says against it.
func (l *Lab) ValidateBootstrap(ctx context.Context, version string, text []byte) error {
	binary, err := EnvoyBinary(ctx, version, l.opts.Progress)
	if err != nil {
		return err
	}
	file := l.Path(l.uniqueName("", "validate") + ".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("writing the bootstrap: %w", err)
	}
	said, code, err := output(ctx, binary, "--mode", "validate", "-c", file, "-l", "warning")
	if err == nil && code != 0 {
		err = fmt.Errorf("envoy %s refuses the bootstrap:\n%s", version, said)
	}
	return err
}

// NodeID is the id that the options gave.
func (e *Envoy) NodeID() string { return e.nodeID }

// AdminAddr is host:port of the admin interface; it survives restarts.
func (e *Envoy) AdminAddr() string { return e.admin }

// WaitReady waits until the admin interface answers.
func (e *Envoy) WaitReady(ctx context.Context) error {
	return e.until(ctx, envoyReady, func() error {
		_, err := httpDoIn(ctx, e.ns, http.MethodGet, "http://"+e.admin+"/server_info")
		return err
	})
}

// Stats are all counters and gauges, by name. Histograms are left out.
func (e *Envoy) Stats(ctx context.Context) (map[string]uint64, error) {
	body, err := httpDoIn(ctx, e.ns, http.MethodGet, "http://"+e.admin+"/stats?histogram_buckets=none")
	if err != nil {
		return nil, fmt.Errorf("reading the stats of %s: %w", e.name, err)
	}
	stats := map[string]uint64{}
	lines := bufio.NewScanner(strings.NewReader(string(body)))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			stats[name] = n
		}
	}
	return stats, lines.Err()
}

// Stat is one counter or gauge, as hds_delegate.requests; 0 when Envoy does not
// have it.
func (e *Envoy) Stat(ctx context.Context, name string) (uint64, error) {
	stats, err := e.Stats(ctx)
	return stats[name], err
}

// HealthFlags are what Envoy holds against the endpoints that it may send requests to,
// by cluster and address as "web…::127.0.0.1:80"; "healthy" is nothing. For an endpoint
// of EDS they are how it heard of it.
func (e *Envoy) HealthFlags(ctx context.Context) (map[string]string, error) {
	body, err := httpDoIn(ctx, e.ns, http.MethodGet, "http://"+e.admin+"/clusters")
	if err != nil {
		return nil, fmt.Errorf("reading the clusters of %s: %w", e.name, err)
	}
	flags := map[string]string{}
	for line := range strings.Lines(string(body)) {
		if endpoint, value, ok := strings.Cut(strings.TrimSpace(line), "::health_flags::"); ok {
			flags[endpoint] = value
		}
	}
	return flags, nil
}

// Restart ends Envoy with sig, starts it again and waits for its admin
// interface.
func (e *Envoy) Restart(ctx context.Context, sig syscall.Signal) error {
	if err := e.restart(ctx, sig); err != nil {
		return err
	}
	return e.WaitReady(ctx)
}
