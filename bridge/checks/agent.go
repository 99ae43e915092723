package checks

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/bridge/health"
)

// ConsulAgent writes checks by the HTTP API of the local agent. Token, TLS and
// connections are the client's matter.
type ConsulAgent struct {
	Client *api.Client
	// Namespace and Partition are passed through when set.
	Namespace, Partition string
}

var _ Agent = ConsulAgent{}

func (a ConsulAgent) options(ctx context.Context) *api.QueryOptions {
	return (&api.QueryOptions{Namespace: a.Namespace, Partition: a.Partition}).WithContext(ctx)
}

// Register implements Agent. The agent decodes strictly, so nothing is set that
// an old one would not know (facts/consul.md 1.1).
func (a ConsulAgent) Register(ctx context.Context, r Registration) error {
	err := a.Client.Agent().CheckRegisterOpts(&api.AgentCheckRegistration{
		ID: r.CheckID, Name: r.Name, Notes: r.Notes, ServiceID: r.ServiceID,
		AgentServiceCheck: api.AgentServiceCheck{TTL: r.TTL.String(), Status: string(r.Status)},
		Namespace:         a.Namespace, Partition: a.Partition,
	}, a.options(ctx))
	return classify("registering", r.CheckID, err)
}

// Update implements Agent.
func (a ConsulAgent) Update(ctx context.Context, checkID string, status health.Status, output string) error {
	err := a.Client.Agent().UpdateTTLOpts(checkID, output, string(status), a.options(ctx))
	return classify("updating", checkID, err)
}

// Deregister implements Agent.
func (a ConsulAgent) Deregister(ctx context.Context, checkID string) error {
	err := a.Client.Agent().CheckDeregisterOpts(checkID, a.options(ctx))
	return classify("deregistering", checkID, err)
}

// unknownTexts are what agents say of a check or service that is not there;
// older ones with 500 instead of 404 (facts/consul.md 1.2).
var unknownTexts = []string{"does not have associated TTL", "Unknown check", "Unknown service", "does not exist"}

// classify gives an error of the API the meaning that Agent promises.
func classify(doing, checkID string, err error) error {
	if err == nil {
		return nil
	}
	kind := error(nil)
	var answer api.StatusError
	var network net.Error
	switch {
	case errors.As(err, &answer) && answer.Code == http.StatusForbidden && strings.Contains(answer.Body, "ACL not found"):
		kind = ErrTokenUnknown
	case errors.As(err, &answer) && answer.Code == http.StatusForbidden:
		kind = ErrDenied
	case errors.As(err, &answer) && (answer.Code == http.StatusNotFound || says(answer.Body, unknownTexts)):
		kind = ErrUnknown
	case errors.As(err, &answer) && strings.Contains(answer.Body, unsavedText):
		kind = ErrUnsaved
	case errors.As(err, &network):
		kind = ErrAway
	}
	if kind != nil {
		return fmt.Errorf("%s check %q: %w: %w", doing, checkID, kind, err)
	}
	return fmt.Errorf("%s check %q: %w", doing, checkID, err)
}

// unsavedText is what an agent says that cannot write the state file of a check;
// by then, it has taken the update over.
const unsavedText = "failed persisting state for check"

func says(body string, texts []string) bool {
	for _, t := range texts {
		if strings.Contains(body, t) {
			return true
		}
	}
	return false
}
