package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"permd/api"
	"permd/ask"
)

// Kind is what kind of surface an answerer is.
type Kind string

// The kinds.
const (
	KindSurface Kind = "surface"       // a person's terminal, page or popup
	KindDevice  Kind = "device"        // a paired device
	KindDialog  Kind = "client_dialog" // a client's own dialog, called by us
)

// Identity is who an answerer is.
type Identity struct {
	// Name goes into the record and to the other answerers: the surface's
	// name, or a device's key fingerprint; 1 to 128 visible bytes.
	Name string
	Kind Kind
	// Cap is the widest scope it may give, empty for once. A device never
	// gives more than session, a client's dialog never more than once.
	Cap ask.Scope
	// Faces is how many people's views it has now: terminals, pages and
	// popups of a surface; 1 for a device that is reachable or can be woken.
	// With none it gets every ask, but answers nothing.
	Faces int
}

// ErrIdentity is wrapped by the errors about an identity that cannot be used.
var ErrIdentity = errors.New("answerer")

func (id *Identity) check() error {
	switch id.Kind {
	case KindSurface, KindDevice, KindDialog:
	default:
		return fmt.Errorf("%w: kind %s is not known", ErrIdentity, ask.Quote(string(id.Kind)))
	}
	if n := len(id.Name); n == 0 || n > ask.MaxName {
		return fmt.Errorf("%w: a name has 1 to %d bytes, this one %d", ErrIdentity, ask.MaxName, n)
	}
	if !utf8.ValidString(id.Name) || strings.ContainsFunc(id.Name, func(r rune) bool { return ask.Hidden(r) || unicode.IsControl(r) }) {
		return fmt.Errorf("%w: the name %s has characters that cannot be seen", ErrIdentity, ask.Quote(id.Name))
	}
	if id.Faces < 0 {
		return fmt.Errorf("%w: %d faces", ErrIdentity, id.Faces)
	}
	return nil
}

// widest is the widest scope this answerer may really give.
func (id *Identity) widest() int {
	most := ask.ScopeUser
	switch id.Kind {
	case KindDevice:
		most = ask.ScopeSession
	case KindDialog:
		most = ask.ScopeOnce
	}
	w := id.Cap.Width()
	if w > ask.ScopeUser.Width() {
		return 0 // a cap nobody knows caps at the narrowest
	}
	return min(w, most.Width())
}

// Answerer is the broker's way to a surface. Its methods are called on one
// goroutine of the registration, in order, so a slow one delays only itself.
// A panic in any of them is contained.
type Answerer interface {
	// Ask shows an ask. ctx ends with the registration. An error takes the
	// answerer out of this ask and of no other.
	Ask(ctx context.Context, s api.Shown) error
	// Settled ends an ask that somebody or something else settled; it comes
	// exactly once for every ask that was shown, was not hidden and was not
	// won here.
	Settled(s api.Settled)
}

// An answerer that also has this method is told what the origin did with an
// ask it was shown.
type deliveredTo interface{ Delivered(api.Delivered) }

// The ways an origin ends an ask, in [api.Delivered].
const (
	HowReleased = "released" // the action runs, or the answer was handed over
	HowTooLate  = "too_late" // the asker had gone
	HowRefused  = "refused"  // the release check refused it
)

// Registration is one registered answerer. Its methods may be called from any
// goroutine, also from the answerer's own methods.
type Registration struct {
	b  *Broker
	id Identity
	to Answerer

	// Guarded by b.mu.
	faces   int
	trusted bool
	open    bool

	out queue
}

// Identity returns who is registered, with the faces it has now.
func (r *Registration) Identity() Identity {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	id := r.id
	id.Faces = r.faces
	return id
}

// SetFaces reports how many faces the answerer has now. With the first one
// every open ask that it had hidden is shown again.
func (r *Registration) SetFaces(n int) {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if !r.open || n < 0 || n == r.faces {
		return
	}
	first := r.faces == 0
	r.faces = n
	for _, e := range b.list {
		if _, has := e.held[r]; first && !has {
			b.offer(e, r)
		}
		b.arrange(e)
	}
}

// OnScreen reports that a person can see the ask at this answerer.
func (r *Registration) OnScreen(id string) {
	b := r.b
	b.mu.Lock()
	e := b.openEntry(id)
	if e == nil || !r.mayAnswer(e) || e.shown {
		b.mu.Unlock()
		return
	}
	e.shown = true
	b.arrange(e)
	var call []func()
	for _, w := range e.waiters {
		if w.req.OnShown != nil {
			call = append(call, w.req.OnShown)
		}
	}
	b.mu.Unlock()
	for _, f := range call {
		contained(f)
	}
}

// Hide takes the answerer out of one ask: the surface lost it, or the person
// put it away. Nothing is answered.
func (r *Registration) Hide(id string) {
	b := r.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.openEntry(id); e != nil {
		b.drop(e, r)
	}
}

// Distrust ends the trust in an answerer at once: no answer of it counts any
// more, also to what is on its screen now.
func (r *Registration) Distrust() {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	r.trusted = false
	r.b.dropAll(r)
}

// Close takes the answerer out of every ask without settling any. It may be
// called more than once and does not wait.
func (r *Registration) Close() {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	r.closeLocked()
}

func (r *Registration) closeLocked() {
	if r.open {
		r.open = false
		delete(r.b.answerers, r)
		r.b.dropAll(r)
		r.out.close()
	}
}

// Done is closed when the last call of the answerer has returned.
func (r *Registration) Done() <-chan struct{} { return r.out.done }

// able reports whether the answerer may answer at all now.
func (r *Registration) able() bool { return r.open && r.trusted && r.faces > 0 }

// mayAnswer reports whether it may answer e now.
func (r *Registration) mayAnswer(e *entry) bool {
	_, has := e.held[r]
	return has && r.able()
}
