package config

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"unicode"

	"github.com/consul-hds/consul-hds/bridge/probe"
)

// maxTag is the longest tag that Datadog keeps.
const maxTag = 200

// checkServer takes host:port of a server to send to. Its name is looked up when
// there is something to send.
func checkServer(s string) error {
	host, port, err := net.SplitHostPort(s)
	n, err2 := strconv.Atoi(port)
	if err != nil || err2 != nil || probe.CheckAddress(host) != nil || probe.CheckPort(n) != nil {
		return fmt.Errorf("%.80q is not allowed: an IP address or host name, with a port, such as 127.0.0.1:8125", s)
	}
	return nil
}

// checkDogStatsD takes what the servers of Datadog listen at.
func checkDogStatsD(s string) error {
	if path, ok := strings.CutPrefix(s, unixScheme); ok {
		return probe.CheckSocket(path)
	}
	return checkServer(s)
}

// checkTags takes tags as Consul does, in the form that Datadog keeps as it is.
func checkTags(tags []string) error {
	for _, tag := range tags {
		name, value, _ := strings.Cut(tag, ":")
		if value == "" || len(tag) > maxTag || !isTagName(name) || strings.ContainsFunc(value, unicode.IsSpace) || strings.ContainsAny(value, ",|#@") {
			return fmt.Errorf("%.80q is not allowed: a tag is name:value, the name a letter and then letters, digits, _, -, . or /, "+
				"the value without white space and , | # @; at most %d bytes", tag, maxTag)
		}
	}
	return nil
}

func isTagName(s string) bool {
	for i, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789_-./", r)) {
			return false
		}
	}
	return s != ""
}
