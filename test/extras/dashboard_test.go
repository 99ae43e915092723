package extras

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// dashboard is a dashboard of Grafana, as far as it is looked at here.
type dashboard struct {
	Title, Description, UID string
	SchemaVersion           int
	Templating              struct {
		List []struct{ Name, Type, Definition string }
	}
	Panels []panel
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Datasource               struct{ Type, UID string }
	GridPos                  struct{ X, Y, W, H int }
	Targets                  []struct{ RefID, Expr, LegendFormat string }
}

func readDashboard(t *testing.T) dashboard {
	t.Helper()
	var d dashboard
	require.NoError(t, json.Unmarshal([]byte(read(t, "examples/grafana/consul-hds.json")), &d))
	require.NotEmpty(t, d.Panels)
	return d
}

// legend finds the labels that a legend shows.
var legend = regexp.MustCompile(`\{\{(\w+)\}\}`)

// Each query of the dashboard finds what a daemon exposes, and each metric of a
// daemon is on it.
func TestTheDashboardShowsWhatExists(t *testing.T) {
	series, shown := exposed(t), map[string]bool{}
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			q := parse(t, target.Expr)
			for _, name := range q.names(series) {
				shown[family(name)] = true
			}
			q.checkGrouping(series)
			for _, m := range legend.FindAllStringSubmatch(target.LegendFormat, -1) {
				assert.True(t, q.has(m[1], series), "panel %q: the legend shows %q, which %s lacks", p.Title, m[1], target.Expr)
			}
			for _, s := range q.selectors() {
				assert.Contains(t, s.String(), `instance=~"$instance",job=~"$job"`, "panel %q ignores the variables", p.Title)
			}
		}
	}
	for _, l := range series {
		if name := family(l.Get("__name__")); strings.HasPrefix(name, "consul_hds_") {
			assert.True(t, shown[name], "no panel shows %s", name)
		}
	}
}

// Grafana takes the dashboard as it is: panels have ids and places of their own,
// and whichever Prometheus is chosen.
func TestTheDashboardIsSound(t *testing.T) {
	d := readDashboard(t)
	assert.NotEmpty(t, d.Title)
	assert.NotEmpty(t, d.Description)
	assert.NotEmpty(t, d.UID)
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name+" "+v.Type)
	}
	assert.Equal(t, []string{"datasource datasource", "job query", "instance query"}, variables)

	ids, taken := map[int]string{}, map[[2]int]string{}
	var rows []string
	for _, p := range d.Panels {
		assert.Empty(t, ids[p.ID], "the id of %q is taken", p.Title)
		ids[p.ID] = p.Title
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			require.Less(t, x, 24, p.Title)
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				require.Empty(t, taken[[2]int{x, y}], "the place of %q is taken", p.Title)
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			rows = append(rows, p.Title)
			continue
		}
		assert.NotEmpty(t, p.Description, p.Title)
		assert.Equal(t, "prometheus ${datasource}", p.Datasource.Type+" "+p.Datasource.UID, p.Title)
		assert.NotEmpty(t, p.Targets, p.Title)
	}
	assert.Equal(t, []string{"Overview", "Envoys", "Consul", "Process"}, rows)
}
