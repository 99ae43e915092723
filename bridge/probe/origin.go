package probe

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/consul-hds/consul-hds/bridge/catalog"
)

// Places says, by the name of an attribute in a check block (such as http.path),
// where it was set, such as "agent.hcl:12".
type Places map[string]string

// Origin is one attribute of a probe, and where its value came from.
type Origin struct {
	// Attribute is its name in a check block, such as http.path.
	Attribute string `json:"attribute"`
	// Value is for people. What may be secret (header values, payloads) is hidden.
	Value string `json:"value"`
	// Source is a key of the service's meta, a place in the config, or "default".
	Source string `json:"source"`
}

// attributeNames are the attributes by field of Settings; those of a kind have
// the kind's name before them.
var attributeNames = map[string]string{
	"Kind": "kind", "Interval": "interval", "Timeout": "timeout", "HealthyThreshold": "healthy_threshold",
	"UnhealthyThreshold": "unhealthy_threshold", "Observer": "observer", "Mode": "mode",
	"Address": "address", "Port": "port", "Path": "path", "Method": "method", "Host": "host", "Headers": "header",
	"ExpectedStatuses": "expected_statuses", "HTTP2": "http2", "Body": "body", "Send": "send", "Receive": "receive",
	"GRPCService": "service", "TLS": "tls", "TLSServerName": "tls.server_name", "TLSCAFile": "tls.ca_file",
	"TLSCertFile": "tls.cert_file", "TLSKeyFile": "tls.key_file", "TLSSkipVerify": "tls.skip_verify",
}

// Origins says where each attribute that is set of a probe of an instance comes
// from: the same layers that Derive lays over each other, in the same order.
func Origins(inst *catalog.Instance, p *Probe, rules *Rules) []Origin {
	m := readMeta(inst.Meta)
	check, _ := rules.checkOf(inst.Service, p.Name)
	var layers []originLayer
	if p.Name == DefaultName && len(m.keys) > 0 {
		layers = append(layers, originLayer{m.settings, func(field, _ string) string { return "meta " + m.keyOf[field] }})
	}
	layers = append(layers, originLayer{check.Settings, check.Places.of}, originLayer{rules.Defaults, rules.DefaultPlaces.of})
	return originsIn(p.Settings, layers)
}

// CheckOrigins says where each attribute that is set of a check block comes from,
// for an instance whose meta says nothing: from the check, or from the defaults
// that it falls back to, which are then named.
func CheckOrigins(c Check, rules *Rules) []Origin {
	fallback := func(field, attribute string) string {
		name := attribute[strings.LastIndex(attribute, ".")+1:]
		return "defaults." + name + ", " + rules.DefaultPlaces.of(field, attribute)
	}
	return originsIn(complete(c.Settings, rules.Defaults), []originLayer{{c.Settings, c.Places.of}, {rules.Defaults, fallback}})
}

// originsIn lists the settings that are set, with their places in the layers.
func originsIn(s Settings, layers []originLayer) (out []Origin) {
	settings := reflect.ValueOf(s)
	for i := range settings.NumField() {
		field := settings.Type().Field(i).Name
		if settings.Field(i).IsZero() {
			continue
		}
		name := attributeName(s.Kind, field)
		out = append(out, Origin{
			Attribute: name,
			Value:     shown(settings.Field(i).Interface()),
			Source:    sourceOf(field, name, s.Kind, layers),
		})
	}
	return out
}

// of is the place of an attribute. A check may name its ca_file outside of the
// tls block, and defaults can only do so.
func (p Places) of(_, attribute string) string {
	if strings.HasSuffix(attribute, ".ca_file") {
		return cmp.Or(p[attribute], p["ca_file"], builtIn)
	}
	return cmp.Or(p[attribute], builtIn)
}

// builtIn is the source of what nobody has set.
const builtIn = "default"

// originLayer is one source of settings, and how it names where it set a field.
type originLayer struct {
	settings Settings
	place    func(field, attribute string) string
}

// sourceOf finds the uppermost layer that sets a field.
func sourceOf(field, attribute string, kind Kind, layers []originLayer) string {
	for _, l := range layers {
		sameKind := l.settings.Kind == "" || l.settings.Kind == kind
		if v := reflect.ValueOf(l.settings).FieldByName(field); !v.IsZero() && (sameKind || shared[field]) {
			return l.place(field, attribute)
		}
	}
	return builtIn
}

func attributeName(kind Kind, field string) string {
	name := attributeNames[field]
	if shared[field] || field == "Kind" {
		return name
	}
	return string(kind) + "." + name
}

// shown is a value for people.
func shown(v any) string {
	switch v := v.(type) {
	case time.Duration:
		return v.String()
	case Payload:
		return counted(len(v), "byte") + " (hidden)"
	case []Payload:
		return counted(len(v), "payload") + " (hidden)"
	case map[string][]string:
		return strings.Join(slices.Sorted(maps.Keys(v)), ", ") + " (values hidden)"
	case []StatusRange:
		ranges := make([]string, len(v))
		for i, r := range v {
			ranges[i] = r.String()
		}
		return strings.Join(ranges, ",")
	}
	text := fmt.Sprint(v)
	if !utf8.ValidString(text) {
		return hex.EncodeToString([]byte(text))
	}
	return text
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// checkOf finds the check block of that name which applies to a service.
func (r *Rules) checkOf(service, name string) (Check, bool) {
	for _, c := range r.checksOf(service) {
		if c.Name == name {
			return c, true
		}
	}
	return Check{}, false
}
