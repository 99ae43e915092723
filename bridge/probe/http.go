package probe

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The bounds of what HTTP and TCP probes send and look for. Values outside
// crash an Envoy or make it refuse every change (facts/envoy-hds.md 0b).
const (
	maxHeaders     = 50
	maxHeaderValue = 4096
	maxPayload     = 64 << 10
	// maxHTTPReceive is how much of an answer Envoy looks at; it dies of payloads
	// that are longer in sum.
	maxHTTPReceive = 1024
)

// ownHeaders are those that Envoy or the protocol sets: some crash Envoy, others
// break the request.
var ownHeaders = []string{
	"host", "content-length", "transfer-encoding", "connection", "upgrade",
	"keep-alive", "proxy-connection", "te", "expect",
}

// bodyMethods are the methods with which Envoy sends a body; it dies of one with
// another.
var bodyMethods = []string{"POST", "PUT", "PATCH", "OPTIONS"}

// CheckHeaders says whether the headers are allowed on an HTTP probe: names of
// RFC 9110, none that Envoy sets itself, values of visible ASCII, space and tab.
func CheckHeaders(headers map[string][]string) error {
	n := 0
	seen := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		if err := errors.Join(CheckHeader(name, ""), notEnvoys(name)); err != nil {
			return err
		}
		if low := strings.ToLower(name); seen[low] {
			return fmt.Errorf("header %q is set twice: names differ in more than case", name)
		} else {
			seen[low] = true
		}
		if len(headers[name]) == 0 {
			return fmt.Errorf("header %q has no value: at least one", name)
		}
		for _, v := range headers[name] {
			if err := CheckHeader(name, v); err != nil {
				return err
			}
			n++
		}
	}
	if n > maxHeaders {
		return fmt.Errorf("%d headers are not allowed: at most %d", n, maxHeaders)
	}
	return nil
}

// notEnvoys says that a header is none that Envoy or the protocol sets.
func notEnvoys(name string) error {
	if slices.Contains(ownHeaders, strings.ToLower(name)) {
		return fmt.Errorf("header %q is not allowed: it is set by Envoy; the host is set by host", name)
	}
	return nil
}

// CheckHeader says whether a name and a value may be those of a header at all, of an
// operator or of a protocol.
func CheckHeader(name, value string) error {
	if name == "" || len(name) > maxHost || strings.ContainsFunc(name, notToken) {
		return fmt.Errorf("header name %q is not allowed: letters, digits and !#$%%&'*+-.^_`|~, at most %d bytes", clip(name), maxHost)
	}
	if err := checkHeaderValue(value); err != nil {
		return fmt.Errorf("header %q: %w", name, err)
	}
	return nil
}

// notToken says whether r may not stand in an RFC 9110 token.
func notToken(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// checkHeaderValue does not show the value: it may be a secret.
func checkHeaderValue(v string) error {
	ok := len(v) <= maxHeaderValue
	for i := range len(v) {
		ok = ok && (v[i] >= ' ' && v[i] < 0x7f || v[i] == '\t')
	}
	if !ok {
		return fmt.Errorf("the value is not allowed: visible ASCII, space and tab, at most %d bytes", maxHeaderValue)
	}
	return nil
}

// ParsePayload reads bytes to send or to look for: text as it is, or
// "hex:0a0b". At least one byte, at most 64 kB.
func ParsePayload(s string) (Payload, error) {
	digits, isHex := strings.CutPrefix(s, "hex:")
	if isHex {
		b, err := hex.DecodeString(digits)
		if err != nil {
			return "", errors.New("the payload is not allowed: after hex: an even number of hex digits") // it may be secret
		}
		s = string(b)
	} else if !utf8.ValidString(s) {
		return "", errors.New("the payload is not allowed: valid UTF-8, or hex: and hex digits")
	}
	if len(s) == 0 || len(s) > maxPayload {
		return "", fmt.Errorf("a payload of %d bytes is not allowed: from 1 to %d", len(s), maxPayload)
	}
	return Payload(s), nil
}

// CheckPayloads says whether what the settings send and look for goes with their
// kind and method.
func CheckPayloads(s Settings) error {
	if s.Body != "" && !slices.Contains(bodyMethods, s.Method) {
		return fmt.Errorf("a body cannot be sent with method %s: only with %s", s.Method, strings.Join(bodyMethods, ", "))
	}
	sum := 0
	for _, r := range s.Receive {
		sum += len(r)
	}
	if s.Kind == HTTP && sum > maxHTTPReceive {
		return fmt.Errorf("receive has %d bytes in sum: at most %d, which is what Envoy looks at", sum, maxHTTPReceive)
	}
	if s.Kind == TCP && s.Send != "" && len(s.Receive) == 0 {
		return errors.New("send without receive would not be sent for sure: say what the answer has to hold")
	}
	return nil
}
