package export

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"strconv"
	"strings"

	"permd/ask"
	"permd/review"
)

// columns are the header, and what each has of a record that can be read.
var columns = []struct {
	name string
	of   func(r *review.Record) string
}{
	{"event", func(r *review.Record) string { return string(r.Event) }},
	{"session", func(r *review.Record) string { return r.Session }},
	{"path", func(r *review.Record) string {
		var s []string
		for _, h := range r.Path {
			s = append(s, h.Session)
		}
		return strings.Join(s, " ")
	}},
	{"ask", func(r *review.Record) string { return r.Ask }},
	{"action_digest", func(r *review.Record) string {
		if r.ActionDigest == nil {
			return ""
		}
		return r.ActionDigest.String()
	}},
	{"verdict", func(r *review.Record) string {
		if r.Verdict == nil {
			return ""
		}
		return r.Verdict.String()
	}},
	{"outcome", func(r *review.Record) string { return string(r.Outcome) }},
	{"by", func(r *review.Record) string { return decider(r, func(d *ask.By) string { return string(d.Kind) }) }},
	{"by_name", func(r *review.Record) string {
		return decider(r, func(d *ask.By) string {
			if d.Rule != nil {
				return d.Rule.File + ":" + strconv.Itoa(d.Rule.Line)
			}
			return d.Surface + d.Grant
		})
	}},
	{"by_session", func(r *review.Record) string { return decider(r, func(d *ask.By) string { return d.Session }) }},
	{"reason", func(r *review.Record) string { return r.Reason }},
	{"client", func(r *review.Record) string { return action(r, func(a *review.Action) string { return a.Client }) }},
	{"tool", func(r *review.Record) string {
		return action(r, func(a *review.Action) string { return string(a.Tool) })
	}},
	{"cwd", func(r *review.Record) string { return action(r, func(a *review.Action) string { return a.Cwd }) }},
	{"call", func(r *review.Record) string {
		return action(r, func(a *review.Action) string {
			for _, s := range []string{a.Command, a.URL, a.Query} {
				if s != "" {
					return s
				}
			}
			if a.Server != "" {
				return a.Server + " " + a.Name
			}
			var s []string
			for _, p := range a.Paths {
				s = append(s, p.Given)
			}
			if len(s) == 0 {
				return a.Name + a.Agent
			}
			return strings.Join(s, " ")
		})
	}},
	{"fields", func(r *review.Record) string {
		if len(r.Fields) == 0 {
			return ""
		}
		b, err := json.Marshal(r.Fields)
		if err != nil {
			return ""
		}
		return string(b)
	}},
}

func decider(r *review.Record, f func(*ask.By) string) string {
	if r.By == nil {
		return ""
	}
	return f(r.By.Decider())
}

func action(r *review.Record, f func(*review.Action) string) string {
	if r.Action == nil {
		return ""
	}
	return f(r.Action)
}

type table struct {
	w      *csv.Writer
	row    []string
	headed bool
}

func newCSV(w *bufio.Writer) *table { return &table{w: csv.NewWriter(w)} }

func (t *table) put(r *review.Record) error {
	if err := t.head(); err != nil {
		return err
	}
	t.row = append(t.row[:0], r.Time, r.Writer, r.File, strconv.FormatInt(r.Offset, 10), strconv.FormatUint(r.Seq, 10))
	for _, c := range columns {
		switch {
		case r.Err == nil:
			t.row = append(t.row, c.of(r))
		case c.name == "event":
			t.row = append(t.row, "unreadable")
		case c.name == "reason":
			t.row = append(t.row, unreadable(r))
		default:
			t.row = append(t.row, "")
		}
	}
	for i := range t.row {
		t.row[i] = cell(t.row[i])
	}
	return t.w.Write(t.row)
}

func (t *table) head() error {
	if t.headed {
		return nil
	}
	t.headed = true
	row := []string{"time", "writer", "file", "offset", "seq"}
	for _, c := range columns {
		row = append(row, c.name)
	}
	return t.w.Write(row)
}

// end writes the header at least.
func (t *table) end() error {
	if err := t.head(); err != nil {
		return err
	}
	t.w.Flush()
	return t.w.Error()
}

// cell is a value that no spreadsheet takes for a formula and that stays on
// one line: what it begins with would be run where it is opened.
func cell(s string) string {
	s = ask.VisibleLine(s)
	if s != "" && strings.IndexByte("=+-@", s[0]) >= 0 {
		return "'" + s
	}
	return s
}
