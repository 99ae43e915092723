package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/hashicorp/consul/api"
)

// consulReady bounds the wait for a leader and for the node in the catalog.
const consulReady = 30 * time.Second

// Consul is a running agent: a server, alone or of a cluster, or a client.
type Consul struct {
	*Process
	opts       ConsulOptions
	data       string
	ports      map[string]int
	grpcSocket string
	client     *api.Client
}

// StartConsul starts an agent on free ports and waits until it has a leader and
// its own node is in the catalog.
func (l *Lab) StartConsul(ctx context.Context, opts ConsulOptions) (*Consul, error) {
	binary, err := ConsulBinary(ctx, l.opts.Progress)
	if err != nil {
		return nil, err
	}
	opts.Name = l.uniqueName(opts.Name, "consul")
	if opts.NodeName == "" {
		opts.NodeName = opts.Name
	}
	if opts.Address == "" {
		opts.Address = "127.0.0.1"
	}
	c := &Consul{opts: opts, data: l.Path(opts.Name, "data")}
	if c.ports, err = l.portsFor("http", "dns", "grpc", "serf_lan", "serf_wan", "server"); err != nil {
		return nil, err
	}
	if opts.GRPCSocket {
		if c.grpcSocket, err = l.SocketPath(opts.Name + "-grpc.sock"); err != nil {
			return nil, err
		}
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

// Catalog is a client of a server, which alone knows what the catalog shows.
func (c *Consul) Catalog() *api.Client {
	if c.opts.Server != nil && !c.opts.Persistent {
		return c.opts.Server.client
	}
	return c.client
}

// Client is a client of the agent. It is shared: do not change its headers.
func (c *Consul) Client() *api.Client { return c.client }

// HTTPAddr is host:port of the HTTP API and of the UI.
func (c *Consul) HTTPAddr() string { return c.addr("http") }

// DNSAddr is host:port of the DNS server.
func (c *Consul) DNSAddr() string { return c.addr("dns") }

// GRPCAddr is where xDS is, for sidecars and gateways: host:port, or unix:// and
// the path of a socket.
func (c *Consul) GRPCAddr() string {
	if c.grpcSocket != "" {
		return "unix://" + c.grpcSocket
	}
	return c.addr("grpc")
}

// RPCAddr is host:port of where a server takes what its clients ask of it.
func (c *Consul) RPCAddr() string { return c.addr("server") }

// addr is host:port of one of the agent's ports.
func (c *Consul) addr(port string) string {
	return net.JoinHostPort(c.opts.Address, strconv.Itoa(c.ports[port]))
}

// DataDir is where a client or a Persistent server keeps what it knows, its
// services and checks too. Without it the agent starts as a new node of the same
// name, which the catalog refuses while it knows the old one: end a client by
// Stop, with which it leaves, before removing this.
func (c *Consul) DataDir() string { return c.data }

// Wipe ends a client politely and removes all that it knows. Start starts it anew.
func (c *Consul) Wipe(ctx context.Context) error {
	if _, err := c.Stop(ctx); err != nil {
		return err
	}
	if err := os.RemoveAll(c.data); err != nil {
		return fmt.Errorf("wiping %s: %w", c.name, err)
	}
	return nil
}

// NodeName is the name of the agent's node.
func (c *Consul) NodeName() string { return c.opts.NodeName }

// SidecarBootstrap is what `consul connect envoy -bootstrap` prints for the
// sidecar of an instance, with the agent's token in it.
func (c *Consul) SidecarBootstrap(ctx context.Context, instance string) ([]byte, error) {
	return c.bootstrap(ctx, "-sidecar-for", instance)
}

// ProxyBootstrap is SidecarBootstrap for a proxy or a gateway by its own id.
func (c *Consul) ProxyBootstrap(ctx context.Context, proxyID string) ([]byte, error) {
	return c.bootstrap(ctx, "-proxy-id", proxyID)
}

func (c *Consul) bootstrap(ctx context.Context, option, id string) ([]byte, error) {
	return filter(ctx, nil, []string{"CONSUL_HTTP_TOKEN=" + c.opts.Token}, c.program(), "connect", "envoy",
		"-http-addr", c.HTTPAddr(), "-grpc-addr", c.GRPCAddr(), option, id, "-bootstrap")
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
