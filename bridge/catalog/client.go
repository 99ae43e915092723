package catalog

import (
	"cmp"
	"context"
	"encoding/json"
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

	// Of the one goroutine that reads the lists.
	instances list[Instance]
	listed    list[Check]
	node      string // as the checks name it
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
	return meta, reading(endpoint, err)
}

func (c *client) services(ctx context.Context) (map[string]*Instance, error) {
	return readList(ctx, c, "/v1/agent/services", &c.instances, decodeInstance)
}

// readList reads one of the agent's lists.
func readList[T any](ctx context.Context, c *client, endpoint string, l *list[T], decode func(string, []byte) (*T, error)) (map[string]*T, error) {
	body, err := c.open(ctx, endpoint)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // it was read to its end, or is not wanted
	values, err := l.read(body, decode)
	return values, reading(endpoint, err)
}

// reading says what was read when an error came; nil stays nil.
func reading(endpoint string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("reading %s: %w", strings.TrimPrefix(endpoint, "/v1/"), err)
}

func decodeInstance(id string, text []byte) (*Instance, error) {
	var w wireService
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, err
	}
	if w.Service == "" {
		return nil, fmt.Errorf("service %q has no name", id)
	}
	return w.instance(id), nil
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
	checks, err := readList(ctx, c, "/v1/agent/checks", &c.listed, c.decodeCheck)
	if len(checks) == 0 {
		return checks, "", err
	}
	return checks, c.node, err
}

func (c *client) decodeCheck(id string, text []byte) (*Check, error) {
	var w wireCheck
	if err := json.Unmarshal(text, &w); err != nil {
		return nil, err
	}
	c.node = cmp.Or(w.Node, c.node)
	return &Check{
		ID: id, Name: w.Name, ServiceID: w.ServiceID, Type: w.Type,
		Status: w.Status, Output: w.Output, Notes: w.Notes,
	}, nil
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

// noServices keeps all services out of an answer that is waited for because of its
// index alone. A thousand of them would cost the agent, the servers and us more
// than all that follows. The index does not depend on the filter.
const noServices = `ID == ""`

func (c *client) nodeServices(ctx context.Context, node string, index uint64, wait time.Duration) (ring, error) {
	var wire struct {
		Node struct{ Node, Address string }
	}
	q := api.QueryOptions{AllowStale: true, WaitIndex: index, WaitTime: wait, Filter: noServices}
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
