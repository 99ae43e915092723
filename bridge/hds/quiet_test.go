package hds

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// heard is a connection that counts what it hears.
type heard struct {
	net.Conn
	bytes *atomic.Int64
}

func (h heard) Read(b []byte) (int, error) {
	n, err := h.Conn.Read(b)
	h.bytes.Add(int64(n))
	return n, err
}

// TestASteadyReportIsNotAnswered: an answer of HTTP/2 to each report, of which gRPC
// has two kinds, would cost more than the report.
func TestASteadyReportIsNotAnswered(t *testing.T) {
	const reports = 5
	b := serve(t)
	var bytes atomic.Int64
	path := strings.TrimPrefix(b.target, "unix://")
	b.options = []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		return heard{conn, &bytes}, err
	})}
	plan, probes := planOf(webs(20))
	b.SetPlan(plan)
	e := b.connect("n1")
	e.spec()
	var echoes []echo
	for _, p := range probes {
		echoes = append(echoes, echo{p.Cluster, up, 200})
	}
	report := reportOf(echoes...)
	e.send(report)
	b.awaitReports(1)
	time.Sleep(50 * time.Millisecond) // for what the handshake has left to say
	before := bytes.Load()
	for n := range reports {
		e.send(report)
		b.awaitReports(n + 2)
	}
	assert.Less(t, proto.Size(report)*reports, streamWindow/4, "or the windows move, as they should")
	assert.Zero(t, bytes.Load()-before)
}
