package statsd

import (
	"strings"
	"unicode"

	"github.com/cactus/go-statsd-client/v5/statsd"
	dto "github.com/prometheus/client_model/go"
)

// prefix begins every name, whatever family it is of: statsd servers are shared.
const prefix = "consul_hds"

// Dialect says how a server wants series to be named.
type Dialect interface {
	name(family string, labels []*dto.LabelPair, gauge bool) series
}

// Plain is the dialect of servers without tags. As in Consul's own metrics, label
// values are parts of the name, and gauges have the host in it: those of several
// nodes would overwrite one another.
type Plain struct {
	// Host is the node's host name; empty leaves it out.
	Host string
}

func (p Plain) name(family string, labels []*dto.LabelPair, gauge bool) series {
	parts := []string{prefix}
	if gauge && p.Host != "" {
		parts = append(parts, segment(p.Host))
	}
	parts = append(parts, strings.TrimPrefix(family, prefix+"_"))
	for _, l := range labels {
		parts = append(parts, segment(l.GetValue()))
	}
	return series{name: strings.Join(parts, ".")}
}

// segment is a text as one part of a name between dots.
func segment(s string) string {
	if s == "" {
		return "none"
	}
	return strings.ReplaceAll(harmless(s), ".", "_")
}

// Tagged is the dialect of DogStatsD: labels are tags. The server knows the host.
type Tagged struct {
	// Tags are name:value, and go with every series.
	Tags []string
}

func (t Tagged) name(family string, labels []*dto.LabelPair, _ bool) series {
	out := series{name: prefix + "." + strings.TrimPrefix(family, prefix+"_")}
	for _, tag := range t.Tags {
		name, value, _ := strings.Cut(tag, ":")
		out.tags = append(out.tags, statsd.Tag{name, value})
	}
	for _, l := range labels {
		out.tags = append(out.tags, statsd.Tag{l.GetName(), harmless(l.GetValue())})
	}
	return out
}

// harmless is a text without what ends a name, a value or a tag.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(":|@#,", r) || unicode.IsSpace(r) || unicode.IsControl(r) {
			return '_'
		}
		return r
	}, s)
}
