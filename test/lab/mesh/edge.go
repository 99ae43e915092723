package mesh

import (
	"context"
	"fmt"
	"strconv"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

// Edge is the node at which users come in.
type Edge struct {
	*Node
	// App is what calls itself web. Users of the mesh do as it would: they speak
	// to the sidecar's upstream listener.
	App *lab.AppProcess
	// Sidecar is that of web, and Ingress the gateway.
	Sidecar, Ingress *lab.Envoy
	// Entries are the ways to the backends.
	Entries []Entry
}

// Entry is a way into the mesh.
type Entry struct {
	// Name is web or ingress.
	Name string
	// URL is where requests go to.
	URL string
}

// WebID is the id of the instance at the edge, and IngressID that of the
// gateway, which is a node Envoy too.
const (
	WebID     = "web-1"
	IngressID = "ingress-1"
)

func (m *Mesh) startEdge(ctx context.Context) (*Edge, error) {
	node, err := m.startNode(ctx, "mesh-edge", edgeAddress, fmt.Sprintf("\nhds {\n  node_ids = [%q]\n}\n", IngressID))
	if err != nil {
		return nil, err
	}
	e := &Edge{Node: node}
	if err := e.startWeb(ctx); err != nil {
		return nil, err
	}
	return e, e.startIngress(ctx)
}

func (e *Edge) startWeb(ctx context.Context) (err error) {
	l := e.mesh.lab
	if e.App, err = l.StartAppProcess(ctx, WebID); err != nil {
		return err
	}
	e.mesh.ends(e.App.Process)
	public, err := l.Port()
	if err != nil {
		return err
	}
	upstream, err := l.Port()
	if err != nil {
		return err
	}
	proxy := &api.AgentServiceConnectProxyConfig{Upstreams: []api.Upstream{{DestinationName: backendName, LocalBindPort: upstream}}}
	err = e.Consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{
		ID: WebID, Name: "web", Address: e.Address, Port: e.App.Port(), Meta: map[string]string{"hds": "http", "hds_path": "/health"},
		Connect: &api.AgentServiceConnect{SidecarService: &api.AgentServiceRegistration{Port: public, Proxy: proxy}},
	})
	if err != nil {
		return fmt.Errorf("registering %s: %w", WebID, err)
	}
	e.Entries = append(e.Entries, Entry{"web", "http://127.0.0.1:" + strconv.Itoa(upstream)})
	e.Sidecar, err = e.startProxy(ctx, WebID+"-sidecar-proxy", nil)
	return err
}

func (e *Edge) startIngress(ctx context.Context) error {
	port, err := e.mesh.lab.Port()
	if err != nil {
		return err
	}
	_, _, err = e.mesh.Server.Client().ConfigEntries().Set(&api.IngressGatewayConfigEntry{
		Kind: api.IngressGateway, Name: "ingress", Listeners: []api.IngressListener{{
			Port: port, Protocol: "http", Services: []api.IngressService{{Name: backendName, Hosts: []string{"*"}}},
		}},
	}, nil)
	if err != nil {
		return fmt.Errorf("configuring the ingress gateway: %w", err)
	}
	err = e.Consul.Client().Agent().ServiceRegister(&api.AgentServiceRegistration{
		Kind: api.ServiceKindIngressGateway, ID: IngressID, Name: "ingress", Address: e.Address, Port: port,
	})
	if err != nil {
		return fmt.Errorf("registering %s: %w", IngressID, err)
	}
	e.Entries = append(e.Entries, Entry{"ingress", "http://" + e.addr(port)})
	e.Ingress, err = e.startProxy(ctx, IngressID, nil)
	return err
}
