package review

import "fmt"

// judge holds one log against what the ledger says of it.
func (v *verifier) judge(log *verified) {
	entries := v.places[log.Writer]
	bad := func(s Status, e entry, format string, a ...any) {
		p := Problem{Status: s, Writer: log.Writer, File: e.file, Seq: e.mark.seq, What: fmt.Sprintf(format, a...)}
		if e.file != "" {
			p.Offset = v.offset(log.Writer, e.file, e.at)
		}
		v.report.add(p)
	}
	if len(entries) == 0 {
		switch {
		case log.used:
			bad(Tampered, entry{}, "the ledger does not know this log")
		case !log.Live:
			bad(Incomplete, entry{}, "begun, never used and not in the ledger")
		}
		return
	}
	headed := false
	for i, e := range entries {
		headed = headed || e.head && e.mark.seq == log.Head.Seq && e.mark.hash == log.Head.Hash
		if i >= log.checked || e.found {
			continue // entered after the log was read, or where it should be
		}
		if log.Files == 0 {
			bad(Tampered, e, "the log is gone; record %d of the ledger knows it", e.seq)
			return
		}
		bad(Tampered, e, "record %d of the ledger knows another record here, or one that is gone", e.seq)
	}
	switch {
	case log.Live:
	case !log.Closed:
		bad(Incomplete, entry{}, "ended without a closing head; what came after record %d is not known", log.Head.Seq)
	case !headed:
		bad(Incomplete, entry{}, "its closing head is not in the ledger")
	}
}

// judgeReferences holds the ledger against what the logs say of it.
func (v *verifier) judgeReferences() {
	for _, r := range v.refs {
		hash, ok := v.hashes[r.mark.seq]
		switch {
		case !ok:
			v.report.add(Problem{Status: Tampered, Writer: ledgerName, Seq: r.mark.seq,
				What: fmt.Sprintf("gone, but %s/%s names it in record %d", r.writer, r.file, r.seq)})
		case hash != r.mark.hash:
			v.report.add(Problem{Status: Tampered, Writer: ledgerName, Seq: r.mark.seq,
				What: fmt.Sprintf("not the one that %s/%s names in record %d", r.writer, r.file, r.seq)})
		}
	}
}
