package hds

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
)

// readChanges reads of a report what it says else than the one before it: a flip
// among a thousand endpoints is one cluster to decode. It is false if the two do
// not name the same clusters in the same order, or are anything else than a real
// Envoy sends; then the report has to be read as a whole.
func readChanges(before, after []byte, wanted func(cluster string) bool) (report, bool) {
	r := report{sightings: map[string]wired{}, partial: true}
	before, ok1 := onlyResponse(before)
	after, ok2 := onlyResponse(after)
	if !ok1 || !ok2 {
		return report{}, false
	}
	for len(before) > 0 && len(after) > 0 {
		var was, is field
		var err1, err2 error
		was, before, err1 = next(before)
		is, after, err2 = next(after)
		if err1 != nil || err2 != nil || was.number != is.number || was.kind != is.kind {
			return report{}, false
		}
		if is.number != fieldClusters || is.kind != protowire.BytesType || bytes.Equal(was.value, is.value) {
			continue
		}
		if !r.change(was.value, is.value, wanted) {
			return report{}, false
		}
	}
	return r, len(before) == len(after)
}

// onlyResponse is the report in a message; false if there is none in it, or
// anything else.
func onlyResponse(b []byte) ([]byte, bool) {
	if len(b) == 0 {
		return nil, false
	}
	f, rest, err := next(b)
	return f.value, err == nil && len(rest) == 0 && f.number == fieldResponse && f.kind == protowire.BytesType
}

// change takes one cluster in that differs. It is false if it is another one.
func (r *report) change(was, is []byte, wanted func(string) bool) bool {
	old, err1 := nameOf(was)
	name, err2 := nameOf(is)
	if err1 != nil || err2 != nil || old != name {
		return false
	}
	if !wanted(name) {
		return true
	}
	got, err := readCluster(is)
	r.sightings[name] = got
	return err == nil
}
