package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
)

// saveProfile keeps a profile of a server, if profiles are wanted. path is that of
// net/http/pprof, with its query.
func (b *bench) saveProfile(ctx context.Context, s *side, path, file string) (err error) {
	if b.profiles == "" {
		return nil
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.usageURL+"/debug/pprof/"+path, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", path, resp.Status)
	}
	out, err := os.Create(filepath.Join(b.profiles, file))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	_, err = io.Copy(out, resp.Body)
	return err
}

// profileCPU keeps what two servers do for as long as a profile takes, if profiles
// are wanted, and returns how to wait for them.
func (b *bench) profileCPU(ctx context.Context, name string, sides ...*side) (wait func() error) {
	if b.profiles == "" {
		return func() error { return nil }
	}
	var all errgroup.Group
	for _, s := range sides {
		all.Go(func() error { return b.saveProfile(ctx, s, "profile?seconds=5", s.process.Name()+"-"+name+".cpu") })
	}
	return all.Wait
}
