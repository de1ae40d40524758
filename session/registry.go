package session

import (
	"slices"
	"sync"
)

// Entry is one session of this process.
type Entry struct {
	ID string
	// Parent is the in-process parent, "" for a root.
	Parent string
	// Agent is the client's label of a subagent; untrusted text.
	Agent string
}

// Registry holds the sessions of one process. It is shared by the whole
// process, keyed by session id, and an entry is removed only by its own
// disposer: ending one sibling never touches another.
// The zero value is ready.
type Registry struct {
	mu      sync.Mutex
	entries map[string]*Entry
	order   []string
}

// Add registers e, or updates the agent label of a session known already,
// and returns what removes it. added says whether it is new.
func (r *Registry) Add(e Entry) (dispose func(), added bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries == nil {
		r.entries = map[string]*Entry{}
	}
	have, ok := r.entries[e.ID]
	if ok {
		if e.Agent != "" {
			have.Agent = e.Agent
		}
		return func() { r.remove(e.ID, have) }, false
	}
	p := &e
	r.entries[e.ID] = p
	r.order = append(r.order, e.ID)
	return func() { r.remove(p.ID, p) }, true
}

// remove takes id out if it still belongs to p.
func (r *Registry) remove(id string, p *Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.entries[id] == p {
		delete(r.entries, id)
		r.order = slices.DeleteFunc(r.order, func(s string) bool { return s == id })
	}
}

// Get returns the entry of id.
func (r *Registry) Get(id string) (Entry, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.entries[id]; ok {
		return *e, true
	}
	return Entry{}, false
}

// List returns all entries in the order they came.
func (r *Registry) List() []Entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]Entry, 0, len(r.order))
	for _, id := range r.order {
		out = append(out, *r.entries[id])
	}
	return out
}

// Above returns the ids from id's parent up to its root, nearest first. A
// cycle ends the walk.
func (r *Registry) Above(id string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	for e := r.entries[id]; e != nil && e.Parent != ""; e = r.entries[e.Parent] {
		if e.Parent == id || slices.Contains(out, e.Parent) {
			break
		}
		out = append(out, e.Parent)
	}
	return out
}
