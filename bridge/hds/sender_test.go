package hds

import (
	"testing"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/stretchr/testify/assert"
)

// TestAnOutboxHasOneSenderAtATime: gRPC allows no more than one. The newest specifier
// wins, and none stays behind when the sender goes.
func TestAnOutboxHasOneSenderAtATime(t *testing.T) {
	var o outbox
	first, second, third := &healthv3.HealthCheckSpecifier{}, &healthv3.HealthCheckSpecifier{}, &healthv3.HealthCheckSpecifier{}
	assert.True(t, o.put(first), "it needs a sender")
	assert.False(t, o.put(second), "which has not begun")
	assert.Same(t, second, o.take())
	assert.False(t, o.put(third), "which sends")
	assert.Same(t, third, o.take())
	assert.Nil(t, o.take(), "and goes")
	assert.True(t, o.put(first), "another one is needed")
}
