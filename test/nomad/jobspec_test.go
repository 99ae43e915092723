package nomad

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Faults that Nomad would tell of, and that must not get past the tests of the
// files here.
func TestBadJobs(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"unknown attribute":        {`typo = "system"`, `x.hcl:2,1-5: api.Job has no attribute "typo"`},
		"unknown block":            {`groups "a" {}`, `api.Job has no block "groups"`},
		"deep unknown attribute":   {"group \"a\" {\n task \"t\" {\n  kill_timeouts = \"5s\"\n }\n}", `api.Task has no attribute "kill_timeouts"`},
		"attribute for block":      {`group "a" { network = "host" }`, `api.TaskGroup has no attribute "network"`},
		"block for attribute":      {`type {}`, `api.Job has no block "type"`},
		"block twice":              {"update {}\nupdate {}", `a second block "update"`},
		"group without label":      {`group {}`, "has one label"},
		"label too many":           {`update "a" {}`, "has no label"},
		"duration without unit":    {"group \"a\" {\n task \"t\" {\n  kill_timeout = \"5\"\n }\n}", "kill_timeout: time: missing unit"},
		"duration as number":       {"group \"a\" {\n task \"t\" {\n  kill_timeout = 5\n }\n}", "a duration is a string"},
		"text for number":          {`priority = "high"`, "priority: json: cannot unmarshal string"},
		"block in config":          {"group \"a\" {\n task \"t\" {\n  config {\n   mount {}\n  }\n }\n}", `a block within "config"`},
		"name that nobody knows":   {`type = "${nomad_task}"`, "Unknown variable"},
		"variable that is not one": {`type = var.kind`, "Unsupported attribute"},
		"function":                 {`type = upper("x")`, "Function calls not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseJob("x.hcl", []byte("job \"x\" {\n"+c.body+"\n}\n"), nil)
			require.ErrorContains(t, err, c.want)
		})
	}
	for name, c := range map[string]struct{ src, want string }{
		"no job":                  {`locals {}`, "0 jobs, not one"},
		"something else":          {"jobs \"x\" {}", "Unsupported block type"},
		"variable without value":  {"variable \"a\" {\n  type = string\n}\njob \"x\" {}", `the variable "a" has no value`},
		"variable with a mistake": {"variable \"a\" {\n  type = string\n  def = 1\n}\njob \"x\" {}", "Unsupported argument"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseJob("x.hcl", []byte(c.src), nil)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestGoodJob(t *testing.T) {
	job, err := ParseJob("x.hcl", []byte(`
variable "image" {
  type = string
}
variable "tag" {
  type    = string
  default = "1"
}
locals {
  both = "${var.image}:${var.tag}"
}
job "x" {
  meta {
    node = "${node.unique.id}, ${meta.connect.log_level}"
  }
  group "a" {
    volume "v" {
      type = "host"
    }
    task "t" {
      kill_timeout = "1m30s"
      config {
        image = local.both
        args  = ["-c", "${NOMAD_SECRETS_DIR}/x"]
      }
    }
  }
}`), map[string]string{"image": "i"})
	require.NoError(t, err)
	assert.Equal(t, "x", *job.ID)
	assert.Equal(t, "${node.unique.id}, ${meta.connect.log_level}", job.Meta["node"])
	group := job.TaskGroups[0]
	assert.Equal(t, "host", group.Volumes["v"].Type)
	task := group.Tasks[0]
	assert.Equal(t, "1m30s", task.KillTimeout.String())
	assert.Equal(t, map[string]any{"image": "i:1", "args": []any{"-c", "${NOMAD_SECRETS_DIR}/x"}}, task.Config)
}
