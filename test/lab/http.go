package lab

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"
)

// requestTimeout bounds one request of the lab, so that a hung process fails a
// wait instead of blocking it.
const requestTimeout = 5 * time.Second

// httpGet returns the body of a 2xx answer; any other is an error.
func httpGet(ctx context.Context, url string) ([]byte, error) {
	return httpDo(ctx, http.MethodGet, url)
}

func httpDo(ctx context.Context, method, url string) ([]byte, error) {
	return httpDoIn(ctx, nil, method, url)
}

// httpDoIn is httpDo, from within a network namespace.
func httpDoIn(ctx context.Context, ns *Namespace, method, url string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return nil, err
	}
	req.Close = true
	resp, err := ns.httpClient().Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s %s: %s: %.300s", method, url, resp.Status, body)
	}
	return body, nil
}
