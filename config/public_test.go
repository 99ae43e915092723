package config

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// What is public holds nothing that a probe sends or looks for, and all the rest;
// the configuration itself is left as it was.
func TestPublic(t *testing.T) {
	c := load(t, "a.hcl", `
consul {
  token = "hush-token"
}
service "web" {
  check "api" {
    interval = "3s"
    http {
      method  = "POST"
      path    = "/api"
      header  = { "Authorization" = ["Bearer hush-1", "hush-2"], "X-Empty" = [""] }
      body    = "hush-3"
      receive = ["hush-4", "hex:687573682d35"]
    }
  }
  check "cache" {
    tcp {
      port    = 6379
      send    = "hex:687573682d36"
      receive = ["hush-7"]
    }
  }
  check "plain" {
    grpc {
      service = "shop.Cart"
    }
  }
}
`)
	before := c.Redacted()
	public := c.Public()
	for _, secret := range []string{"hush", "687573682d"} {
		assert.NotContains(t, public, secret)
	}
	for _, text := range []string{
		`token         = "(hidden)"`, `service "web"`, `check "api"`, `interval = "3s"`, `path   = "/api"`, `"Authorization" = ["(hidden)"]`,
		`"X-Empty"       = ["(hidden)"]`, `body    = "(hidden)"`, `receive = ["(hidden)"]`, `port    = 6379`, `send    = "(hidden)"`, `service = "shop.Cart"`,
	} {
		assert.Contains(t, public, text)
	}
	assert.Contains(t, before, "hush-7")
	assert.Equal(t, before, c.Redacted())
	assert.Contains(t, Default().Public(), `poll_interval = "1s"`)
}
