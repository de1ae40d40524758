package review

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"permd/ask"
)

// Verify looks at every log below dir and at the ledger, and changes nothing.
// Writers may be at work meanwhile. The error is about what could not be read;
// what was read and is wrong stands in the report. A missing directory is
// fs.ErrNotExist.
//
// It sees every change, exchange, insertion and deletion of a record, and every
// deletion of a log, that is followed by any record of the same log or that
// the ledger knows the place of: the start of each process, each checkpoint and
// each closing head. It does not see the end of a log cut between the last of
// these and its end if the writer was killed ([Sweep] closes that), a change of
// the time in the ledger's last record, or a whole directory built anew: for
// that give [VerifyHeld] a [Head] held elsewhere.
func Verify(dir string) (Report, error) {
	if _, err := os.ReadDir(dir); err != nil {
		return Report{}, err
	}
	return VerifyHeld(dir, nil)
}

// VerifyHeld is [Verify] with heads that were held elsewhere, of logs or of the
// ledger: up to each of them it sees every change, whoever made it. A directory
// that is missing is a record that was deleted, if any head is held.
func VerifyHeld(dir string, held []Head) (Report, error) {
	v := &verifier{root: dir, report: Report{Status: Intact}, held: map[string][]heldHead{}}
	for _, h := range held {
		v.held[h.Writer] = append(v.held[h.Writer], heldHead{Head: h, at: -1})
	}
	// First the ledger: what is in it by now has to be in the logs. Last the
	// ledger again: what the logs name by then has to be in it.
	if err := v.readLedger(false); err != nil {
		return Report{}, err
	}
	writers, err := v.writers()
	if err != nil {
		return Report{}, err
	}
	var unlisted []*verified
	for _, name := range writers {
		log, err := v.verifyWriter(name)
		if err != nil {
			return Report{}, err
		}
		v.report.Logs = append(v.report.Logs, log.LogReport)
		unlisted = append(unlisted, log)
	}
	if err := v.readLedger(true); err != nil {
		return Report{}, err
	}
	for _, log := range unlisted {
		v.judge(log)
	}
	v.judgeReferences()
	v.judgeHeld()
	return v.report, nil
}

type verifier struct {
	root   string
	report Report
	// Of the ledger: its records' hashes by number, and what it says of each
	// writer.
	hashes map[uint64]ask.Digest
	places map[string][]entry
	refs   []reference
	held   map[string][]heldHead
}

// entry is what the ledger says of a record of a writer.
type entry struct {
	mark  mark
	file  string
	head  bool // a head, not a start
	seq   uint64
	found bool
	at    int64 // of the record of that number in that file, -1 if there is none
}

// reference is a log's word about a record of the ledger.
type reference struct {
	writer, file string
	at           int64
	seq          uint64
	mark         mark
}

// verified is a log with what has to be judged once the ledger is known.
type verified struct {
	LogReport
	used    bool // it has records of events, not only of itself
	checked int  // entries of the ledger that were known when it was read
}

// readLedger reads the ledger; the first time it reports nothing, since what
// is wrong then is still wrong the second time.
func (v *verifier) readLedger(report bool) error {
	v.hashes = map[uint64]ask.Digest{}
	found := v.places
	v.places = map[string][]entry{}
	r := &v.report
	if !report {
		r = &Report{}
	}
	log, err := verifyLog(v.root, ledgerName, r, func(l *Line, file string, at int64, hash ask.Digest) {
		v.hashes[l.Seq] = hash
		v.meet(ledgerName, file, l.Seq, hash, at)
		if l.Event != LedgerStarted && l.Event != LedgerHead {
			return
		}
		m, ok := place(l, KeyHeadSeq, KeyHeadHash)
		if !ok {
			r.add(Problem{Status: Tampered, Writer: ledgerName, File: file, Offset: at, Seq: l.Seq, What: "it names no place in a log"})
			return
		}
		writer := l.Field(KeyWriter)
		v.places[writer] = append(v.places[writer], entry{m, l.Field(KeyFile), l.Event == LedgerHead, l.Seq, false, -1})
	})
	v.report.Ledger = log
	for writer, entries := range found {
		for i := range min(len(entries), len(v.places[writer])) {
			v.places[writer][i].found, v.places[writer][i].at = entries[i].found, entries[i].at
		}
	}
	return err
}

// writers lists all that have a directory or a place in the ledger.
func (v *verifier) writers() ([]string, error) {
	entries, err := os.ReadDir(v.root)
	if err != nil && !(len(v.held) > 0 && errors.Is(err, fs.ErrNotExist)) {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && ask.ValidID(e.Name()) && e.Name() != ledgerName {
			names = append(names, e.Name())
		}
	}
	for name := range v.places {
		if !ask.ValidID(name) {
			v.report.add(Problem{Status: Tampered, Writer: ledgerName, What: "it names the writer " + ask.Quote(name)})
			continue
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

func (v *verifier) verifyWriter(name string) (*verified, error) {
	entries := v.places[name]
	wanted := map[uint64][]int{}
	for i := range entries {
		wanted[entries[i].mark.seq] = append(wanted[entries[i].mark.seq], i)
	}
	out := &verified{checked: len(entries)}
	var err error
	out.LogReport, err = verifyLog(v.root, name, &v.report, func(l *Line, file string, at int64, hash ask.Digest) {
		v.meet(name, file, l.Seq, hash, at)
		for _, i := range wanted[l.Seq] {
			if entries[i].file == file {
				entries[i].found, entries[i].at = entries[i].found || entries[i].mark.hash == hash, at
			}
		}
		if !l.Event.own() {
			out.used = true
		}
		if l.Event == LogLedger {
			m, ok := place(l, KeyLedgerSeq, KeyLedgerHash)
			if !ok {
				v.report.add(Problem{Status: Tampered, Writer: name, File: file, Offset: at, Seq: l.Seq,
					What: "it names no record of the ledger"})
				return
			}
			v.refs = append(v.refs, reference{name, filepath.Base(file), at, l.Seq, m})
		}
	})
	return out, err
}
