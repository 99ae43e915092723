package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
)

const variablePrefix = "CONSUL_HDS_"

// consulVariables are the variables of Consul's own tools that name an
// attribute. CONSUL_HTTP_AUTH and CONSUL_CAPATH have no attribute: they are
// left to Consul's client, which reads them itself.
var consulVariables = []struct{ variable, path string }{
	{"CONSUL_HTTP_ADDR", addressPath},
	{"CONSUL_HTTP_TOKEN", tokenPath},
	{"CONSUL_HTTP_TOKEN_FILE", tokenFilePath},
	{"CONSUL_NAMESPACE", "consul.namespace"},
	{"CONSUL_PARTITION", "consul.partition"},
	{"CONSUL_CACERT", "consul.tls.ca_file"},
	{"CONSUL_CLIENT_CERT", "consul.tls.cert_file"},
	{"CONSUL_CLIENT_KEY", "consul.tls.key_file"},
	{"CONSUL_TLS_SERVER_NAME", "consul.tls.server_name"},
}

func (l *loader) readVariables(environ []string) {
	env := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	for _, v := range consulVariables {
		l.setText(l.consul, l.byPath[v.path], env[v.variable], Source{Variable: v.variable})
	}
	l.readSSL(env)
	known := map[string]bool{}
	for _, a := range l.attributes {
		known[a.Variable] = true
		l.setText(l.variables, a, env[a.Variable], Source{Variable: a.Variable})
	}
	l.warnUnknown(env, known)
}

// readSSL reads the two variables that say something else than an attribute.
func (l *loader) readSSL(env map[string]string) {
	for _, v := range []struct {
		name, path string
		set        func(bool, Source)
	}{
		{"CONSUL_HTTP_SSL", addressPath, func(b bool, _ Source) { l.https = b }},
		{"CONSUL_HTTP_SSL_VERIFY", "consul.tls.skip_verify", func(b bool, from Source) {
			l.consul["consul.tls.skip_verify"] = setting{value: !b, source: from}
		}},
	} {
		text := strings.TrimSpace(env[v.name])
		if text == "" {
			continue
		}
		from := Source{Variable: v.name}
		b, err := strconv.ParseBool(text)
		if err != nil {
			l.fault(v.path, from, fmt.Errorf("%.80q is not allowed: true or false", text))
			continue
		}
		v.set(b, from)
	}
}

// warnUnknown tells of variables with our prefix that mean nothing. It is no
// error: orchestrators make variables of service names, which may be ours.
func (l *loader) warnUnknown(env map[string]string, known map[string]bool) {
	var names []string
	for name := range env {
		if strings.HasPrefix(name, variablePrefix) && !known[name] {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		l.diags = append(l.diags, &hcl.Diagnostic{
			Severity: hcl.DiagWarning,
			Summary:  "Unknown variable",
			Detail:   fmt.Sprintf("The variable %.80s sets nothing: there is no such attribute.", name),
		})
	}
}
