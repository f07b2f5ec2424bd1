package subscriptions

import (
	"maps"
	"slices"
	"sync"
)

// Watch returns a watcher of the changes that this service makes. Those of other
// nodes show only in [Service.All], which a watcher's owner reads from time to time.
// Stop it when done.
//
// update is called with each subscription that was changed, before the call that changed it
// returns, so that the change counts for all that comes after its answer. Two changes may
// come in the other order, and at the same time: the higher revision is the later. It must be
// quick and not call the service. What was created or deleted shows in Take alone.
func (s *Service) Watch(update func(*Subscription)) *Watcher {
	w := &Watcher{update: update, changed: make(chan struct{}, 1), keys: map[Key]struct{}{}}
	w.stop = func() { s.watchers.remove(w) }
	s.watchers.add(w)
	return w
}

// Watcher collects the names of what changed. It holds each name once however often it
// changed, so a slow owner holds nobody up and misses nothing.
type Watcher struct {
	update  func(*Subscription)
	changed chan struct{}
	stop    func()

	mu   sync.Mutex
	keys map[Key]struct{}
}

// Changed receives when Take has something to tell.
func (w *Watcher) Changed() <-chan struct{} { return w.changed }

// Take returns what was created, changed or deleted since the last call, in no order.
func (w *Watcher) Take() []Key {
	w.mu.Lock()
	defer w.mu.Unlock()
	keys := slices.Collect(maps.Keys(w.keys))
	clear(w.keys)
	return keys
}

// Stop ends the watching.
func (w *Watcher) Stop() { w.stop() }

func (w *Watcher) note(key Key) {
	w.mu.Lock()
	w.keys[key] = struct{}{}
	w.mu.Unlock()
	select {
	case w.changed <- struct{}{}:
	default: // the owner has not looked yet, and will see this one too
	}
}

// watchers is the set of them; its zero value is ready.
type watchers struct {
	mu  sync.Mutex
	all map[*Watcher]struct{}
}

func (ws *watchers) add(w *Watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all == nil {
		ws.all = map[*Watcher]struct{}{}
	}
	ws.all[w] = struct{}{}
}

func (ws *watchers) remove(w *Watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
}

func (ws *watchers) updated(sub *Subscription) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		after := *sub // the watcher keeps it, and the caller may change its own
		w.update(&after)
	}
}

func (ws *watchers) changed(key Key) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		w.note(key)
	}
}
