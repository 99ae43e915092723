package checks

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestRefreshAtIsAlwaysAheadWithinAPeriod(t *testing.T) {
	epoch := time.Unix(1000, 0)
	places := map[time.Duration]bool{}
	for i := range 400 {
		id := fmt.Sprint("hds:", i)
		for ahead := time.Duration(0); ahead < 50*time.Second; ahead += 777 * time.Millisecond {
			next := refreshAt(id, epoch, epoch.Add(ahead), 20*time.Second)
			assert.True(t, next.After(epoch.Add(ahead)))
			assert.LessOrEqual(t, next.Sub(epoch.Add(ahead)), 20*time.Second)
			assert.Zero(t, next.Sub(epoch)%refreshTogether, "at few moments")
			places[(next.Sub(epoch) % (20 * time.Second)).Truncate(time.Second)] = true
		}
	}
	assert.Len(t, slices.Collect(maps.Keys(places)), 20, "every second of the period has some")
	assert.True(t, refreshAt("hds:1", epoch, epoch, time.Millisecond).After(epoch), "a period may be shorter than what is between the moments")
}
