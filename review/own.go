package review

import (
	"os"
	"strconv"
	"time"

	"permd/ask"
	"permd/internal/host"
)

// The records that a log writes about itself.

func now() stamp {
	up, _ := host.Uptime()
	return stamp{time.Now(), up}
}

// add writes one of the log's own records behind m.
func (k keys) add(out []byte, m *mark, ev Event) []byte {
	return appendLine(out, m, now(), k.body(nil, &ev))
}

// process says which process writes from here on.
func process(version string) []Field {
	boot, _ := host.BootID()
	return []Field{
		{KeyBootID, boot},
		{KeyPID, strconv.Itoa(os.Getpid())},
		{KeyVersion, version},
	}
}

func header(writer, file, previous, version string) Event {
	fields := append(process(version), Field{KeyWriter, writer}, Field{KeyFile, file})
	if previous != "" {
		fields = append(fields, Field{KeyPrevious, previous})
	}
	return Event{Name: LogHeader, Fields: fields}
}

func resumed(version string, clean bool) Event {
	return Event{Name: LogResumed, Fields: append(process(version), Field{KeyUnclean, strconv.FormatBool(!clean)})}
}

// gap says that something is missing here, and why. lost counts records that
// were handed in and are nowhere.
func gap(cause string, reason error, cut *aside, lost uint64) Event {
	ev := Event{Name: Gap, Fields: []Field{{KeyCause, cause}}}
	if reason != nil {
		ev.Reason = reason.Error()
	}
	if lost > 0 {
		ev.Fields = append(ev.Fields, Field{KeyLost, strconv.FormatUint(lost, 10)})
	}
	if cut != nil {
		ev.Fields = append(ev.Fields,
			Field{KeyFile, cut.file},
			Field{KeyOffset, strconv.FormatInt(cut.from, 10)},
			Field{KeyBytes, strconv.FormatInt(cut.size, 10)})
		if cut.kept != "" {
			ev.Fields = append(ev.Fields, Field{KeySetAside, cut.kept}, Field{KeySHA256, cut.sum.String()})
		}
		if cut.reason != nil && ev.Reason == "" {
			ev.Reason = cut.reason.Error()
		}
	}
	return ev
}

func headRecord(closing bool) Event {
	return Event{Name: LogHead, Fields: []Field{{KeyClosing, strconv.FormatBool(closing)}}}
}

// placed is an event of the ledger about a record of a writer.
func placed(name Name, writer, file string, m mark) Event {
	return Event{Name: name, Fields: []Field{
		{KeyWriter, writer},
		{KeyFile, file},
		{KeyHeadSeq, strconv.FormatUint(m.seq, 10)},
		{KeyHeadHash, m.hash.String()},
	}}
}

func inLedger(m mark) Event {
	return Event{Name: LogLedger, Fields: []Field{
		{KeyLedgerSeq, strconv.FormatUint(m.seq, 10)},
		{KeyLedgerHash, m.hash.String()},
	}}
}

// place reads back what placed and inLedger wrote.
func place(l *Line, seq, hash Key) (mark, bool) {
	n, err := strconv.ParseUint(l.Field(seq), 10, 64)
	if err != nil {
		return mark{}, false
	}
	var d ask.Digest
	if d.UnmarshalText([]byte(l.Field(hash))) != nil {
		return mark{}, false
	}
	return mark{seq: n, hash: d}, true
}
