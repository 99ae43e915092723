package admin

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"
)

//go:embed pages
var pageFiles embed.FS

// refreshEvery is the pause between two loads of a page that refreshes itself, in
// seconds.
const refreshEvery = 5

// pages are what people see in a browser. They need no script: a browser loads
// the overview again by itself, as its head says.
type pages struct {
	backend Backend
	ready   func() error
	style   template.CSS
	// policy is the Content-Security-Policy: nothing is loaded from anywhere, and the
	// only style is ours, by its hash.
	policy string
	// templates are those of the files of their names.
	templates map[string]*template.Template
}

// The names of the templates.
const (
	overviewPage    = "overview"
	explanationPage = "explanation"
	configPage      = "config"
	faultPage       = "fault"
)

func newPages(backend Backend, ready func() error) (*pages, error) {
	style, err := pageFiles.ReadFile("pages/style.css")
	if err != nil {
		return nil, fmt.Errorf("reading the style of pages: %w", err)
	}
	hash := sha256.Sum256(style)
	p := &pages{
		backend: backend, ready: ready, style: template.CSS(style),
		policy: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
			"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		templates: map[string]*template.Template{},
	}
	for _, name := range []string{overviewPage, explanationPage, configPage, faultPage} {
		p.templates[name], err = template.ParseFS(pageFiles, "pages/layout.html", "pages/parts.html", "pages/"+name+".html")
		if err != nil {
			return nil, fmt.Errorf("parsing the page %s: %w", name, err)
		}
	}
	return p, nil
}

// page is what every template is given.
type page struct {
	// Title is that of the browser's window, Current the entry of the menu.
	Title, Current string
	Style          template.CSS
	// Now is when the page was made.
	Now time.Time
	// Refresh is the pause until the browser loads the page again, in seconds; zero
	// is never.
	Refresh int
	Status  Status
	Body    any
}

// pageHandler makes a page and names its template.
type pageHandler func(*http.Request, *page) (string, error)

// handle serves what a handler makes, or its error, as a page.
func (p *pages) handle(h pageHandler) route {
	return route{method: http.MethodGet, handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content := &page{Style: p.style, Now: time.Now(), Status: p.backend.Status().finished()}
		code := http.StatusOK
		name, err := h(r, content)
		if err != nil {
			code = codeOf(err)
			name, content.Title, content.Body = faultPage, http.StatusText(code), err.Error()
		}
		p.write(w, code, p.templates[name], content)
	})}
}

func (p *pages) write(w http.ResponseWriter, code int, t *template.Template, content *page) {
	var text bytes.Buffer
	if err := t.Execute(&text, content); err != nil {
		writeError(w, fmt.Errorf("making the page: %w", err))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", p.policy)
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(text.Bytes()) // the client has gone: nobody to tell
}

func (p *pages) showOverview(r *http.Request, content *page) (string, error) {
	f := filterOf(r.URL.Query())
	if !f.paused {
		content.Refresh = refreshEvery
	}
	content.Title, content.Current = content.Status.Node, overviewPage
	content.Body = newOverview(content.Status, p.backend.Transitions(), f, p.ready())
	return overviewPage, nil
}

func (p *pages) showExplanation(r *http.Request, content *page) (string, error) {
	id := strings.TrimPrefix(r.URL.Path, "/explain/")
	e, err := p.backend.Explain(r.Context(), id)
	if err != nil {
		return "", coded(err)
	}
	content.Title = id
	content.Body = newExplained(e.finished(), content.Status, p.backend.Transitions())
	return explanationPage, nil
}

func (p *pages) showConfig(_ *http.Request, content *page) (string, error) {
	content.Title, content.Current, content.Body = "Configuration", configPage, p.backend.Configuration()
	return configPage, nil
}
