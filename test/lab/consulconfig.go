package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// ConsulOptions of a Consul agent. The zero value is a dev agent.
type ConsulOptions struct {
	// Name of the process and of its log; "consul" when empty.
	Name string
	// NodeName is the name of the Consul node; that of the process when empty.
	NodeName string
	// Address is the loopback address that all ports are on; 127.0.0.1 when
	// empty.
	Address string
	// Server makes the agent a client that joins the cluster of this server. A
	// client has a data directory: it survives Restart.
	Server *Consul
	// Persistent runs a single server with a data directory, whose state
	// survives Restart, and which finds its clients again. A dev agent keeps
	// nothing. With Server it is a further server of that one's cluster.
	Persistent bool
	// GRPCSocket has the agent serve xDS on a unix socket, which Envoys in a
	// Namespace can reach, instead of a port.
	GRPCSocket bool
	// Config is HCL laid over the lab's own.
	Config string
	// Token is the ACL token of Client and of the lab's own reads.
	Token string
}

// writeConfig writes the configuration into the work folder and returns the
// arguments for it.
func (c *Consul) writeConfig(ctx context.Context, l *Lab, binary string) ([]string, error) {
	dir := l.Path(c.opts.Name)
	lab, extra := filepath.Join(dir, "1-lab.hcl"), filepath.Join(dir, "2-extra.hcl")
	err := errors.Join(os.Mkdir(dir, 0o755),
		os.WriteFile(lab, []byte(c.labConfig(hasGRPCTLS(ctx, binary))), 0o644),
		os.WriteFile(extra, []byte(c.opts.Config), 0o644))
	if err != nil {
		return nil, fmt.Errorf("writing the configuration of %s: %w", c.opts.Name, err)
	}
	return append([]string{"agent", "-config-file", lab, "-config-file", extra}, c.roleArgs()...), nil
}

func (c *Consul) labConfig(grpcTLS bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "node_name = %q\nbind_addr = %q\nclient_addr = %[2]q\n", c.opts.NodeName, c.opts.Address)
	fmt.Fprintf(&b, "disable_update_check = true\nlog_level = \"info\"\nui_config {\n  enabled = true\n}\n")
	fmt.Fprintf(&b, "performance {\n  raft_multiplier = 1\n}\nconnect {\n  enabled = true\n}\n")
	fmt.Fprintf(&b, "ports {\n  https = -1\n")
	if grpcTLS {
		fmt.Fprintf(&b, "  grpc_tls = -1\n")
	}
	for name, port := range c.ports {
		fmt.Fprintf(&b, "  %s = %d\n", name, port)
	}
	fmt.Fprintf(&b, "}\n")
	if c.grpcSocket != "" {
		fmt.Fprintf(&b, "addresses {\n  grpc = %q\n}\n", c.GRPCAddr())
	}
	return b.String()
}

// roleArgs make the agent a client, a first or a further server with a data
// directory, or a dev agent. Consul waits 30 s between two attempts to join, which is long for a lab.
func (c *Consul) roleArgs() []string {
	switch {
	case c.opts.Server != nil:
		args := []string{"-data-dir", c.data, "-retry-join", c.opts.Server.addr("serf_lan"), "-retry-interval", "1s"}
		if c.opts.Persistent {
			args = append(args, "-server")
		}
		return args
	case c.opts.Persistent:
		return []string{"-server", "-bootstrap-expect=1", "-data-dir", c.data}
	}
	return []string{"-dev"}
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
