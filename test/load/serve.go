package main

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	healthv3 "github.com/envoyproxy/go-control-plane/envoy/service/health/v3"
	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// These tell a process to be a server, which one, where, and for how many
// endpoints.
const (
	roleVariable      = "LOAD_ROLE"
	addressVariable   = "LOAD_ADDRESS"
	usageVariable     = "LOAD_USAGE"
	endpointsVariable = "LOAD_ENDPOINTS"
	tlsVariable       = "LOAD_TLS"
)

// role is what a server does with reports.
type role string

// The roles: ours; what drops raw frames, the floor; what decodes them.
const (
	roleBridge role = "bridge"
	roleRaw    role = "raw"
	roleProto  role = "proto"
)

// The windows are those of bridge/hds. Who sends without a pause, as here, is received
// the cheaper the larger they are, which has to do with no report.
const (
	streamWindow     = 64 << 10
	connectionWindow = 1 << 20
)

// usage is what a server has used so far.
type usage struct {
	// Reports counts the messages that came after the first of each stream.
	Reports int64
	CPU     time.Duration
	// Live is the heap after a collection, if it was asked for; Resident is the
	// size of the process.
	Live, Resident uint64
}

// server is a process that takes reports in.
type server struct {
	reports atomic.Int64
	address string
	tls     *tls.Config
}

// serveMain turns the process into a server, for good, if it was started as one.
func serveMain() {
	r, ok := os.LookupEnv(roleVariable)
	if !ok {
		return
	}
	s := &server{address: os.Getenv(addressVariable)}
	if err := s.serve(role(r)); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
	}
	os.Exit(1)
}

func (s *server) serve(r role) (err error) {
	if dir := os.Getenv(tlsVariable); dir != "" {
		if s.tls, err = serverTLS(dir); err != nil {
			return err
		}
	}
	failed := make(chan error, 2)
	tells := http.NewServeMux()
	tells.HandleFunc("/", s.tell)
	tells.HandleFunc("/debug/pprof/", pprof.Index)
	tells.HandleFunc("/debug/pprof/profile", pprof.Profile)
	go func() { failed <- http.ListenAndServe(os.Getenv(usageVariable), tells) }()
	go func() {
		if r == roleBridge {
			failed <- s.runBridge(context.Background())
			return
		}
		failed <- s.runFloor(r)
	}()
	return <-failed
}

// runFloor runs a gRPC server that does nothing with reports but receive them, and
// decode them if that is its role.
func (s *server) runFloor(r role) error {
	network, address := "tcp", s.address
	if path, ok := strings.CutPrefix(address, "unix://"); ok {
		network, address = "unix", path
	}
	l, err := net.Listen(network, address)
	if err != nil {
		return err
	}
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(32 << 20)}
	if s.tls != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(s.tls)))
	}
	receive := func(g grpc.ServerStream) error {
		return g.RecvMsg(&healthv3.HealthCheckRequestOrEndpointHealthResponse{})
	}
	if r == roleRaw {
		options = append(options, grpc.ForceServerCodecV2(dropping{encoding.GetCodecV2(proto.Name)}))
		receive = func(g grpc.ServerStream) error { return g.RecvMsg(dropped{}) }
	}
	options = append(options, grpc.StaticStreamWindowSize(streamWindow), grpc.StaticConnWindowSize(connectionWindow))
	g := grpc.NewServer(options...)
	g.RegisterService(&grpc.ServiceDesc{
		ServiceName: healthv3.HealthDiscoveryService_ServiceDesc.ServiceName, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{StreamName: "StreamHealthCheck", ServerStreams: true, ClientStreams: true, Handler: func(_ any, g grpc.ServerStream) error {
			return s.floor(g, receive)
		}}},
	}, struct{}{})
	return g.Serve(l)
}

func (s *server) floor(g grpc.ServerStream, receive func(grpc.ServerStream) error) error {
	if err := receive(g); err != nil {
		return err
	}
	for {
		if err := receive(g); err != nil {
			return err
		}
		s.reports.Add(1)
	}
}

// dropped is a message that is received and not looked at.
type dropped struct{}

// dropping is the codec that drops these.
type dropping struct{ encoding.CodecV2 }

// Unmarshal implements encoding.CodecV2.
func (c dropping) Unmarshal(data mem.BufferSlice, v any) error {
	if _, ok := v.(dropped); ok {
		return nil
	}
	return c.CodecV2.Unmarshal(data, v)
}

// tell answers with the usage, once there were as many reports as are asked for;
// with gc=1 after a collection.
func (s *server) tell(w http.ResponseWriter, r *http.Request) {
	want, _ := strconv.ParseInt(r.FormValue("reports"), 10, 64)
	for s.reports.Load() < want && r.Context().Err() == nil {
		time.Sleep(time.Millisecond)
	}
	u, err := s.usage(r.FormValue("gc") == "1")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	_ = json.NewEncoder(w).Encode(u) // whoever asked has gone
}

func (s *server) usage(collect bool) (usage, error) {
	u := usage{Reports: s.reports.Load()}
	proc, err := procfs.Self()
	if err != nil {
		return u, err
	}
	stat, err := proc.Stat()
	if err != nil {
		return u, err
	}
	u.Resident = uint64(stat.ResidentMemory())
	if collect {
		runtime.GC()
		runtime.GC() // what pools held goes with the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		u.Live = m.HeapAlloc
	}
	var spent unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &spent); err != nil {
		return u, err
	}
	u.CPU = time.Duration(spent.Utime.Nano() + spent.Stime.Nano())
	return u, nil
}
