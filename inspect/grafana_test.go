package inspect_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spindleloop/spindle/inspect"
	"github.com/spindleloop/spindle/internal/until"
)

// dashboard is the part of Grafana's model of a dashboard that a file must have to be imported
// and drawn.
type dashboard struct {
	Title         string `json:"title"`
	UID           string `json:"uid"`
	SchemaVersion int    `json:"schemaVersion"`
	Templating    struct {
		List []struct {
			Name, Type string
			Query      json.RawMessage
		} `json:"list"`
	} `json:"templating"`
	Panels []struct {
		ID         int                      `json:"id"`
		Type       string                   `json:"type"`
		Title      string                   `json:"title"`
		GridPos    struct{ X, Y, W, H int } `json:"gridPos"`
		Datasource struct{ Type, UID string }
		Targets    []struct{ RefID, Expr, LegendFormat string }
	} `json:"panels"`
}

// readDashboard reads docs/grafana.json.
func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	text, err := os.ReadFile("../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// withVariables returns an expression with values for its variables, as Grafana sets them.
func withVariables(expr string) string {
	return strings.NewReplacer("$__rate_interval", "1m", "$instance", ".*", "$loop", ".*").Replace(expr)
}

var (
	metricIn  = regexp.MustCompile(`spindle_[a-z_]+`)
	matcherIn = regexp.MustCompile(`([a-z_]+)=~?"`)
	groupedBy = regexp.MustCompile(`by \(([^)]*)\)`)
	legendOf  = regexp.MustCompile(`\{\{ ?([a-z_]+) ?\}\}`)
)

// labelsIn returns the labels of each metric in a text of metrics.
func labelsIn(text string) map[string][]string {
	labels := map[string][]string{}
	for line := range strings.Lines(text) {
		name, rest, ok := strings.Cut(line, "{")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		labels[name] = []string{"instance", "job"} // that Prometheus adds
		for _, m := range regexp.MustCompile(`([a-z]+)="`).FindAllStringSubmatch(rest, -1) {
			labels[name] = append(labels[name], m[1])
		}
	}
	return labels
}

// TestDashboardNamesMetricsThatExist checks docs/grafana.json: its model, and that every metric
// and label in it is in /metrics.
func TestDashboardNamesMetricsThatExist(t *testing.T) {
	d := readDashboard(t)
	if d.Title == "" || d.UID == "" || d.SchemaVersion < 36 || len(d.Panels) == 0 {
		t.Errorf("the dashboard has the title %q, the uid %q, version %d and %d panels", d.Title, d.UID, d.SchemaVersion, len(d.Panels))
	}
	var labels map[string][]string
	serving(t, "dashboard", http.NotFoundHandler(), func(string) {
		until.Tried(func() bool { // counting of requests begins with the first reading
			_, body := request(inspect.Options{}, "GET", "/metrics", nil)
			labels = labelsIn(string(body))
			return labels["spindle_http_requests_total"] != nil
		})
	})
	var rules strings.Builder
	rules.WriteString("groups:\n- name: dashboard\n  rules:\n")
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if ids[p.ID] || p.ID == 0 || p.Type == "" || p.Title == "" || p.GridPos.W < 1 || p.GridPos.X+p.GridPos.W > 24 || p.GridPos.H < 1 ||
			p.Datasource.Type != "prometheus" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("panel %q: %+v", p.Title, p)
		}
		ids[p.ID] = true
		for _, target := range p.Targets {
			checkTarget(t, labels, p.Title, target.Expr, target.LegendFormat)
			fmt.Fprintf(&rules, "  - record: dashboard:%d:%s\n    expr: %q\n", p.ID, target.RefID, withVariables(target.Expr))
		}
	}
	for _, v := range d.Templating.List {
		for _, metric := range metricIn.FindAllString(string(v.Query), -1) {
			if labels[metric] == nil {
				t.Errorf("the variable %s names %s, which is not in /metrics", v.Name, metric)
			}
		}
	}
	checkRules(t, rules.String())
}

// checkTarget checks that the metrics of an expression exist, with the labels that it names.
func checkTarget(t *testing.T, labels map[string][]string, panel, expr, legend string) {
	t.Helper()
	metrics := metricIn.FindAllString(expr, -1)
	if len(metrics) == 0 {
		t.Errorf("panel %q has no metric: %s", panel, expr)
	}
	var named []string
	for _, m := range matcherIn.FindAllStringSubmatch(expr, -1) {
		named = append(named, m[1])
	}
	for _, m := range groupedBy.FindAllStringSubmatch(expr, -1) {
		named = append(named, strings.Split(strings.ReplaceAll(m[1], " ", ""), ",")...)
	}
	for _, m := range legendOf.FindAllStringSubmatch(legend, -1) {
		named = append(named, m[1])
	}
	for _, metric := range metrics {
		if labels[metric] == nil {
			t.Errorf("panel %q names %s, which is not in /metrics", panel, metric)
			continue
		}
		for _, label := range named {
			if !slices.Contains(labels[metric], label) {
				t.Errorf("panel %q names the label %s, which %s does not have", panel, label, metric)
			}
		}
	}
}

// checkRules checks expressions with promtool, if it is installed.
func checkRules(t *testing.T, rules string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Log("promtool is not installed")
		return
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(path, "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s", err, out)
	}
}
