package forwarding

// windowSize is how far behind the newest counter a letter may come: letters
// of one sender that are put at the same time overtake each other.
const windowSize = 4096

// window refuses a counter that was accepted before, and one too far behind
// to know. The zero value has accepted nothing.
type window struct {
	top uint64 // the highest accepted
	// One word more than the window: the newest and the oldest word are both
	// there in part.
	bits [windowSize/64 + 1]uint64
}

// fresh reports whether counter n could be accepted.
func (w *window) fresh(n uint64) bool {
	switch {
	case n == 0:
		return false
	case n > w.top:
		return true
	case w.top-n >= windowSize:
		return false
	}
	return w.bits[n/64%uint64(len(w.bits))]&(1<<(n%64)) == 0
}

// accept takes counter n and reports whether it was fresh.
func (w *window) accept(n uint64) bool {
	if !w.fresh(n) {
		return false
	}
	if n > w.top {
		// Forget the words that the window moves over.
		from, to := w.top/64, n/64
		for i := from + 1; i <= to && i <= from+uint64(len(w.bits)); i++ {
			w.bits[i%uint64(len(w.bits))] = 0
		}
		w.top = n
	}
	w.bits[n/64%uint64(len(w.bits))] |= 1 << (n % 64)
	return true
}
