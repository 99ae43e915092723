package catalog

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestWhatHasNotChangedIsTheSamePointer(t *testing.T) {
	of := func(port int) *Instance {
		return &Instance{ID: "a", Port: port, Meta: map[string]string{"hds": "http"}}
	}
	w := &Watcher{}
	first := &Snapshot{Instances: map[string]*Instance{"a": of(1), "b": of(1)}, Checks: map[string]*Check{"c": {ID: "c"}}}
	w.number(first)
	w.snapshot = first
	second := &Snapshot{Instances: map[string]*Instance{"a": of(1), "b": of(2)}, Checks: map[string]*Check{"c": {ID: "c"}}}
	w.number(second)
	assert.Equal(t, first.Revision+1, second.Revision)
	assert.Same(t, first.Instances["a"], second.Instances["a"])
	assert.Same(t, first.Checks["c"], second.Checks["c"])
	assert.Equal(t, 2, second.Instances["b"].Port)
	w.snapshot = second
	third := &Snapshot{Instances: map[string]*Instance{"a": of(1)}, Checks: map[string]*Check{"c": {ID: "c"}}}
	w.number(third)
	assert.Equal(t, second.Revision+1, third.Revision, "one less is a change")
	assert.NotContains(t, third.Instances, "b")
}
