package e2e

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
)

// TestMalformedRequestsOnTheAdminPort are those of no browser and no client of ours.
func TestMalformedRequestsOnTheAdminPort(t *testing.T) {
	t.Parallel()
	v := newVictim(newWorld(t, liarConfig))
	v.endure([]mischief{
		{"request lines that are none", (*victim).badLines},
		{"headers that are none", (*victim).badHeaders},
		{"lengths and chunks that are none", (*victim).badLengths},
		{"every method on every path", (*victim).badMethods},
		{"tricks with paths", (*victim).badPaths},
		{"long ids", (*victim).longIDs},
		{"names of other hosts", (*victim).foreignHosts},
		{"a reload of another site", (*victim).crossSite},
		{"a thousand requests at once in one connection", (*victim).pipeline},
		{"requests that trickle in", (*victim).slowloris},
		{"answers that nobody reads", (*victim).deaf},
	})
}

// lineOf is a whole request.
func lineOf(method, target string, headers ...string) string {
	return method + " " + target + " HTTP/1.1\r\nHost: localhost\r\n" + strings.Join(append(headers, "Connection: close"), "\r\n") + "\r\n\r\n"
}

// call connects to the admin port.
func (v *victim) call() net.Conn {
	v.t.Helper()
	conn, err := net.Dial("tcp", v.daemon.AdminAddr())
	require.NoError(v.t, err)
	v.leaves = append(v.leaves, func() { _ = conn.Close() })
	return conn
}

// utter sends bytes as a request, and returns the answer with its body; nil is
// none: the daemon closed the connection.
func (v *victim) utter(text string) (*http.Response, string) {
	v.t.Helper()
	conn := v.call()
	defer conn.Close()
	go func() { _, _ = io.WriteString(conn, text) }() // the daemon may answer before it has read all
	require.NoError(v.t, conn.SetReadDeadline(time.Now().Add(12*time.Second)))
	r, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		require.NotErrorIs(v.t, err, net.ErrClosed)
		return nil, ""
	}
	defer r.Body.Close()
	body, err := io.ReadAll(io.LimitReader(r.Body, 64<<20))
	require.NoError(v.t, err, "%.80q", text)
	return r, string(body)
}

// refusedAs fails the test if a request is not answered by one of these codes.
func (v *victim) refusedAs(text string, codes ...int) {
	v.t.Helper()
	r, body := v.utter(text)
	if assert.NotNil(v.t, r, "%.120q is not answered", text) {
		assert.Contains(v.t, codes, r.StatusCode, "%.120q: %.200s", text, body)
	}
}

func (v *victim) badLines() string {
	lines := []string{
		"GET", "GET /", "GET / HTTP", "GET / HTTP/1", "GET / HTTP/9.9", "GET  / HTTP/1.1", "/ GET HTTP/1.1", "GET / HTTP/1.1 more", "\x00\x01\x02",
		"GET /v1/status\x00 HTTP/1.1", "GET /v1/status\x7f HTTP/1.1", "G\x00T / HTTP/1.1", "GET /%zz HTTP/1.1", "GET /% HTTP/1.1", "GET http://[::1 HTTP/1.1",
		"GET :// HTTP/1.1", "(GET) / HTTP/1.1", " GET / HTTP/1.1", "", "\r", "GET /" + strings.Repeat("a", 1<<20) + " HTTP/1.1", strings.Repeat("G", 1<<20) + " / HTTP/1.1",
	}
	for _, l := range lines {
		v.refusedAs(l+"\r\nHost: localhost\r\n\r\n", 400, 405, 414, 431, 505)
	}
	v.refusedAs(http2.ClientPreface+strings.Repeat("\x00", 100), 400, 403)
	v.refusedAs("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"+strings.Repeat("\x55", 600)+"\r\n\r\n", 400)
	return fmt.Sprintf("%d lines, a preface of HTTP/2 and a TLS hello, all refused", len(lines))
}

func (v *victim) badHeaders() string {
	big := strings.Repeat("x", 1<<20)
	headers := []string{
		"No colon", ": no name", "A b: c", "A\x00: b", "A: b\x00c", " A: b", "A : b", "Host: b", "Transfer-Encoding: gzip", "Transfer-Encoding: chunked, identity",
		"A: " + big, big + ": a", strings.Repeat("A: b\r\n", 100_000) + "A: b", strings.Repeat("A", 30<<10) + ": b",
	}
	for _, h := range headers {
		v.refusedAs(lineOf("GET", "/v1/health", h), 400, 431, 501)
	}
	v.refusedAs("GET /v1/health HTTP/1.1\r\n\r\n", 400)
	v.refusedAs("GET /v1/status HTTP/1.0\r\n\r\n", 403) // no host, as HTTP/1.0 allows: no name of ours
	return fmt.Sprintf("%d headers, all refused", len(headers)+2)
}

