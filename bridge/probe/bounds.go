package probe

import (
	"errors"
	"fmt"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The bounds of what an Envoy may be asked to do. Values outside crash an
// Envoy, make it refuse every change, or never probe (facts/envoy-hds.md 0, 0b).
const (
	minDuration  = 100 * time.Millisecond
	maxDuration  = time.Hour
	maxThreshold = 1000
	maxPath      = 4096
	maxHost      = 255
	// maxSocket is one less than the size of sun_path: Envoy dies at 108 bytes.
	maxSocket     = 107
	maxServiceID  = 1024
	maxName       = 64
	maxServerName = 253
	// maxGRPCService bounds the name of a gRPC service, which goes into the body.
	maxGRPCService = 255
	// maxGrace bounds how long bad news of a probe that was never healthy may
	// have to wait before it counts.
	maxGrace = 10 * time.Minute
)

// Methods are the HTTP methods a probe may use; Envoy refuses CONNECT and
// unknown ones, and with them the whole specifier.
var methods = []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"}

// CheckDuration says whether d is allowed as an interval or a timeout:
// 100 ms to 1 h.
func CheckDuration(d time.Duration) error {
	if d < minDuration || d > maxDuration {
		return fmt.Errorf("%s is not allowed: from 100ms to 1h", d)
	}
	return nil
}

// CheckThreshold says whether n is allowed as a threshold: 1 to 1,000.
func CheckThreshold(n int) error {
	if n < 1 || n > maxThreshold {
		return fmt.Errorf("%d is not allowed: from 1 to %d", n, maxThreshold)
	}
	return nil
}

// CheckName says whether s is allowed as the name of a check block.
func CheckName(s string) error {
	ok := s != "" && len(s) <= maxName
	for _, r := range s {
		ok = ok && (r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' || r == '-')
	}
	if !ok {
		return fmt.Errorf("%q is not allowed: 1 to %d characters of a-z, 0-9, _ and -", clip(s), maxName)
	}
	return nil
}

// CheckPath says whether s is allowed as the path of an HTTP probe. Anything
// else reaches the app as it is, which answers 400, or is refused by Envoy.
func CheckPath(s string) error {
	if !strings.HasPrefix(s, "/") || len(s) > maxPath || !visibleASCII(s) || strings.Contains(s, "#") {
		return fmt.Errorf("%q is not allowed: it must begin with / and hold only visible ASCII without #, at most %d bytes", clip(s), maxPath)
	}
	return nil
}

// CheckHost says whether s is allowed as the Host header of an HTTP probe: a
// host name or address, with or without a port.
func CheckHost(s string) error {
	if s == "" || len(s) > maxHost || !visibleASCII(s) || strings.ContainsAny(s, "/#?@\\\"<>^`{|},;") {
		return fmt.Errorf("%q is not allowed: a host name or address with an optional port, at most %d bytes", clip(s), maxHost)
	}
	return nil
}

// CheckMethod says whether s is an HTTP method that a probe may use.
func CheckMethod(s string) error {
	if !slices.Contains(methods, s) {
		return fmt.Errorf("%q is not allowed: one of %s", clip(s), strings.Join(methods, ", "))
	}
	return nil
}

// CheckPort says whether n is a port: 1 to 65535.
func CheckPort(n int) error {
	if n < 1 || n > 65535 {
		return fmt.Errorf("%d is not allowed: from 1 to 65535", n)
	}
	return nil
}

// CheckSocket says whether s is allowed as the path of a unix socket.
func CheckSocket(s string) error {
	if !path.IsAbs(s) || path.Clean(s) != s || s == "/" || len(s) > maxSocket || !printable(s) {
		return fmt.Errorf("socket path %q is not allowed: absolute, without . or .. or doubled slashes, at most %d bytes", clip(s), maxSocket)
	}
	return nil
}

// CheckServiceID says whether checks may be made for a service of this id. The
// id becomes part of the path of Consul's API, which cleans paths: an id that
// does not survive this would make a write reach another check
// (facts/consul.md 0.12).
func CheckServiceID(id string) error {
	// The agent answers 400 to every path that holds anything else.
	unprintable := strings.ContainsFunc(id, func(r rune) bool { return !unicode.IsPrint(r) })
	if id == "" || len(id) > maxServiceID || !utf8.ValidString(id) || unprintable {
		return fmt.Errorf("service id %q is not allowed: valid UTF-8 of printable characters, 1 to %d bytes", clip(id), maxServiceID)
	}
	if p := "/" + CheckID(DefaultName, id); path.Clean(p) != p {
		return fmt.Errorf("service id %q is not allowed: an empty, . or .. segment between slashes would make Consul's API write to another check", clip(id))
	}
	return nil
}

// ParseAddress reads an IP address as a probe's destination. Envoy dies of
// anything that is no plain IP address, and never reaches mapped ones, zones or
// multicast; unspecified addresses are nobody's.
func ParseAddress(s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}, fmt.Errorf("%q is neither an IP address (without zone or port) nor a host name", clip(s))
	}
	a = a.Unmap()
	if a.IsUnspecified() || a.IsMulticast() || a == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return netip.Addr{}, fmt.Errorf("%q is not allowed: an unspecified, multicast or broadcast address cannot be probed", clip(s))
	}
	return a, nil
}

