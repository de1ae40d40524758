package transporttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"permd/ask"
	"permd/forwarding"
)

// Memory is a network of mailboxes in this process, for tests in virtual
// time. Its zero value is ready.
type Memory struct {
	mu    sync.Mutex
	boxes map[string]*MemoryBox
}

// MemoryBox is the mailbox of one node.
type MemoryBox struct {
	net     *Memory
	node    string
	arrived chan struct{}
	lost    chan struct{}

	mu      sync.Mutex
	letters map[string][]byte
	aside   map[string][]byte
	fail    func(forwarding.Name) error
	taken   func(forwarding.Name, []byte)
}

var _ forwarding.Transport = (*MemoryBox)(nil)

const memoryBatch = 64

// Open makes the mailbox of a node, anew if there was one.
func (m *Memory) Open(node string) *MemoryBox {
	b := &MemoryBox{net: m, node: node, arrived: make(chan struct{}, 1), lost: make(chan struct{}),
		letters: map[string][]byte{}, aside: map[string][]byte{}}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.boxes == nil {
		m.boxes = map[string]*MemoryBox{}
	}
	m.boxes[node] = b
	return b
}

// Kill ends a node: its mailbox is gone.
func (m *Memory) Kill(node string) {
	m.mu.Lock()
	b := m.boxes[node]
	delete(m.boxes, node)
	m.mu.Unlock()
	if b != nil {
		close(b.lost)
	}
}

func (m *Memory) box(node string) *MemoryBox {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boxes[node]
}

// Put is [forwarding.Transport.Put].
func (b *MemoryBox) Put(ctx context.Context, to string, name forwarding.Name, sealed []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, ok := forwarding.ParseName(name.String()); !ok || name.Node != b.node || to == b.node || !ask.ValidID(to) {
		return fmt.Errorf("put: %w", forwarding.ErrMalformed)
	}
	if len(sealed) > forwarding.MaxLetter {
		return fmt.Errorf("put: %w: %d bytes", forwarding.ErrMalformed, len(sealed))
	}
	t := b.net.box(to)
	if t == nil {
		return forwarding.ErrNoMailbox
	}
	t.mu.Lock()
	fail := t.fail
	t.mu.Unlock()
	if fail != nil {
		if err := fail(name); err != nil {
			return err
		}
	}
	t.Plant(name.String(), sealed)
	return nil
}

// SetFail has f asked before each Put into this box; an error refuses it.
func (b *MemoryBox) SetFail(f func(forwarding.Name) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.fail = f
}

// Taken has f told each letter that is taken from this box.
func (b *MemoryBox) Taken(f func(forwarding.Name, []byte)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.taken = f
}

// Plant puts bytes under a name as any process of the user could.
func (b *MemoryBox) Plant(name string, raw []byte) {
	b.mu.Lock()
	b.letters[name] = bytes.Clone(raw)
	b.mu.Unlock()
	b.Wake()
}

// Wake is for who heard by another way that there is mail.
func (b *MemoryBox) Wake() {
	select {
	case b.arrived <- struct{}{}:
	default:
	}
}

// Take is [forwarding.Transport.Take].
func (b *MemoryBox) Take(f func(forwarding.Name, []byte) error) (more bool, err error) {
	b.mu.Lock()
	names := make([]string, 0, len(b.letters))
	for name := range b.letters {
		names = append(names, name)
	}
	b.mu.Unlock()
	slices.Sort(names)
	for i, s := range names {
		if i == memoryBatch {
			return true, nil
		}
		name, ok := forwarding.ParseName(s)
		if !ok {
			continue
		}
		b.mu.Lock()
		raw, taken := b.letters[s], b.taken
		b.mu.Unlock()
		if taken != nil {
			taken(name, raw)
		}
		err := f(name, raw)
		if errors.Is(err, forwarding.ErrLater) {
			continue
		}
		b.mu.Lock()
		delete(b.letters, s)
		if err != nil {
			b.aside[s] = raw
		}
		b.mu.Unlock()
	}
	return false, nil
}

// Aside lists what was set aside.
func (b *MemoryBox) Aside() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var names []string
	for name := range b.aside {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Arrived is [forwarding.Transport.Arrived].
func (b *MemoryBox) Arrived() <-chan struct{} { return b.arrived }

// Alive is [forwarding.Transport.Alive].
func (b *MemoryBox) Alive(ctx context.Context, node string) error {
	t := b.net.box(node)
	if t == nil {
		return forwarding.ErrLost
	}
	select {
	case <-t.lost:
		return forwarding.ErrLost
	case <-ctx.Done():
		return ctx.Err()
	}
}
