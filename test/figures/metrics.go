package main

import (
	"bytes"
	"context"
	"fmt"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// counts are what a daemon has written so far.
type counts struct{ all, refreshes float64 }

// written reads the daemon's metrics.
func (s *stage) written(ctx context.Context) (counts, error) {
	body, err := s.daemon.Get(ctx, "/metrics")
	if err != nil {
		return counts{}, err
	}
	p := expfmt.NewTextParser(model.LegacyValidation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		return counts{}, fmt.Errorf("parsing the metrics: %w", err)
	}
	return counts{
		all:       sum(families["consul_hds_check_writes_total"]),
		refreshes: sum(families["consul_hds_check_refreshes_total"]),
	}, nil
}

func sum(f *dto.MetricFamily) (total float64) {
	for _, m := range f.GetMetric() {
		total += m.GetCounter().GetValue()
	}
	return total
}
