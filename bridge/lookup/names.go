package lookup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"
)

// The paces of names: how often each is looked up again, and how long that may
// take.
const (
	namesEvery   = 10 * time.Second
	namesTimeout = 5 * time.Second
)

// Resolver is the part of net.Resolver that names are looked up by.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// NewNames makes a table of host names and the address of each that is in use.
// The address in use is kept while it is among the answers, and when a look-up
// fails; else it is the lowest, IPv4 first.
func NewNames(r Resolver) *Table[netip.Addr] {
	return New(Config[netip.Addr]{
		Fetch: func(ctx context.Context, host string, last netip.Addr) (netip.Addr, error) {
			addrs, err := r.LookupNetIP(ctx, "ip", host)
			if err != nil {
				return netip.Addr{}, fmt.Errorf("looking up %q: %w", host, reason(err))
			}
			return choose(addrs, last)
		},
		Equal: func(a, b netip.Addr) bool { return a == b },
		Every: namesEvery, Timeout: namesTimeout,
	})
}

// choose picks the address to use of a look-up's answers.
func choose(addrs []netip.Addr, last netip.Addr) (netip.Addr, error) {
	var usable []netip.Addr
	for _, a := range addrs {
		a = a.Unmap()
		if a.IsValid() && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() {
			usable = append(usable, a)
		}
	}
	if len(usable) == 0 {
		return netip.Addr{}, errors.New("the name has no address that could be probed")
	}
	if slices.Contains(usable, last) {
		return last, nil
	}
	return slices.MinFunc(usable, func(a, b netip.Addr) int { return a.Compare(b) }), nil // IPv4 is less than IPv6
}

// reason is the part of a look-up's error that stays the same: the server asked
// and the ports used would make a new error of each try.
func reason(err error) error {
	var dns *net.DNSError
	if errors.As(err, &dns) {
		switch {
		case dns.IsNotFound:
			return errors.New("no such host")
		case dns.IsTimeout:
			return errors.New("no answer in time")
		}
		return errors.New("the name servers cannot be asked")
	}
	return err
}
