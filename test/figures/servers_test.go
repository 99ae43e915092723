package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// ofServer is what a server tells, shortened.
const ofServer = `
# TYPE consul_fsm_register summary
consul_fsm_register_sum 1.5
consul_fsm_register_count 40
# TYPE consul_fsm_deregister summary
consul_fsm_deregister_sum 1.5
consul_fsm_deregister_count 3
# TYPE consul_fsm_txn summary
consul_fsm_txn_sum 1.5
consul_fsm_txn_count 2
# TYPE consul_fsm_coordinate_batch_update summary
consul_fsm_coordinate_batch_update_sum 1.5
consul_fsm_coordinate_batch_update_count 7
# TYPE consul_raft_boltdb_logSize summary
consul_raft_boltdb_logSize_sum 9000
consul_raft_boltdb_logSize_count 60
# TYPE consul_rpc_query counter
consul_rpc_query 12
# TYPE consul_rpc_queries_blocking gauge
consul_rpc_queries_blocking 2
`

func loadIn(t *testing.T, text string) (load, error) {
	t.Helper()
	all, err := families(strings.NewReader(text))
	require.NoError(t, err)
	return loadOf(all)
}

func TestALoadIsReadFromConsulsMetrics(t *testing.T) {
	l, err := loadIn(t, ofServer)
	require.NoError(t, err)
	assert.Equal(t, load{writes: 45, entries: 60, bytes: 9000, coordinates: 7, queries: 12, blocking: 2}, l)
	assert.Equal(t, load{writes: 5, entries: 10, bytes: 1000, coordinates: 1, queries: 2, blocking: 2},
		l.since(load{writes: 40, entries: 50, bytes: 8000, coordinates: 6, queries: 10, blocking: 1}), "what is held is not counted up")
}

func TestAMissingMetricIsNotNothing(t *testing.T) {
	_, err := loadIn(t, strings.ReplaceAll(ofServer, "consul_fsm_txn", "consul_fsm_other"))
	assert.EqualError(t, err, "the server has no metric consul_fsm_txn")
}

func TestAStepThatWritesMoreOrLessIsAFault(t *testing.T) {
	step := serverStep{name: "it", writes: 1}
	require.NoError(t, step.fault(load{writes: 1}))
	assert.EqualError(t, step.fault(load{writes: 2}), "it: 2 catalog writes, want 1")
	assert.Error(t, step.fault(load{}))
}
