// Package agenda tells what is due. Of many things that each wait for a moment of
// their own, only those whose moment has come are touched: to look costs nothing
// while nothing is due, however many there are.
package agenda

import (
	"container/heap"
	"time"
)

// Agenda holds at most one moment for each key. The zero value holds none. It is
// not safe for concurrent use.
type Agenda[K comparable] struct {
	queue queue[K]
	items map[K]*item[K]
}

type item[K comparable] struct {
	key   K
	at    time.Time
	index int
}

// Set makes at the moment of a key, in the place of the one that it may have; the
// zero time takes the key off.
func (a *Agenda[K]) Set(key K, at time.Time) {
	i := a.items[key]
	switch {
	case at.IsZero() && i != nil:
		heap.Remove(&a.queue, i.index)
		delete(a.items, key)
	case at.IsZero(), i != nil && i.at.Equal(at):
	case i != nil:
		i.at = at
		heap.Fix(&a.queue, i.index)
	default:
		a.add(&item[K]{key: key, at: at})
	}
}

func (a *Agenda[K]) add(i *item[K]) {
	if a.items == nil {
		a.items = map[K]*item[K]{}
	}
	a.items[i.key] = i
	heap.Push(&a.queue, i)
}

// Due takes off one of the keys whose moment has come by now, the earliest, and
// returns it; false if there is none.
func (a *Agenda[K]) Due(now time.Time) (key K, ok bool) {
	if len(a.queue) == 0 || a.queue[0].at.After(now) {
		return key, false
	}
	i := heap.Pop(&a.queue).(*item[K])
	delete(a.items, i.key)
	return i.key, true
}

// Next is the earliest moment; zero if no key has one.
func (a *Agenda[K]) Next() (at time.Time) {
	if len(a.queue) > 0 {
		at = a.queue[0].at
	}
	return at
}

// Len is how many keys have a moment.
func (a *Agenda[K]) Len() int { return len(a.items) }

// queue implements heap.Interface.
type queue[K comparable] []*item[K]

func (q queue[K]) Len() int           { return len(q) }
func (q queue[K]) Less(i, j int) bool { return q[i].at.Before(q[j].at) }
func (q queue[K]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *queue[K]) Push(x any) {
	i := x.(*item[K])
	i.index = len(*q)
	*q = append(*q, i)
}

func (q *queue[K]) Pop() any {
	last := len(*q) - 1
	i := (*q)[last]
	(*q)[last], *q = nil, (*q)[:last]
	return i
}
