package hds

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAnEnvoyThatReconnectsInALoopFillsNoLog(t *testing.T) {
	var log bytes.Buffer
	b := serveWith(t, Config{Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
	plan, _ := shop(false, "web")
	b.SetPlan(plan)
	for range 10 {
		e := b.connect("n1")
		e.spec()
		e.leave()
	}
	e := b.connect("n2")
	e.spec()
	e.leave()
	require.NoError(t, b.shutDown())
	for _, turn := range []string{"opened", "ended"} {
		line := fmt.Sprintf("stream %s: node_id=n1 ", turn)
		assert.Equal(t, turnsAtOnce, strings.Count(log.String(), line), log.String())
		assert.Equal(t, 1, strings.Count(log.String(), fmt.Sprintf("stream %s: node_id=n2 ", turn)), "others are not held back")
	}
}
