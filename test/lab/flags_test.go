package lab

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCommandsTakeFlagsOnly(t *testing.T) {
	assert.NoError(t, onlyFlags(nil))
	assert.EqualError(t, onlyFlags([]string{"daemon-kill", "x"}), `unexpected argument "daemon-kill": there are only flags`)
}
