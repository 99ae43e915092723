package extras

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"github.com/consul-hds/consul-hds/test/lab"
)

const (
	rulesFile = "examples/prometheus/consul-hds.rules.yml"
	testsFile = "examples/prometheus/consul-hds.rules.test.yml"
)

// rule is an alert rule of Prometheus.
type rule struct {
	Alert, Expr         string
	Labels, Annotations map[string]string
}

func readRules(t *testing.T) []rule {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	require.NoError(t, yaml.Unmarshal([]byte(read(t, rulesFile)), &file))
	require.Len(t, file.Groups, 1)
	require.NotEmpty(t, file.Groups[0].Rules)
	return file.Groups[0].Rules
}

// promtool runs promtool in the folder of the rules. Debian's package prometheus
// has it; .ci/install-extras puts it into bin, and PROMTOOL_BIN may name another.
func promtool(t *testing.T, args ...string) {
	t.Helper()
	root, err := lab.RepoRoot()
	require.NoError(t, err)
	binary := os.Getenv("PROMTOOL_BIN")
	if binary == "" {
		if binary, err = exec.LookPath("promtool"); err != nil {
			binary = filepath.Join(root, "bin", "promtool")
		}
	}
	require.FileExists(t, binary, "these tests need promtool: run .ci/install-extras, or set PROMTOOL_BIN")
	cmd := exec.CommandContext(t.Context(), binary, args...)
	cmd.Dir = filepath.Join(root, filepath.Dir(rulesFile))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
}

func TestPromtoolTestsTheRules(t *testing.T) {
	promtool(t, "check", "rules", filepath.Base(rulesFile))
	promtool(t, "test", "rules", filepath.Base(testsFile))
}

// promtool tests what the file of tests holds, and this that it holds enough.
func TestEachAlertIsMadeToFireAndNotToFire(t *testing.T) {
	var file struct {
		Tests []struct {
			AlertRuleTest []struct {
				Alertname string
				ExpAlerts []any `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}
	require.NoError(t, yaml.Unmarshal([]byte(read(t, testsFile)), &file))
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, group := range file.Tests {
		fired := map[string]bool{}
		for _, c := range group.AlertRuleTest {
			fired[c.Alertname] = fired[c.Alertname] || len(c.ExpAlerts) > 0
		}
		for alert, yes := range fired {
			fires[alert], quiet[alert] = fires[alert] || yes, quiet[alert] || !yes
		}
	}
	for _, r := range readRules(t) {
		assert.True(t, fires[r.Alert], "no test makes %s fire", r.Alert)
		assert.True(t, quiet[r.Alert], "no test comes near to %s without a fire", r.Alert)
	}
}

func TestTheRulesAskForWhatExists(t *testing.T) {
	series := exposed(t)
	for _, r := range readRules(t) {
		q := parse(t, r.Expr)
		q.names(series)
		q.checkGrouping(series)
	}
}

// headings finds the second level of headings of a page.
var headings = regexp.MustCompile(`(?m)^## (.+)$`)

// Each alert says what it is about, and links to its own section of the
// runbooks; each section belongs to an alert, in the same order.
func TestEachAlertHasARunbook(t *testing.T) {
	const page = "docs/runbooks.md"
	text := read(t, page)
	var sections, alerts []string
	for _, m := range headings.FindAllStringSubmatch(text, -1) {
		sections = append(sections, m[1])
	}
	for _, r := range readRules(t) {
		alerts = append(alerts, r.Alert)
		assert.Contains(t, []string{"critical", "warning"}, r.Labels["severity"], r.Alert)
		assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
		assert.NotEmpty(t, r.Annotations["description"], r.Alert)
		assert.Equal(t, page+"#"+strings.ToLower(r.Alert), r.Annotations["runbook_url"], r.Alert)
		_, section, _ := strings.Cut(text, "\n## "+r.Alert+"\n")
		section, _, _ = strings.Cut(section, "\n## ")
		for _, part := range []string{"**Meaning.**", "**What users see.**", "**Look.**", "**Do.**"} {
			assert.Contains(t, section, part, r.Alert)
		}
	}
	assert.Equal(t, alerts, sections)
}

// mentioned finds the metrics that a page names.
var mentioned = regexp.MustCompile(`consul_hds_[a-z_]+`)

func TestTheRunbooksNameWhatExists(t *testing.T) {
	known := map[string]bool{}
	for _, l := range exposed(t) {
		known[family(l.Get("__name__"))] = true
	}
	for _, name := range mentioned.FindAllString(read(t, "docs/runbooks.md"), -1) {
		assert.True(t, known[family(name)], name)
	}
}
