package extras

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/consul-hds/consul-hds/test/lab"
)

// browserPatience bounds everything that a test waits for in a page.
const browserPatience = time.Minute

// newBrowser starts a headless Chromium, which ends with the test. Debian's
// package chromium has it; CHROMIUM_BIN may name another.
func newBrowser(t *testing.T, width, height int) context.Context {
	t.Helper()
	binary := os.Getenv("CHROMIUM_BIN")
	if binary == "" {
		var err error
		binary, err = exec.LookPath("chromium")
		require.NoError(t, err, "these tests need Chromium: install Debian's package chromium, or set CHROMIUM_BIN")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(binary), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(width, height),
		chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocator, endAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, endBrowser := chromedp.NewContext(allocator)
	ctx, endTime := context.WithTimeout(ctx, 3*browserPatience)
	t.Cleanup(func() {
		endTime()
		endBrowser()
		endAllocator()
	})
	return ctx
}

// sees waits until the page shows every text.
func sees(t *testing.T, ctx context.Context, texts ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, browserPatience)
	defer cancel()
	for _, text := range texts {
		_, err := chromedp.Run(ctx, chromedp.PollFunction[bool](`(text) => document.body && document.body.innerText.includes(text)`, chromedp.WithPollingArgs(text)))
		if err != nil {
			shown, _ := chromedp.Run(context.WithoutCancel(ctx), chromedp.Evaluate[string](`document.body.innerText`))
			require.FailNow(t, "the page lacks a text", "%q: %s; it shows:\n%s", text, err, shown)
		}
	}
}

// picture keeps what the page shows, as name.png in $PICTURES or bin/pictures.
func picture(t *testing.T, ctx context.Context, name string) {
	t.Helper()
	dir := os.Getenv("PICTURES")
	if dir == "" {
		root, err := lab.RepoRoot()
		require.NoError(t, err)
		dir = filepath.Join(root, "bin", "pictures")
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.NotEmpty(t, png)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}
