package hds

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Strangers that come at once all find room before any of them takes it: only
// half of the streams may become theirs all the same.
func TestStrangersThatComeAtOnceTakeHalfOfTheStreams(t *testing.T) {
	b := newBed(t, Config{Listen: []string{"127.0.0.1:1"}, MaxStreams: 6})
	plan, _ := planOf(nil)
	b.SetPlan(plan)
	const many = 6
	for range many {
		require.NoError(t, b.room(newIdentity(newNode("stranger"))))
	}
	var in int
	for range many {
		ses, err := b.open(newIdentity(newNode("stranger")), "", nil, func() {}, &frame{})
		if err != nil {
			assert.ErrorContains(t, err, "half of the 6 streams are those of unknown Envoys already")
			continue
		}
		in++
		assert.True(t, ses.stranger())
	}
	assert.Equal(t, many/2, in)
	assert.Error(t, b.room(newIdentity(newNode("stranger"))))
	known, err := b.open(newIdentity(newNode("n1")), "", nil, func() {}, &frame{})
	require.NoError(t, err, "they keep none of ours out")
	assert.False(t, known.stranger())
	assert.Len(t, b.Streams(), many/2+1)
}
