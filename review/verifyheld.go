package review

import (
	"fmt"
	"maps"
	"slices"

	"permd/ask"
)

// heldHead is a head that was held elsewhere, and whether its record was met.
type heldHead struct {
	Head
	met bool
	at  int64 // of another record in its place, -1 if there is none
}

// meet notes a record of a writer.
func (v *verifier) meet(writer, file string, seq uint64, hash ask.Digest, at int64) {
	held := v.held[writer]
	for i := range held {
		if h := &held[i]; h.Seq == seq && h.File == file {
			h.met, h.at = h.met || h.Hash == hash, at
		}
	}
}

// judgeHeld reports the heads whose record was not met. The hash of a record
// covers all before it.
func (v *verifier) judgeHeld() {
	for _, writer := range slices.Sorted(maps.Keys(v.held)) {
		for _, h := range v.held[writer] {
			if h.met {
				continue
			}
			v.report.add(Problem{Status: Tampered, Writer: writer, File: h.File, Offset: v.offset(writer, h.File, h.at), Seq: h.Seq,
				What: fmt.Sprintf("record %d is gone or is not the one whose head was held elsewhere", h.Seq)})
		}
	}
}

// Heads are the heads of all logs and of the ledger, to be held elsewhere.
func (r *Report) Heads() []Head {
	var out []Head
	for _, l := range append([]LogReport{r.Ledger}, r.Logs...) {
		if l.Records > 0 {
			out = append(out, l.Head)
		}
	}
	return out
}

// Check refuses a head that no log could have.
func (h *Head) Check() error {
	switch {
	case !ask.ValidID(h.Writer):
		return fmt.Errorf("%w: head of the writer %s", ask.ErrInvalid, ask.Quote(h.Writer))
	case h.Seq == 0 || h.Hash == (ask.Digest{}):
		return fmt.Errorf("%w: head without a record", ask.ErrInvalid)
	}
	if fileNumber(h.File) == 0 {
		return fmt.Errorf("%w: head in the file %s", ask.ErrInvalid, ask.Quote(h.File))
	}
	return nil
}

// offset is where a record stands, or where the log ends that lacks it.
func (v *verifier) offset(writer, file string, at int64) int64 {
	if at >= 0 {
		return at
	}
	for _, l := range append([]LogReport{v.report.Ledger}, v.report.Logs...) {
		if l.Writer == writer && l.Head.File == file {
			return l.end
		}
	}
	return 0
}