// badLengths are refused, or answered without waiting for what does not come.
func (v *victim) badLengths() string {
	for _, h := range []string{"Content-Length: -1", "Content-Length: x", "Content-Length: 0x10", "Content-Length: 1\r\nContent-Length: 2", "Content-Length: 99999999999999999999"} {
		v.refusedAs(lineOf("PUT", "/v1/reload", h), 400)
	}
	for _, body := range []string{"zz\r\n", "-1\r\n\r\n", "ffffffffffffffffff\r\nx", "7fffffffffffffff\r\nx", "1;" + strings.Repeat("x", 1<<20) + "\r\nx", "0\r\n" + strings.Repeat("A: b\r\n", 100_000), "5\r\nab"} {
		r, _ := v.utter(lineOf("GET", "/v1/health", "Transfer-Encoding: chunked") + body)
		if r != nil {
			assert.Contains(v.t, []int{200, 400}, r.StatusCode, "%.40q", body)
		}
	}
	for _, h := range []string{"Content-Length: 9223372036854775807", "Content-Length: 10\r\nTransfer-Encoding: chunked", "Expect: 100-continue\r\nContent-Length: 1000000000000"} {
		start := time.Now()
		r, _ := v.utter(lineOf("GET", "/v1/health", h))
		if r != nil {
			assert.Contains(v.t, []int{200, 400, 417}, r.StatusCode, h)
		}
		assert.Less(v.t, time.Since(start), 11*time.Second, h)
	}
	return "15 of them, none waited for"
}

// paths are those of the API, and some below them.
var paths = []string{"/", "/config", "/explain/good-1", "/v1/health", "/v1/ready", "/v1/status", "/v1/explain/good-1", "/v1/observers/" + theNode, "/v1/transitions", "/metrics", "/v1/reload", "/debug/pprof/"}

