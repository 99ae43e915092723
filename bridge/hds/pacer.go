package hds

import "time"

// gatherQuiet and gatherMost bound how long a change waits for others: the first
// goes out at once, those that follow it within gatherQuiet are gathered for at
// most gatherMost.
const (
	gatherQuiet = 250 * time.Millisecond
	gatherMost  = time.Second
)

// pacer decides when a changed specifier goes out. The zero value has sent
// nothing yet.
type pacer struct {
	// last is when the last specifier went out; first and latest are when the
	// changes began that it does not hold, and when the newest of them came.
	last, first, latest time.Time
}

// note takes a change in.
func (p *pacer) note(now time.Time) {
	if p.first.IsZero() {
		p.first = now
	}
	p.latest = now
}

// wait is how long the changes that were noted have to wait still.
func (p *pacer) wait(now time.Time) time.Duration {
	if !p.first.Before(p.last.Add(gatherQuiet)) {
		return 0
	}
	return min(p.latest.Add(gatherQuiet).Sub(now), p.first.Add(gatherMost).Sub(now))
}

// sent notes that a specifier went out with all changes so far.
func (p *pacer) sent(now time.Time) { *p = pacer{last: now} }
