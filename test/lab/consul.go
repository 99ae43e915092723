package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/consul/api"
)

// consulReady bounds the wait for a leader and for the node in the catalog.
const consulReady = 30 * time.Second

// ConsulOptions of a Consul agent. The zero value is a dev agent.
type ConsulOptions struct {
	// Name of the process and of its log; "consul" when empty.
	Name string
	// NodeName is the name of the Consul node; that of the process when empty.
	NodeName string
	// Persistent runs a single server with a data directory, whose state
	// survives Restart. A dev agent keeps nothing.
	Persistent bool
	// Config is HCL laid over the lab's own.
	Config string
	// Token is the ACL token of Client and of the lab's own reads.
	Token string
}

// Consul is a running agent, which is its own server.
type Consul struct {
	*Process
	opts   ConsulOptions
	ports  map[string]int
	client *api.Client
}

// StartConsul starts an agent on free ports of 127.0.0.1 and waits until it has
// a leader and its own node is in the catalog.
func (l *Lab) StartConsul(ctx context.Context, opts ConsulOptions) (*Consul, error) {
	binary, err := ConsulBinary(ctx, l.opts.Progress)
	if err != nil {
		return nil, err
	}
	opts.Name = l.uniqueName(opts.Name, "consul")
	if opts.NodeName == "" {
		opts.NodeName = opts.Name
	}
	c := &Consul{opts: opts}
	if c.ports, err = l.portsFor("http", "dns", "grpc", "serf_lan", "serf_wan", "server"); err != nil {
		return nil, err
	}
	c.client, err = api.NewClient(&api.Config{Scheme: "http", Address: c.HTTPAddr(), Token: opts.Token})
	if err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", opts.Name, err)
	}
	args, err := c.writeConfig(ctx, l, binary)
	if err != nil {
		return nil, err
	}
	if c.Process, err = l.start(opts.Name, binary, args, nil); err != nil {
		return nil, err
	}
	if err := c.WaitReady(ctx); err != nil {
		return nil, errors.Join(err, c.Kill())
	}
	return c, nil
}

// writeConfig writes the configuration into the work folder and returns the
// arguments for it.
func (c *Consul) writeConfig(ctx context.Context, l *Lab, binary string) ([]string, error) {
	dir := l.Path(c.opts.Name)
	var b strings.Builder
	fmt.Fprintf(&b, "node_name = %q\nbind_addr = \"127.0.0.1\"\nclient_addr = \"127.0.0.1\"\n", c.opts.NodeName)
	fmt.Fprintf(&b, "disable_update_check = true\nlog_level = \"info\"\nui_config {\n  enabled = true\n}\n")
	fmt.Fprintf(&b, "performance {\n  raft_multiplier = 1\n}\nconnect {\n  enabled = true\n}\n")
	fmt.Fprintf(&b, "ports {\n  https = -1\n")
	if hasGRPCTLS(ctx, binary) {
		fmt.Fprintf(&b, "  grpc_tls = -1\n")
	}
	for name, port := range c.ports {
		fmt.Fprintf(&b, "  %s = %d\n", name, port)
	}
	fmt.Fprintf(&b, "}\n")
	lab, extra := filepath.Join(dir, "1-lab.hcl"), filepath.Join(dir, "2-extra.hcl")
	err := errors.Join(os.Mkdir(dir, 0o755),
		os.WriteFile(lab, []byte(b.String()), 0o644), os.WriteFile(extra, []byte(c.opts.Config), 0o644))
	if err != nil {
		return nil, fmt.Errorf("writing the configuration of %s: %w", c.opts.Name, err)
	}
	args := []string{"agent", "-config-file", lab, "-config-file", extra}
	if c.opts.Persistent {
		return append(args, "-server", "-bootstrap-expect=1", "-data-dir", filepath.Join(dir, "data")), nil
	}
	return append(args, "-dev"), nil
}

var consulVersion = regexp.MustCompile(`Consul v(\d+)\.(\d+)`)

// hasGRPCTLS says whether the agent knows the port grpc_tls, which came with
// Consul 1.14 and is open by default in a dev agent.
func hasGRPCTLS(ctx context.Context, binary string) bool {
	out, _, _ := output(ctx, binary, "version")
	m := consulVersion.FindStringSubmatch(out)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	return major > 1 || minor >= 14
}

// WaitReady waits until the agent has a leader and its node is in the catalog.
func (c *Consul) WaitReady(ctx context.Context) error {
	q := (&api.QueryOptions{}).WithContext(ctx)
	return c.until(ctx, consulReady, func() error {
		if _, err := c.client.Status().LeaderWithQueryOptions(q); err != nil {
			return err
		}
		checks, _, err := c.client.Health().Node(c.opts.NodeName, q)
		if err != nil {
			return err
		}
		for _, check := range checks {
			if check.CheckID == "serfHealth" && check.Status == api.HealthPassing {
				return nil
			}
		}
		return fmt.Errorf("node %s is not alive in the catalog yet", c.opts.NodeName)
	})
}

// Client is a client of the agent. It is shared: do not change its headers.
func (c *Consul) Client() *api.Client { return c.client }

// HTTPAddr is host:port of the HTTP API and of the UI.
func (c *Consul) HTTPAddr() string { return loopback(c.ports["http"]) }

// DNSAddr is host:port of the DNS server.
func (c *Consul) DNSAddr() string { return loopback(c.ports["dns"]) }

// GRPCAddr is host:port of xDS, for sidecars and gateways.
func (c *Consul) GRPCAddr() string { return loopback(c.ports["grpc"]) }

// NodeName is the name of the agent's node.
func (c *Consul) NodeName() string { return c.opts.NodeName }

// SidecarBootstrap is what `consul connect envoy -bootstrap` prints for the
// sidecar of an instance, with the agent's token in it.
func (c *Consul) SidecarBootstrap(ctx context.Context, instance string) ([]byte, error) {
	return filter(ctx, nil, []string{"CONSUL_HTTP_TOKEN=" + c.opts.Token}, c.path, "connect", "envoy",
		"-http-addr", c.HTTPAddr(), "-grpc-addr", c.GRPCAddr(), "-sidecar-for", instance, "-bootstrap")
}

// Resolver asks the agent's DNS server, and no other.
func (c *Consul) Resolver() *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, c.DNSAddr())
	}}
}

// DNSPorts are the ports that the agent's DNS gives for a service (SRV), which
// tell instances apart that share an address. No such name is an empty answer.
func (c *Consul) DNSPorts(ctx context.Context, service string) ([]int, error) {
	_, srvs, err := c.Resolver().LookupSRV(ctx, "", "", service+".service.consul.")
	var dnsErr *net.DNSError
	if errors.As(err, &dnsErr) && dnsErr.IsNotFound {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking Consul's DNS for %s: %w", service, err)
	}
	ports := make([]int, 0, len(srvs))
	for _, srv := range srvs {
		ports = append(ports, int(srv.Port))
	}
	return ports, nil
}

// Restart ends the agent with sig, starts it again on the same ports and waits
// until it is ready.
func (c *Consul) Restart(ctx context.Context, sig syscall.Signal) error {
	if err := c.restart(ctx, sig); err != nil {
		return err
	}
	return c.WaitReady(ctx)
}
