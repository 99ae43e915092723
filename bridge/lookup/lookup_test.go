package lookup

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// start runs a table in a synctest bubble until the test ends.
func start[T any](t *testing.T, table *Table[T]) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = table.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// news says whether the table has a signal.
func news[T any](table *Table[T]) bool {
	synctest.Wait()
	select {
	case <-table.Updates():
		return true
	default:
		return false
	}
}

func want(keys ...string) map[string]bool {
	out := map[string]bool{}
	for _, k := range keys {
		out[k] = true
	}
	return out
}

func equalInts(a, b int) bool { return a == b }

func TestATableFetchesWhatIsWanted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls, value atomic.Int64
		table := New(Config[int]{
			Fetch: func(context.Context, string, int) (int, error) { calls.Add(1); return int(value.Load()), nil },
			Equal: equalInts, Every: time.Second, Timeout: time.Second,
		})
		start(t, table)
		synctest.Wait()
		assert.False(t, news(table))
		table.Want(want("a", "b"))
		assert.True(t, news(table), "new keys are fetched at once")
		assert.Equal(t, map[string]Entry[int]{"a": {Good: true}, "b": {Good: true}}, table.Entries())
		time.Sleep(10 * time.Second)
		assert.False(t, news(table), "nothing has changed")
		assert.EqualValues(t, 22, calls.Load(), "each once a second")
		value.Store(7)
		time.Sleep(time.Second)
		assert.True(t, news(table))
		table.Want(want("b"))
		assert.Equal(t, map[string]Entry[int]{"b": {Value: 7, Good: true}}, table.Entries())
		calls.Store(0)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		assert.EqualValues(t, 5, calls.Load(), "what is not wanted is not fetched")
	})
}

func TestAFailureLeavesTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		table := New(Config[int]{
			Fetch: func(_ context.Context, _ string, last int) (int, error) {
				if fails.Load() {
					return 0, errors.New("no")
				}
				return last + 1, nil
			},
			Equal: equalInts, Every: time.Second, Timeout: time.Second,
		})
		start(t, table)
		fails.Store(true)
		table.Want(want("a"))
		assert.True(t, news(table))
		assert.Equal(t, Entry[int]{Err: errors.New("no")}, table.Entries()["a"], "never good")
		time.Sleep(3 * time.Second)
		assert.False(t, news(table), "the same failure is no news")
		fails.Store(false)
		time.Sleep(time.Second)
		assert.True(t, news(table))
		last := table.Entries()["a"]
		assert.True(t, last.Good)
		fails.Store(true)
		time.Sleep(time.Second)
		assert.True(t, news(table))
		assert.Equal(t, Entry[int]{Value: last.Value, Good: true, Err: errors.New("no")}, table.Entries()["a"])
	})
}

func TestAFetchThatHangsHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		var calls atomic.Int64
		table := New(Config[int]{
			Fetch: func(_ context.Context, key string, _ int) (int, error) {
				if key == "hangs" {
					calls.Add(1)
					<-free
				}
				return 1, nil
			},
			Equal: equalInts, Every: time.Second, Timeout: 2 * time.Second,
		})
		start(t, table)
		table.Want(want("hangs", "fine"))
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Len(t, table.Entries(), 1)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		e := table.Entries()["hangs"]
		require.Error(t, e.Err)
		assert.Equal(t, "no answer within 2s", e.Err.Error())
		assert.EqualValues(t, 1, calls.Load(), "it is not asked again while it hangs")
		close(free)
		synctest.Wait()
		assert.Equal(t, Entry[int]{Value: 1, Good: true}, table.Entries()["hangs"])
	})
}

type resolver struct {
	mu    sync.Mutex
	addrs []netip.Addr
	err   error
}

func (r *resolver) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.addrs, r.err
}

// answers changes the answer, and lets the next look-up see it.
func (r *resolver) answers(err error, s ...string) {
	r.mu.Lock()
	r.addrs, r.err = addrs(s...), err
	r.mu.Unlock()
	time.Sleep(namesEvery)
	synctest.Wait()
}

func addrs(ss ...string) (out []netip.Addr) {
	for _, s := range ss {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestTheAddressInUseIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &resolver{addrs: addrs("2001:db8::1", "::ffff:10.0.0.2", "10.0.0.1", "0.0.0.0")}
		names := NewNames(r)
		start(t, names)
		names.Want(want("app"))
		synctest.Wait()
		got := func() string { return names.Entries()["app"].Value.String() }
		assert.Equal(t, "10.0.0.1", got(), "the lowest, IPv4 first")
		r.answers(nil, "10.0.0.0", "10.0.0.1")
		assert.Equal(t, "10.0.0.1", got(), "it is still among the answers")
		r.answers(&net.DNSError{Err: "server misbehaving", Server: "10.9.9.9:53", Name: "app"})
		assert.Equal(t, "10.0.0.1", got(), "a look-up that fails takes nothing away")
		assert.EqualError(t, names.Entries()["app"].Err, `looking up "app": the name servers cannot be asked`)
		r.answers(nil, "2001:db8::2", "2001:db8::1")
		assert.Equal(t, "2001:db8::1", got())
		r.answers(nil, "224.0.0.1")
		require.Error(t, names.Entries()["app"].Err)
		assert.Equal(t, "2001:db8::1", got())
	})
}

func TestReasonsThatStayTheSame(t *testing.T) {
	assert.EqualError(t, reason(&net.DNSError{IsNotFound: true, Name: "x", Server: "s"}), "no such host")
	assert.EqualError(t, reason(&net.DNSError{IsTimeout: true}), "no answer in time")
	assert.EqualError(t, reason(errors.New("other")), "other")
}

func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	require.NoError(t, os.WriteFile(path("good"), []byte("x"), 0o600))
	require.NoError(t, os.WriteFile(path("empty"), nil, 0o600))
	require.NoError(t, os.WriteFile(path("large"), make([]byte, maxFile+1), 0o600))
	require.NoError(t, syscall.Mkfifo(path("fifo"), 0o600))
	require.NoError(t, os.Symlink(path("good"), path("link")))
	for name, want := range map[string]string{
		"missing": "no such file or directory", "empty": "it is empty", "large": "larger than 1 MiB", "fifo": "no regular file", ".": "no regular file",
	} {
		_, err := ReadFile(path(name))
		require.Error(t, err, name)
		assert.Contains(t, err.Error(), want)
	}
	for _, name := range []string{"good", "link"} {
		b, err := ReadFile(path(name))
		require.NoError(t, err)
		assert.Equal(t, "x", string(b))
	}
}
