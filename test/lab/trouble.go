package lab

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// Trouble is what is wrong with the network between the two ends of a Relay. The
// zero value is nothing.
type Trouble struct {
	// Refuse ends all connections, and refuses new ones.
	Refuse bool
	// Swallow takes connections and what is sent, and gives nothing on, not even
	// the end. A connection that has lost something so is dead for good: nothing
	// comes through it again.
	Swallow bool
	// Stall gives nothing on, and hardly takes anything, as if all packets were
	// lost: connections stay, and what was sent meanwhile comes afterwards.
	Stall bool
	// Delay is for how long each way takes.
	Delay time.Duration
	// Rate is how many bytes a second go each way, of all connections together; 0
	// is no limit.
	Rate int
	// Cut ends a connection in the middle of a message, when so many bytes have
	// gone through it, both ways together: the second one after twice as many, and
	// so on up to the eighth, after which it begins anew. 0 is never.
	Cut int
}

const (
	// chunk is how much is carried at a time at most.
	chunk = 4096
	// onTheWay is how many chunks a Delay may hold each way.
	onTheWay = 64
	// cuts is after how many connections Cut begins anew.
	cuts = 8
)

// limits of both ways, nil without a Rate. They let through a tenth of a second's
// worth at a time.
func (t Trouble) limits() (each [2]*rate.Limiter) {
	if t.Rate > 0 {
		for i := range each {
			each[i] = rate.NewLimiter(rate.Limit(t.Rate), max(1, t.Rate/10))
		}
	}
	return each
}

// carriage is one connection that a relay carries.
type carriage struct {
	relay  *Relay
	number int
	ctx    context.Context
	close  context.CancelFunc
	// dead is true if something of it was swallowed.
	dead atomic.Bool
	// gone is how many bytes went through it since the first that a Cut counted.
	gone atomic.Int64
}

// piece is what is on its way.
type piece struct {
	data  []byte
	taken time.Time
}

// drain takes what a connection sends, until that ends.
func (c *carriage) drain(from net.Conn) { _, _ = io.Copy(io.Discard, from) }

// pour carries all of one connection to another, its end too.
func (c *carriage) pour(to, from net.Conn, way int) {
	pieces := make(chan piece, onTheWay)
	c.relay.running.Go(func() {
		defer close(pieces)
		c.take(from, way, pieces)
	})
	whole := true
	for p := range pieces {
		whole = whole && c.give(to, p)
	}
	t, ok := c.relay.passable(c.ctx)
	if ok && whole && !t.Swallow && !c.dead.Load() {
		_ = closeWrite(to)
	}
}

// take takes what a connection sends, as fast as the relay's rate allows.
func (c *carriage) take(from net.Conn, way int, on chan<- piece) {
	for {
		_, limits, _ := c.relay.state()
		data := make([]byte, chunk)
		if limits[way] != nil {
			data = data[:limits[way].Burst()]
		}
		n, err := from.Read(data)
		if limits[way] != nil && limits[way].WaitN(c.ctx, n) != nil || err != nil && n == 0 {
			return
		}
		select {
		case on <- piece{data[:n], time.Now()}:
		case <-c.ctx.Done():
			return
		}
	}
}

// give gives a piece on, or loses it if the relay does, and is false once nothing
// more can be given.
func (c *carriage) give(to net.Conn, p piece) bool {
	t, ok := c.relay.passable(c.ctx)
	if !ok {
		return false
	}
	if t.Swallow || c.dead.Load() {
		c.dead.Store(true)
		return true
	}
	select {
	case <-time.After(time.Until(p.taken.Add(t.Delay))):
	case <-c.ctx.Done():
		return false
	}
	data, last := c.cut(t, p.data)
	_, err := to.Write(data)
	if last || err != nil {
		c.close()
	}
	return !last && err == nil
}

// cut is what of some bytes goes through before the connection is cut, and true if
// it is cut then.
func (c *carriage) cut(t Trouble, data []byte) ([]byte, bool) {
	if t.Cut == 0 {
		c.gone.Store(0)
		return data, false
	}
	limit := int64(t.Cut * (c.number%cuts + 1))
	over := c.gone.Add(int64(len(data))) - limit
	if over < 0 {
		return data, false
	}
	return data[:max(0, int64(len(data))-over)], true
}