// CheckAddress says whether s is an address that can be probed, or a host name
// that the daemon may look up.
func CheckAddress(s string) error {
	if isHostName(s) {
		return nil
	}
	_, err := ParseAddress(s)
	return err
}

// isHostName says whether s is a host name: labels of letters, digits, - and _,
// the last of them not a number, which would make it an old form of an IP
// address such as 127.1.
func isHostName(s string) bool {
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > maxServerName {
		return false
	}
	labels := strings.Split(s, ".")
	for _, l := range labels {
		if !isLabel(l) {
			return false
		}
	}
	return strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

func isLabel(l string) bool {
	if l == "" || len(l) > 63 || l[0] == '-' || l[len(l)-1] == '-' {
		return false
	}
	for i := range len(l) {
		c := l[i] | 0x20
		if !(c >= 'a' && c <= 'z' || l[i] >= '0' && l[i] <= '9' || l[i] == '-' || l[i] == '_') {
			return false
		}
	}
	return true
}

// CheckServerName says whether s is allowed as the name of a TLS server: a host
// name or an IP address.
func CheckServerName(s string) error {
	if _, err := netip.ParseAddr(s); (err != nil || strings.Contains(s, "%")) && !isHostName(s) {
		return fmt.Errorf("%q is not allowed: a host name or an IP address, at most %d bytes", clip(s), maxServerName)
	}
	return nil
}

// CheckGRPCService says whether s is allowed as the name of a gRPC service.
func CheckGRPCService(s string) error {
	if len(s) > maxGRPCService || !printable(s) {
		return fmt.Errorf("%q is not allowed: valid UTF-8 without control characters, at most %d bytes", clip(s), maxGRPCService)
	}
	return nil
}

// ParseDuration reads a duration with a unit, as an interval or a timeout.
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration: a number with a unit, such as 500ms, 1s or 1m30s", clip(s))
	}
	return d, CheckDuration(d)
}

// ParseStatuses reads a list of HTTP status codes and ranges of them, both ends
// included: "200-299,304". The codes are 100 to 599.
func ParseStatuses(s string) ([]StatusRange, error) {
	var out []StatusRange
	for _, part := range strings.Split(s, ",") {
		r, err := parseStatusRange(strings.TrimSpace(part))
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

func parseStatusRange(s string) (StatusRange, error) {
	first, last, isRange := strings.Cut(s, "-")
	if !isRange {
		last = first
	}
	f, err1 := parseCode(first)
	l, err2 := parseCode(last)
	if errors.Join(err1, err2) != nil || f > l || f < 100 || l > 599 {
		return StatusRange{}, fmt.Errorf("%q is not a status or range of statuses: such as 204 or 200-299, from 100 to 599", clip(s))
	}
	return StatusRange{First: f, Last: l}, nil
}

// parseCode reads a status code: digits alone, so that "+200" is no code.
func parseCode(s string) (int, error) {
	n, err := strconv.ParseUint(strings.TrimSpace(s), 10, 16)
	return int(n), err
}

// Grace is the longest time that an Envoy may take to tell a healthy endpoint
// from one not yet probed: bad news of an endpoint that was never healthy
// counts only after it (design part 4).
func Grace(s Settings) time.Duration {
	u := time.Duration(s.UnhealthyThreshold)
	return s.Timeout*u + (s.Interval+s.Interval*JitterPercent/100)*(u-1)
}

// CheckGrace says whether the grace that interval, timeout and
// unhealthy_threshold add up to is at most 10 minutes.
func CheckGrace(s Settings) error {
	if g := Grace(s); g > maxGrace {
		return fmt.Errorf("timeout, interval and unhealthy_threshold add up to %s before a failure counts: at most 10m", g)
	}
	return nil
}

func visibleASCII(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl)
}

// clip shortens what a user typed for an error message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
