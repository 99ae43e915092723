package extras

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/bridge/telemetry"
	"github.com/consul-hds/consul-hds/test/lab"
)

// scraped are the labels that Prometheus adds to every series.
var scraped = labels.FromStrings("job", "consul-hds", "instance", "n1:8512")

// exposed are the series that a daemon serves from its start, and up, which
// Prometheus adds.
func exposed(t *testing.T) []labels.Labels {
	t.Helper()
	gathered, err := telemetry.New("1.2.3").Registry().Gather()
	require.NoError(t, err)
	samples, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{Timestamp: model.TimeFromUnix(time.Now().Unix())}, gathered...)
	require.NoError(t, err)
	out := []labels.Labels{withScraped(model.Metric{model.MetricNameLabel: "up"})}
	for _, s := range samples {
		out = append(out, withScraped(s.Metric))
	}
	return out
}

func withScraped(m model.Metric) labels.Labels {
	b := labels.NewBuilder(scraped)
	for name, value := range m {
		b.Set(string(name), string(value))
	}
	return b.Labels()
}

// query is a parsed PromQL expression.
type query struct {
	t    *testing.T
	text string
	expr parser.Expr
}

// grafana are the variables that stand outside of strings in a dashboard.
var grafana = regexp.MustCompile(`\$__rate_interval|\$__range|\$__interval`)

func parse(t *testing.T, text string) query {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(grafana.ReplaceAllString(text, "5m"))
	require.NoError(t, err, text)
	return query{t, text, expr}
}

// names are the metrics that a query names; each of its selectors has to find
// one of the series, whatever they are labelled by the scrape.
func (q query) names(series []labels.Labels) (names []string) {
	q.t.Helper()
	for _, s := range q.selectors() {
		names = append(names, s.Name)
		found := false
		for _, l := range series {
			found = found || finds(s, l)
		}
		assert.True(q.t, found, "%s finds nothing that is exposed, in %s", s, q.text)
	}
	require.NotEmpty(q.t, names, q.text)
	return names
}

func finds(s *parser.VectorSelector, l labels.Labels) bool {
	for _, m := range s.LabelMatchers {
		if !scraped.Has(m.Name) && !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

func (q query) selectors() (out []*parser.VectorSelector) {
	parser.Inspect(q.expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			out = append(out, s)
		}
		return nil
	})
	return out
}

// checkGrouping says of each aggregation that what it groups by are labels of
// what it aggregates.
func (q query) checkGrouping(series []labels.Labels) {
	q.t.Helper()
	parser.Inspect(q.expr, func(node parser.Node, _ []parser.Node) error {
		if a, ok := node.(*parser.AggregateExpr); ok {
			inner := query{q.t, q.text, a.Expr}
			for _, name := range a.Grouping {
				assert.True(q.t, inner.has(name, series), "%q is no label of what is grouped by it in %s", name, q.text)
			}
		}
		return nil
	})
}

// has says whether a series that the query selects has a label.
func (q query) has(label string, series []labels.Labels) bool {
	for _, s := range q.selectors() {
		for _, l := range series {
			if l.Has(label) && finds(s, l) {
				return true
			}
		}
	}
	return false
}

// family is the metric that a series belongs to, as the reference lists it.
func family(name string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		name = strings.TrimSuffix(name, suffix)
	}
	return name
}

// read reads a file of the repository.
func read(t *testing.T, path string) string {
	t.Helper()
	root, err := lab.RepoRoot()
	require.NoError(t, err)
	b, err := os.ReadFile(filepath.Join(root, path))
	require.NoError(t, err)
	return string(b)
}
