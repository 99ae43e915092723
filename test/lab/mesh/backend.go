package mesh

import (
	"context"
	"fmt"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

// backendName is the service whose instances the backends are.
const backendName = "backend"

// HealthPath is where a backend tells of its health; all else it serves whatever
// that says.
const HealthPath = "/health"

// workTime is how long a backend takes for an answer, so that requests are in
// flight whatever happens.
const workTime = 20 * time.Millisecond

// Backend is an instance of the service with its sidecar, alone on its node. Its
// app listens on 127.0.0.1, where the registration says that the sidecar finds
// it, and not at the address that it is registered with.
type Backend struct {
	*Node
	// ID is that of the instance, and what its answers name.
	ID      string
	App     *lab.AppProcess
	Sidecar *lab.Envoy
	// Namespace is where app and sidecar live; nil is the lab's own network.
	Namespace *lab.Namespace

	public, exposed int // ports of the sidecar
}

// Registration is how a backend is registered.
type Registration struct {
	// Meta is the service's.
	Meta map[string]string
	// OwnCheck is the interval of an HTTP check of Consul's own, of the health
	// path that the sidecar exposes; zero is none.
	OwnCheck time.Duration
	// SidecarChecks are the operator's own for the sidecar. Consul makes no alias
	// check then.
	SidecarChecks api.AgentServiceChecks
}

func (m *Mesh) startBackend(ctx context.Context, id, address string, namespace *lab.Namespace) (b *Backend, err error) {
	b = &Backend{ID: id, Namespace: namespace}
	if b.Node, err = m.startNode(ctx, "mesh-"+id, address, ""); err != nil {
		return nil, err
	}
	if b.App, err = m.lab.StartAppProcessIn(ctx, namespace, id); err != nil {
		return nil, err
	}
	m.ends(b.App.Process)
	if err := b.App.Behave(ctx, "delay="+workTime.String()); err != nil {
		return nil, err
	}
	for _, port := range []*int{&b.public, &b.exposed} {
		if *port, err = b.port(); err != nil {
			return nil, err
		}
	}
	if err := b.Register(m.options.Backends); err != nil {
		return nil, err
	}
	b.Sidecar, err = b.startProxy(ctx, b.SidecarID(), namespace)
	return b, err
}

// port is a port of the sidecar, which the lab's own network can reach.
func (b *Backend) port() (int, error) {
	port, err := b.mesh.lab.Port()
	if err != nil || b.Namespace == nil {
		return port, err
	}
	relay, err := b.mesh.lab.StartRelay(b.Namespace, b.addr(port))
	if err != nil {
		return 0, err
	}
	b.mesh.mu.Lock()
	defer b.mesh.mu.Unlock()
	b.mesh.relays = append(b.mesh.relays, relay)
	return port, nil
}

// SidecarID is the id of the sidecar's own instance.
func (b *Backend) SidecarID() string { return b.ID + "-sidecar-proxy" }

// CheckID is the id of the check that the daemon keeps.
func (b *Backend) CheckID() string { return "hds:" + b.ID }

// Register registers the backend with its sidecar, once more if it is. All
// checks that the registration does not have are removed, as Nomad does it.
func (b *Backend) Register(r Registration) error {
	service := &api.AgentServiceRegistration{ID: b.ID, Name: backendName, Address: b.Address, Port: b.App.Port(), Meta: r.Meta}
	sidecar := &api.AgentServiceRegistration{
		Port: b.public, Checks: r.SidecarChecks,
		Proxy: &api.AgentServiceConnectProxyConfig{LocalServiceAddress: "127.0.0.1", LocalServicePort: b.App.Port()},
	}
	if r.OwnCheck > 0 {
		sidecar.Proxy.Expose.Paths = []api.ExposePath{{Path: HealthPath, LocalPathPort: b.App.Port(), ListenerPort: b.exposed, Protocol: "http"}}
		service.Check = &api.AgentServiceCheck{HTTP: "http://" + b.addr(b.exposed) + HealthPath, Interval: r.OwnCheck.String(), Timeout: "1s"}
	}
	service.Connect = &api.AgentServiceConnect{SidecarService: sidecar}
	err := b.Consul.Client().Agent().ServiceRegisterOpts(service, api.ServiceRegisterOpts{ReplaceExistingChecks: true})
	if err != nil {
		return fmt.Errorf("registering %s: %w", b.ID, err)
	}
	return nil
}
