package forwarding

import "sync"

// maxTargets is how many mailboxes of other nodes stay open: two descriptors
// each.
const maxTargets = 128

// targets keeps mailboxes open that letters go to. An open one that is not
// found at its path any more is opened anew.
type targets struct {
	open func(dir string) (target, error)

	mu   sync.Mutex
	kept map[string]*kept
}

type kept struct {
	target
	users int
	out   bool // not in the map any more: the last user closes it
}

// use calls f with the mailbox in dir.
func (t *targets) use(dir string, f func(target) error) error {
	k, err := t.get(dir)
	if err != nil {
		return err
	}
	defer t.done(k)
	return f(k.target)
}

func (t *targets) get(dir string) (*kept, error) {
	t.mu.Lock()
	k := t.kept[dir]
	if k != nil {
		k.users++
	}
	t.mu.Unlock()
	if k != nil {
		if k.Current() {
			return k, nil
		}
		t.drop(dir, k)
		t.done(k)
	}
	opened, err := t.open(dir)
	if err != nil {
		return nil, err
	}
	k = &kept{target: opened, users: 1}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.kept == nil {
		t.kept = map[string]*kept{}
	}
	if t.kept[dir] != nil || len(t.kept) >= maxTargets && !t.evict() {
		k.out = true // for this once
		return k, nil
	}
	t.kept[dir] = k
	return k, nil
}

// evict makes room for one more; the mutex is held.
func (t *targets) evict() bool {
	for dir, k := range t.kept {
		if k.users == 0 {
			delete(t.kept, dir)
			k.Close()
			return true
		}
	}
	return false
}

// drop takes k out, if it is still in.
func (t *targets) drop(dir string, k *kept) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k == nil {
		k = t.kept[dir]
	}
	if k == nil || t.kept[dir] != k {
		return
	}
	delete(t.kept, dir)
	k.out = true
	if k.users == 0 {
		k.Close()
	}
}

func (t *targets) done(k *kept) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.users--; k.out && k.users == 0 {
		k.Close()
	}
}

// close closes all that nobody uses, and the others when they are done.
func (t *targets) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for dir, k := range t.kept {
		delete(t.kept, dir)
		k.out = true
		if k.users == 0 {
			k.Close()
		}
	}
}
