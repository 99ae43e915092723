package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	rootToken = "11111111-1111-1111-1111-111111111111"
	// anonymousToken is the accessor of the token of those who give none.
	anonymousToken = "00000000-0000-0000-0000-000000000002"
	// policyName is that of the daemon's token.
	policyName = "consul-hds"
	// forbidden is how long the daemon waits at most until it tries again what its
	// token may not do: a third of the TTL.
	forbidden = 10 * time.Second
	// rotated is how long it takes at most to take over a new token.
	rotated = 2 * time.Second
)

// withACLs denies what no policy allows, and has agents forget in a second what a
// token may do.
var withACLs = `
acl {
  enabled        = true
  default_policy = "deny"
  token_ttl      = "1s"
  policy_ttl     = "1s"
  tokens {
    initial_management = "` + rootToken + `"
    agent              = "` + rootToken + `"
    default            = "` + rootToken + `"
  }
}`

// acls are those of a world.
type acls struct {
	server *lab.Consul
	// client is what policies and tokens are made by, with a token that may do all.
	client *api.Client
	// file is the daemon's token_file.
	file   string
	rules  string
	policy *api.ACLPolicy
	token  *api.ACLToken
}

// setting has a daemon with the policy that is shipped.
func (a *acls) setting() setting {
	s := quick()
	s.name = "acls"
	s.consuls = func(server, agent *lab.ConsulOptions) {
		for _, o := range []*lab.ConsulOptions{server, agent} {
			o.Config, o.Token = withACLs, rootToken
		}
	}
	s.daemon = func(_ context.Context, w *world, opts *lab.DaemonOptions) error {
		rules, err := os.ReadFile(filepath.Join(w.lab.Root(), "nomad", "policy.hcl"))
		if err != nil {
			return err
		}
		*a = acls{server: w.server, client: w.server.Client(), file: w.lab.Path("faults-token"), rules: string(rules)}
		opts.Args = append(opts.Args, "-consul-token-file", a.file)
		return errors.Join(a.makePolicy(), a.makeToken(""))
	}
	return s
}

func (a *acls) makePolicy() (err error) {
	a.policy, _, err = a.client.ACL().PolicyCreate(&api.ACLPolicy{Name: policyName, Rules: a.rules}, nil)
	return err
}

// makeToken makes a token, with a secret if it is given, and writes it into the file.
func (a *acls) makeToken(secret string) (err error) {
	a.token, _, err = a.client.ACL().TokenCreate(&api.ACLToken{SecretID: secret, Policies: []*api.ACLTokenPolicyLink{{Name: policyName}}}, nil)
	if err != nil {
		return err
	}
	return os.WriteFile(a.file, []byte(a.token.SecretID), 0o600)
}

func (a *acls) deleteToken() error {
	_, err := a.client.ACL().TokenDelete(a.token.AccessorID, nil)
	return err
}

// allow gives the policy other rules.
func (a *acls) allow(rules string) error {
	_, _, err := a.client.ACL().PolicyUpdate(&api.ACLPolicy{ID: a.policy.ID, Name: policyName, Rules: rules}, nil)
	return err
}

// tokenScenarios take the daemon's rights away for a time that is shorter than what
// is left of a TTL, and for one that is longer.
func tokenScenarios() []scenario {
	a := &acls{}
	var all []scenario
	for _, t := range []denied{
		{"token-deleted", "the daemon's token is deleted, and a new one is put into its file", rotated, a.deleteToken, func() error { return a.makeToken("") }},
		{"acl-reset", "policy and token of the daemon are deleted, and the same are made again", forbidden, a.reset, a.restored},
		{"acl-bootstrap", "the ACLs are reset and bootstrapped anew, the daemon's policy and token deleted, and new ones made by the new management token", rotated, a.bootstrapped, a.madeAnew},
		{"policy-weak", "the daemon may only read, and may write again", forbidden, func() error { return a.allow(`service_prefix "" { policy = "read" }`) }, func() error { return a.allow(a.rules) }},
	} {
		for _, long := range []time.Duration{5 * time.Second, 40 * time.Second} {
			all = append(all, ofConsul(t.name+brief(long), t.what, brief(long), a.setting(), t.run(long)))
		}
	}
	return all
}

func (a *acls) reset() error {
	_, err := a.client.ACL().PolicyDelete(a.policy.ID, nil)
	return errors.Join(err, a.deleteToken())
}

func (a *acls) restored() error { return errors.Join(a.makePolicy(), a.makeToken(a.token.SecretID)) }

// bootstrapped resets the bootstrap of the ACLs as an operator does who has lost the
// management token, and deletes what there was by the new one.
func (a *acls) bootstrapped() error {
	made, err := a.bootstrap()
	if err != nil {
		return err
	}
	a.client, err = api.NewClient(&api.Config{Address: a.server.HTTPAddr(), Token: made.SecretID})
	if err != nil {
		return err
	}
	return a.purge(made.AccessorID)
}

// resetIndex is what Consul names in its refusal to bootstrap once more.
var resetIndex = regexp.MustCompile(`reset index: (\d+)`)

// bootstrap makes a new management token.
func (a *acls) bootstrap() (*api.ACLToken, error) {
	_, _, err := a.client.ACL().Bootstrap()
	if err == nil {
		return nil, errors.New("the ACLs had not been bootstrapped")
	}
	index := resetIndex.FindStringSubmatch(err.Error())
	if index == nil {
		return nil, fmt.Errorf("Consul does not tell the reset index: %w", err)
	}
	if err := os.WriteFile(filepath.Join(a.server.DataDir(), "acl-bootstrap-reset"), []byte(index[1]), 0o600); err != nil {
		return nil, err
	}
	made, _, err := a.client.ACL().Bootstrap()
	return made, err
}

// purge deletes all policies and tokens but what Consul itself needs, the token of the
// agents and users of the world, and one more.
func (a *acls) purge(kept string) error {
	tokens, _, err := a.client.ACL().TokenList(nil)
	if err != nil {
		return err
	}
	for _, t := range tokens {
		if t.AccessorID != anonymousToken && t.SecretID != rootToken && t.AccessorID != kept {
			_, err = a.client.ACL().TokenDelete(t.AccessorID, nil)
		}
		if err != nil {
			return err
		}
	}
	_, err = a.client.ACL().PolicyDelete(a.policy.ID, nil)
	return err
}

func (a *acls) madeAnew() error { return errors.Join(a.makePolicy(), a.makeToken("")) }

// denied is a way to lose a right.
type denied struct {
	name, what string
	// again is how long it takes the daemon at most to notice that it has it again.
	again      time.Duration
	take, give func() error
}

func (d denied) run(long time.Duration) func(context.Context, *trial) error {
	return func(ctx context.Context, t *trial) error {
		f := fault{what: d.name, after: d.again + slack, expires: t.setting.leftOfTTL()}
		return t.during(f, func() error {
			if err := d.take(); err != nil {
				return err
			}
			if err := around(ctx, long, t.turn); err != nil {
				return err
			}
			return d.give()
		})
	}
}
