package catalog

import (
	"cmp"
	"context"
	"net/http"
	"time"
)

// The pauses before agent/self is asked again.
const (
	selfForbiddenPause = 60 * time.Second
	selfErrorPause     = 5 * time.Second
)

// identify learns the node's name and address: from the config, else from
// agent/self, else the name from the checks and the address from the doorbell's last
// answer, else what was known before. What nobody tells stays empty.
func (w *Watcher) identify(ctx context.Context, checksNode string) {
	node := w.config.Node
	if node.Name == "" || node.Address == "" {
		self, last, catalog := w.askedSelf(ctx), w.nodeTold(), w.catalogAddress()
		node.Name = cmp.Or(node.Name, self.Name, checksNode, last.Name)
		node.Address = cmp.Or(node.Address, self.Address, catalog, last.Address)
	}
	w.setNode(node)
}

// askedSelf returns what agent/self says of the node, nothing if it is refused.
// It is asked once, and again after the agent was away. When the token may not ask, it
// is asked again only while something is unknown, and rarely: the agent logs an error
// for each refusal.
func (w *Watcher) askedSelf(ctx context.Context) Node {
	if w.self != nil {
		return *w.self
	}
	known := w.nodeNow()
	needless := w.denied && known.Name != "" && known.Address != ""
	if needless || time.Now().Before(w.askSelf) {
		return Node{}
	}
	ctx, cancel := context.WithTimeout(ctx, sideTimeout)
	defer cancel()
	self, err := w.agent.self(ctx)
	if err == nil {
		w.self = &self
		w.setCatalogAddress("") // the doorbell may have told it long ago
		return self
	}
	pause := selfErrorPause
	w.denied = isStatus(err, http.StatusForbidden) && !tokenUnknown(err) // an unknown token is soon another
	if w.denied {
		pause = selfForbiddenPause
	}
	w.askSelf = time.Now().Add(pause)
	w.log.Debug("agent/self does not tell the node's name and address", "error", err)
	return Node{}
}

func (w *Watcher) nodeTold() Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.node
}

// nodeNow is the node as far as it is known, with the catalog's word included.
func (w *Watcher) nodeNow() Node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return Node{Name: w.node.Name, Address: cmp.Or(w.node.Address, w.catalog)}
}

// catalogAddress is the address that the doorbell's last answer told.
func (w *Watcher) catalogAddress() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.catalog
}

func (w *Watcher) setNode(n Node) {
	w.mu.Lock()
	news := !w.identified || n.Name != w.node.Name
	w.node, w.identified = n, true
	w.mu.Unlock()
	if news {
		poke(w.named)
	}
}

// setCatalogAddress keeps the address that a doorbell answer told.
func (w *Watcher) setCatalogAddress(address string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.catalog = address
}
