package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/consul-hds/consul-hds/bootstrap"
	"github.com/consul-hds/consul-hds/config"
)

const bootstrapHelp = `
Usage: consul-hds bootstrap [options]

  Makes an Envoy an observer: reads its bootstrap, JSON or YAML, on stdin, adds
  hds_config and the cluster of the daemon, and writes it as JSON to stdout. All
  else in it stays as it is; what an earlier run has added is replaced.

      consul connect envoy -sidecar-for web-1 -bootstrap |
        consul-hds bootstrap > web-1.json

  With -overlay it reads nothing, and writes the addition alone, on one line:

      consul connect envoy -sidecar-for web-1 -- \
        --config-yaml "$(consul-hds bootstrap -overlay)"

  Where the configuration has hds.auth = "consul", the output holds a token:
  write it where only Envoy can read it.

  Exits with 1 if the bootstrap cannot be completed.
`

// bootstrapFlags are the flags of the command.
type bootstrapFlags struct {
	addr, nodeID, tokenFile string
	overlay, reuseToken     bool
	tls                     bootstrap.TLS
}

func registerBootstrap(fs *flag.FlagSet) *bootstrapFlags {
	f := &bootstrapFlags{}
	fs.StringVar(&f.addr, "hds-addr", "", "`address` at which Envoy reaches the daemon: unix:// and a path, or host:port. Default: the first of hds.listen of the configuration files given, else unix:///run/consul-hds/hds.sock.")
	fs.StringVar(&f.nodeID, "node-id", "", "`id` of the node, for a plain Envoy. Default: that of the bootstrap.")
	fs.BoolVar(&f.overlay, "overlay", false, "Write only what is added, for Envoy's --config-yaml. It never holds a token.")
	fs.StringVar(&f.tokenFile, "token-file", "", "`path` of a file with the ACL token that Envoy sends to the daemon.")
	fs.BoolVar(&f.reuseToken, "reuse-token", false, "Send the daemon the token that the bootstrap carries for Consul. This is the default if the configuration files have hds.auth = \"consul\".")
	fs.StringVar(&f.tls.CAFile, "ca-file", "", "`path` of the CA of the daemon's certificate, as Envoy sees it. Makes Envoy use TLS.")
	fs.StringVar(&f.tls.CertFile, "cert-file", "", "`path` of Envoy's certificate, as Envoy sees it.")
	fs.StringVar(&f.tls.KeyFile, "key-file", "", "`path` of the key of Envoy's certificate, as Envoy sees it.")
	fs.StringVar(&f.tls.ServerName, "tls-server-name", "", "`name` or IP address that the daemon's certificate must have. Default: the host of the address.")
	return f
}

// runBootstrap completes a bootstrap.
func runBootstrap(args []string, env environment) int {
	fs := newFlags("bootstrap")
	options := &config.Options{Environ: env.environ, Flags: map[string]string{}}
	fileFlags(fs, options)
	f := registerBootstrap(fs)
	if code, ok := parseFlags(fs, args, env, bootstrapHelp); !ok {
		return code
	}
	if code, ok := refuseArguments(fs, env); !ok {
		return code
	}
	loaded, ok := loadConfig(*options, env)
	if !ok {
		return exitUsage
	}
	a, err := f.addition(loaded.Config.HDS)
	if err != nil {
		code, _ := misused(fs, env, err.Error())
		return code
	}
	if f.overlay {
		out, err := a.Overlay()
		if err != nil {
			code, _ := misused(fs, env, "-overlay: "+err.Error())
			return code
		}
		return writeOut(out, env)
	}
	return complete(a, env)
}

// addition is what the flags say, and the configuration where they are silent.
func (f *bootstrapFlags) addition(hds config.HDS) (*bootstrap.Addition, error) {
	o := bootstrap.Options{Address: f.addr, NodeID: f.nodeID, TLS: f.tls, ReuseToken: f.reuseToken}
	if o.Address == "" {
		o.Address = hds.Listen[0]
	}
	tcp := !strings.HasPrefix(o.Address, "unix://")
	switch {
	case tcp && hds.TLS.CertFile != "" && f.tls.CAFile == "":
		return nil, errors.New("the daemon's TCP listeners speak TLS (hds.tls.cert_file): -ca-file is needed")
	case tcp && hds.TLS.ClientCAFile != "" && f.tls.CertFile == "":
		return nil, errors.New("the daemon verifies the certificates of Envoys (hds.tls.client_ca_file): -cert-file and -key-file are needed")
	case f.tokenFile != "":
		var err error
		if o.Token, err = readToken(f.tokenFile); err != nil {
			return nil, err
		}
	case hds.Auth == "consul":
		o.ReuseToken = true
	}
	return bootstrap.New(o)
}

func readToken(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading the token: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if token == "" {
		return "", fmt.Errorf("reading the token: %s is empty", file)
	}
	return token, nil
}

// complete completes the bootstrap on stdin. Nothing is written unless all of
// it can be.
func complete(a *bootstrap.Addition, env environment) int {
	if terminal(env.stdin) {
		fmt.Fprint(env.stderr, "The bootstrap is read from stdin, which is a terminal: pipe it, as in\n\n"+
			"    consul connect envoy -sidecar-for web-1 -bootstrap | consul-hds bootstrap\n\n"+
			"or see \"consul-hds help bootstrap\".\n")
		return exitUsage
	}
	in, err := io.ReadAll(env.stdin)
	if err != nil {
		fmt.Fprintln(env.stderr, "reading the bootstrap from stdin:", err)
		return exitFailed
	}
	out, err := a.AddTo(in)
	if err != nil {
		fmt.Fprintln(env.stderr, err)
		return exitFailed
	}
	if a.ExposesToken() {
		fmt.Fprintln(env.stderr, "Warning: the token will cross the network in plain text. -ca-file makes Envoy use TLS.")
	}
	return writeOut(out, env)
}

func writeOut(out []byte, env environment) int {
	if _, err := env.stdout.Write(out); err != nil {
		fmt.Fprintln(env.stderr, "writing to stdout:", err)
		return exitFailed
	}
	return exitOK
}