func (v *victim) badMethods() string {
	methods := []string{"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "BREW", "get", "GETT", "PROPFIND"}
	for _, path := range paths {
		for _, m := range methods {
			if path == "/v1/reload" && m == "PUT" {
				continue
			}
			v.refusedAs(lineOf(m, path), 400, 405)
		}
	}
	v.refusedAs(lineOf("GET", "/v1/reload"), 405)
	v.refusedAs(lineOf("CONNECT", "evil.example:443"), 400, 403, 404, 405)
	return fmt.Sprintf("%d paths, %d methods, all refused", len(paths), len(methods))
}

// badPaths lead nowhere: not to a file, not to another path, and not back in an
// answer of HTML.
func (v *victim) badPaths() string {
	tricks := []string{
		"//", "///v1/status", "/v1//status", "/v1/./status", "/./", "/..", "/../../etc/passwd", "/v1/%2e%2e/%2e%2e/etc/passwd", "/v1/status/", "/v1/status/..", "/v1%2fstatus%2f",
		"/%00", "/v1/status%00", "/v1/%2f", "/config/../v1/status", "/debug/pprof/../../v1/status", "/debug/pprof/%2e%2e/x", "/%5c..%5c..%5cetc", "/v1/status;a=b", "/V1/STATUS",
		"/explain/", "/explain/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "/explain/..%2f..%2fetc%2fpasswd", "/v1/explain/", "/v1/explain/%00", "/v1/explain/%ff%fe", "/v1/explain/%0d%0aX:y",
		"/v1/observers/", "/v1/observers/%3Cscript%3E", "/v1/observers/../status", "/debug/pprof/nope", "/debug/pprof/%3Cscript%3E", "http://localhost/nope", "*",
	}
	for _, path := range tricks {
		r, body := v.utter(lineOf("GET", path))
		if !assert.NotNil(v.t, r, path) {
			continue
		}
		assert.Contains(v.t, []int{400, 404}, r.StatusCode, "%s: %.200s", path, body)
		assert.NotContains(v.t, body, "root:", path)
		if !strings.Contains(r.Header.Get("Content-Type"), "json") {
			assert.NotContains(v.t, body, "<script", path)
		}
		assert.Empty(v.t, r.Header.Get("Location"), path)
		assert.Empty(v.t, r.Header.Get("X"), path)
	}
	return fmt.Sprintf("%d paths, all refused", len(tricks))
}

func (v *victim) longIDs() string {
	for _, path := range []string{"/v1/explain/", "/explain/", "/v1/observers/"} {
		for _, n := range []int{1 << 10, 10 << 10} {
			v.refusedAs(lineOf("GET", path+strings.Repeat("%3C", n/3)), 404)
		}
		v.refusedAs(lineOf("GET", path+strings.Repeat("x", 1<<20)), 414, 431)
	}
	v.refusedAs(lineOf("GET", "/?service="+strings.Repeat("*a", 7_000)+"&status=%00"), 200)
	v.refusedAs(lineOf("GET", "/?"+strings.Repeat("service=*&", 1_000)), 200)
	return "ids of 1 KiB, 10 KiB and 1 MiB, none found; globs of 7,000 stars answered"
}

func (v *victim) foreignHosts() string {
	hosts := []string{"evil.example", "localhost.evil.example", "127.0.0.1.nip.io", "127.0.0.1.", "0x7f.1", "2130706433", "localhost.", "a@127.0.0.1", "127.0.0.1@evil", "[::1].evil", "localhost:80:80", "", "evil.example:8511"}
	for _, h := range hosts {
		for _, path := range []string{"/", "/v1/status", "/config", "/metrics", "/debug/pprof/heap"} {
			v.refusedAs("GET "+path+" HTTP/1.1\r\nHost: "+h+"\r\nConnection: close\r\n\r\n", 400, 403)
		}
	}
	v.refusedAs(strings.Replace(lineOf("GET", "http://evil.example/v1/status"), "\r\n", "\r\nX: y\r\n", 1), 403)
	return fmt.Sprintf("%d names, all refused", len(hosts))
}

// crossSite is what a page of another site makes a browser send.
func (v *victim) crossSite() string {
	before := strings.Count(v.daemon.Log(), "reload")
	asks := []string{"Origin: http://evil.example", "Origin: null", "Origin: http://localhost:1", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Sec-Fetch-Site: nonsense"}
	for _, h := range asks {
		v.refusedAs(lineOf("PUT", "/v1/reload", h, "Content-Length: 0"), 403)
		v.refusedAs(lineOf("POST", "/v1/reload", h, "X-HTTP-Method-Override: PUT", "Content-Length: 0"), 403, 405)
		v.refusedAs(lineOf("OPTIONS", "/v1/reload", h, "Access-Control-Request-Method: PUT"), 403, 405)
	}
	assert.Equal(v.t, before, strings.Count(v.daemon.Log(), "reload"), "nothing is reloaded")
	return fmt.Sprintf("%d, none reloads", 3*len(asks))
}

func (v *victim) pipeline() string {
	const many = 1000
	conn := v.call()
	go func() {
		_, _ = io.WriteString(conn, strings.Repeat("GET /v1/health HTTP/1.1\r\nHost: localhost\r\n\r\n", many))
	}()
	reader := bufio.NewReader(conn)
	for n := range many {
		r, err := http.ReadResponse(reader, nil)
		require.NoError(v.t, err, "answer %d", n)
		_, err = io.Copy(io.Discard, r.Body)
		require.NoError(v.t, err)
		require.Equal(v.t, 200, r.StatusCode)
	}
	return "all answered, in order"
}

// slowloris are 200 connections that send a byte now and then; the half of them
// has a body to send.
func (v *victim) slowloris() string {
	var wg sync.WaitGroup
	start := time.Now()
	for n := range 200 {
		conn := v.call()
		first := "GET /v1/status HTTP/1.1\r\nHost: localhost\r\nX: "
		if n%2 == 0 {
			first = "PUT /v1/reload HTTP/1.1\r\nHost: localhost\r\nOrigin: null\r\nContent-Length: 1000000\r\n\r\n"
		}
		wg.Go(func() {
			_, err := io.WriteString(conn, first)
			for err == nil && time.Since(start) < settling {
				time.Sleep(500 * time.Millisecond) // its pace
				_, err = conn.Write([]byte("x"))
			}
		})
	}
	v.flips()
	wg.Wait()
	took := time.Since(start)
	assert.Less(v.t, took, 15*time.Second, "they are ended")
	return fmt.Sprintf("200 connections, ended within %s", took.Round(time.Second))
}

// deaf are connections that ask for much and read nothing of it.
func (v *victim) deaf() string {
	for range 50 {
		conn := v.call().(*net.TCPConn)
		require.NoError(v.t, conn.SetReadBuffer(1<<10))
		_, err := io.WriteString(conn, strings.Repeat("GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", 100))
		require.NoError(v.t, err)
	}
	v.flips()
	return "50 connections, 5,000 answers; others are served"
}
