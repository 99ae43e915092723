package hds

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// handshakes begin the connections of all listeners: TCP with TLS where there is
// any, unix sockets always without, and with a note of who is at their other end.
type handshakes struct {
	// tls is nil for TCP in plain text.
	tls credentials.TransportCredentials
	// failed is told of every handshake that failed.
	failed func(peer string, err error)
}

// handshakes are how connections begin.
func (s *Server) handshakes() handshakes {
	h := handshakes{failed: func(peer string, err error) {
		reason := reasonTLS
		if errors.Is(err, errIdentity) {
			reason = reasonIdentity
		}
		s.refusals.note(reason, peer, err, time.Now())
	}}
	if s.config.TLS != nil {
		h.tls = listenerCredentials(s.config.TLS, s.config.AllowedIdentities)
	}
	return h
}

// plainPeer is the other end of a connection in plain text.
type plainPeer struct{ credentials.CommonAuthInfo }

// AuthType implements credentials.AuthInfo.
func (plainPeer) AuthType() string { return "plain" }

// socketPeer is the process at the other end of a unix socket, as the kernel
// tells: when it connected, and with pid 0 if that is not of our pid namespace.
type socketPeer struct {
	credentials.CommonAuthInfo
	ucred unix.Ucred
}

// AuthType implements credentials.AuthInfo.
func (socketPeer) AuthType() string { return "unix" }

// ServerHandshake implements credentials.TransportCredentials.
func (h handshakes) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := h.begin(raw)
	if err != nil {
		h.failed(raw.RemoteAddr().Network()+":"+raw.RemoteAddr().String(), err)
	}
	return conn, info, err
}

func (h handshakes) begin(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	none := credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}
	if socket, ok := bare(raw).(*net.UnixConn); ok {
		ucred, err := credentialsOf(socket)
		return raw, socketPeer{none, ucred}, err
	}
	if h.tls != nil {
		conn, info, err := h.tls.ServerHandshake(raw)
		return conn, info, claimed(err)
	}
	return raw, plainPeer{none}, nil
}

// claimed adds to the failed verification of a certificate the name that it
// claims: else nobody knows whose has expired.
func claimed(err error) error {
	var failed *tls.CertificateVerificationError
	if !errors.As(err, &failed) || len(failed.UnverifiedCertificates) == 0 {
		return err
	}
	names := identities(failed.UnverifiedCertificates[0])
	if len(names) == 0 {
		return fmt.Errorf("a certificate without names: %w", err)
	}
	return fmt.Errorf("a certificate that claims the name %.200q: %w", names[0], err)
}

// credentialsOf asks the kernel who is at the other end of a unix socket.
func credentialsOf(c *net.UnixConn) (unix.Ucred, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return unix.Ucred{}, fmt.Errorf("asking for the peer's credentials: %w", err)
	}
	var ucred *unix.Ucred
	var failed error
	err = raw.Control(func(fd uintptr) {
		ucred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err = errors.Join(err, failed); err != nil {
		return unix.Ucred{}, fmt.Errorf("asking for the peer's credentials: %w", err)
	}
	return *ucred, nil
}

// ClientHandshake implements credentials.TransportCredentials; these are for
// servers only.
func (handshakes) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("credentials of a server")
}

// Info implements credentials.TransportCredentials.
func (handshakes) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

// Clone implements credentials.TransportCredentials.
func (h handshakes) Clone() credentials.TransportCredentials { return h }

// OverrideServerName implements credentials.TransportCredentials, which demands
// it still.
func (handshakes) OverrideServerName(string) error { return nil }

// peerName says in a few words who is at the other end of a stream.
func peerName(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return ""
	}
	switch info := p.AuthInfo.(type) {
	case socketPeer:
		return fmt.Sprintf("unix, pid %d uid %d gid %d", info.ucred.Pid, info.ucred.Uid, info.ucred.Gid)
	case credentials.TLSInfo:
		name := "tls:" + p.Addr.String()
		if certs := info.State.PeerCertificates; len(certs) > 0 {
			if names := identities(certs[0]); len(names) > 0 {
				name += fmt.Sprintf(", %.200q", names[0])
			}
		}
		return name
	}
	return p.Addr.Network() + ":" + p.Addr.String()
}
