package catalog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode"

	"github.com/hashicorp/consul/api"
)

// agent is what the watcher asks of the local Consul agent.
type agent interface {
	services(ctx context.Context) (map[string]*Instance, error)
	// checks also tells the node that the agent's checks name, "" without any.
	checks(ctx context.Context) (checks map[string]*Check, node string, err error)
	// gone is true only if the agent knows no service of that id.
	gone(ctx context.Context, id string) (bool, error)
	self(ctx context.Context) (Node, error)
	// nodeServices blocks until the node's services move past index, at most
	// for wait and a bit.
	nodeServices(ctx context.Context, node string, index uint64, wait time.Duration) (ring, error)
}

// ring is an answer of the doorbell. An empty node name means that the servers
// do not know the node, or that the token may not read it.
type ring struct {
	node  Node
	index uint64
}

// client is the agent behind the HTTP API. It decodes the fields that are
// needed and no others, and gives a context to every request, which the typed
// calls of consul/api do not do for agent/self.
type client struct {
	raw                  *api.Raw
	namespace, partition string
}

type wireService struct {
	Kind       Kind
	Service    string
	Address    string
	Port       int
	SocketPath string
	Meta       map[string]string
	Proxy      *Proxy
}

type wireCheck struct {
	Node, Name, ServiceID, Type, Status, Output, Notes string
}

func (c *client) get(ctx context.Context, endpoint string, out any, q api.QueryOptions) (*api.QueryMeta, error) {
	q.Namespace, q.Partition = c.namespace, c.partition
	meta, err := c.raw.Query(endpoint, out, q.WithContext(ctx))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", strings.TrimPrefix(endpoint, "/v1/"), err)
	}
	return meta, nil
}

func (c *client) services(ctx context.Context) (map[string]*Instance, error) {
	var wire map[string]wireService
	if _, err := c.get(ctx, "/v1/agent/services", &wire, api.QueryOptions{}); err != nil {
		return nil, err
	}
	if wire == nil {
		return nil, errors.New("reading agent/services: the answer is null")
	}
	instances := make(map[string]*Instance, len(wire))
	for id, w := range wire {
		if w.Service == "" {
			return nil, fmt.Errorf("reading agent/services: service %q has no name", id)
		}
		instances[id] = w.instance(id)
	}
	return instances, nil
}

func (w wireService) instance(id string) *Instance {
	i := &Instance{
		ID: id, Service: w.Service, Kind: w.Kind,
		Address: w.Address, Port: w.Port, SocketPath: w.SocketPath,
	}
	if len(w.Meta) > 0 {
		i.Meta = w.Meta
	}
	if w.Kind == KindConnectProxy {
		i.Proxy = w.Proxy
		if i.Proxy == nil {
			i.Proxy = &Proxy{}
		}
	}
	return i
}

func (c *client) checks(ctx context.Context) (map[string]*Check, string, error) {
	var wire map[string]wireCheck
	if _, err := c.get(ctx, "/v1/agent/checks", &wire, api.QueryOptions{}); err != nil {
		return nil, "", err
	}
	if wire == nil {
		return nil, "", errors.New("reading agent/checks: the answer is null")
	}
	node := ""
	checks := make(map[string]*Check, len(wire))
	for id, w := range wire {
		node = max(node, w.Node)
		checks[id] = &Check{
			ID: id, Name: w.Name, ServiceID: w.ServiceID, Type: w.Type,
			Status: w.Status, Output: w.Output, Notes: w.Notes,
		}
	}
	return checks, node, nil
}

func (c *client) gone(ctx context.Context, id string) (bool, error) {
	var ignored struct{}
	_, err := c.get(ctx, "/v1/agent/service/"+id, &ignored, api.QueryOptions{})
	if isStatus(err, http.StatusNotFound) {
		return true, nil
	}
	return false, err
}

// self takes the address from Member, which is what the agent advertises to the
// cluster and writes into the catalog; Config has none.
func (c *client) self(ctx context.Context) (Node, error) {
	var wire struct {
		Config struct{ NodeName string }
		Member struct{ Addr string }
	}
	if _, err := c.get(ctx, "/v1/agent/self", &wire, api.QueryOptions{}); err != nil {
		return Node{}, err
	}
	return Node{Name: wire.Config.NodeName, Address: wire.Member.Addr}, nil
}

func (c *client) nodeServices(ctx context.Context, node string, index uint64, wait time.Duration) (ring, error) {
	var wire struct {
		Node struct{ Node, Address string }
	}
	q := api.QueryOptions{AllowStale: true, WaitIndex: index, WaitTime: wait}
	meta, err := c.get(ctx, "/v1/catalog/node-services/"+node, &wire, q)
	if err != nil {
		return ring{}, err
	}
	return ring{node: Node{Name: wire.Node.Node, Address: wire.Node.Address}, index: meta.LastIndex}, nil
}

// unreachable says that nobody has accepted the connection.
func unreachable(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && network.Op == "dial"
}

func isStatus(err error, code int) bool {
	var status api.StatusError
	return errors.As(err, &status) && status.Code == code
}

// tokenUnknown says whether Consul does not know the token of the request; a
// token that it knows and that may not do this is told otherwise.
func tokenUnknown(err error) bool {
	var status api.StatusError
	return errors.As(err, &status) && status.Code == http.StatusForbidden && strings.Contains(status.Body, "ACL not found")
}

// maxAskedID bounds the service ids that are put into a request's path.
const maxAskedID = 1024

// askable says whether agent/service/<id> asks for this id and no other.
//
// consul/api puts the id as it is into the path of a URL, which escapes all of
// it but the slashes: '?', '#', '%', spaces and unicode arrive as they were
// sent. An id that path.Clean would change does not: Consul's HTTP router
// answers it with a redirect to the cleaned path, the client follows, and the
// answer is about another service. consul/api cannot send an escaped slash
// either, so there is no way round. Control characters are refused with a 400.
//
// Consul 1.9 to 1.12 had patch releases that decoded the id twice (consul PR
// 13256 took that back); on those an id with '%' may be answered by a 400, which
// keeps the instance.
func askable(id string) bool {
	return id != "" && len(id) <= maxAskedID && path.Clean("/"+id) == "/"+id &&
		strings.IndexFunc(id, unicode.IsControl) < 0
}
