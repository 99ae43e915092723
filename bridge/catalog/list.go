package catalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"

	"github.com/tidwall/gjson"
)

// list is one of the agent's lists, an object of entries by id. Of an answer only
// what differs from the one before is decoded: most are the same, byte by byte,
// and what has changed is a few entries. It is for one goroutine.
type list[T any] struct {
	// buffer is where an answer is read into.
	buffer bytes.Buffer
	// text is the last good answer, nil entries are before the first.
	text string
	// entries are by key as it stands in the text.
	entries map[string]entry[T]
	values  map[string]*T
}

// entry is one of a list. value is never written to: snapshots hold it.
type entry[T any] struct {
	text  string
	id    string
	value *T
}

// read takes an answer in and returns its values by id: of an entry that has not
// changed the very same one as before. The map is the caller's. After an error the
// list is what it was.
func (l *list[T]) read(body io.Reader, decode func(id string, text []byte) (*T, error)) (map[string]*T, error) {
	l.buffer.Reset()
	if _, err := l.buffer.ReadFrom(body); err != nil {
		return nil, err
	}
	if l.entries == nil || string(l.buffer.Bytes()) != l.text {
		if err := l.take(l.buffer.String(), decode); err != nil {
			return nil, err
		}
	}
	return maps.Clone(l.values), nil
}

// take replaces the last answer by another one.
func (l *list[T]) take(text string, decode func(string, []byte) (*T, error)) (err error) {
	answer := gjson.Parse(text)
	switch {
	case !gjson.Valid(text):
		return errors.New("the answer is no JSON, or not complete")
	case !answer.IsObject():
		return fmt.Errorf("the answer is no object: %.20q", text)
	}
	entries := make(map[string]entry[T], len(l.entries)+1)
	values := make(map[string]*T, len(l.entries)+1)
	answer.ForEach(func(key, value gjson.Result) bool {
		e := l.entries[key.Raw]
		if e.text != value.Raw {
			if e, err = e.next(key.Raw, value.Raw, decode); err != nil {
				return false
			}
		}
		e.text = value.Raw // equal, but of this text: the last one shall go
		entries[key.Raw], values[e.id] = e, e.value
		return true
	})
	if err == nil {
		l.text, l.entries, l.values = text, entries, values
	}
	return err
}

// next decodes an entry of which the text has changed. What is read of it may not
// have.
func (e entry[T]) next(key, text string, decode func(string, []byte) (*T, error)) (entry[T], error) {
	n := entry[T]{text: text}
	if err := json.Unmarshal([]byte(key), &n.id); err != nil {
		return n, err
	}
	v, err := decode(n.id, []byte(text))
	if err != nil {
		return n, err
	}
	n.value = v
	if e.value != nil && reflect.DeepEqual(e.value, v) {
		n.value = e.value
	}
	return n, nil
}
