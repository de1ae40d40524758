package claudecheck

import (
	"fmt"
	"slices"
	"strings"

	"permd/ask"
	"permd/review"
)

// records are the records with this name, "" for all.
func (g *governed) records(name review.Name) []review.Record {
	g.t.Helper()
	return g.permd.Records(review.Filter{Event: string(name)})
}

// waitRecord waits until n records of this name are there and gives them.
func (g *governed) waitRecord(name review.Name, n int) []review.Record {
	g.t.Helper()
	g.WaitFor(fmt.Sprintf("%d records of %s", n, name), limit, func() bool { return len(g.records(name)) >= n })
	got := g.records(name)
	if len(got) != n {
		g.t.Errorf("%d records of %s, want %d", len(got), name, n)
	}
	return got
}

// order checks that records of these names are there in this order.
func (g *governed) order(names ...review.Name) {
	g.t.Helper()
	var got []review.Name
	for _, r := range g.records("") {
		if slices.Contains(names, r.Event) {
			got = append(got, r.Event)
		}
	}
	if !slices.Equal(got, names) {
		g.t.Errorf("the record has %q, want %q", got, names)
	}
}

// quiet checks what must hold at every end: the record is whole, no wire was
// tripped, and a person is named only if one decided.
func (g *governed) quiet(person bool) {
	g.t.Helper()
	for _, name := range []review.Name{review.RanUngated, review.RanOther, review.HookRefused, review.ForwardingError} {
		for _, r := range g.records(name) {
			g.t.Errorf("unexpected: %s", r.Raw)
		}
	}
	if !person {
		for _, r := range g.records("") {
			if r.By != nil && r.By.Person() {
				g.t.Errorf("a person is said to have decided: %s", r.Raw)
			}
		}
		if strings.Contains(g.told(), "the user") {
			g.t.Errorf("the model was told of the user: %q", g.told())
		}
	}
	g.verify()
}

// verify checks the record with permd's own command, after the nodes ended.
func (g *governed) verify() {
	g.t.Helper()
	g.WaitFor("the nodes to end", limit, func() bool { return len(g.permd.Nodes()) == 0 })
	if code, out := g.command("review", "verify"); code != 0 {
		g.t.Errorf("permd review verify: %d: %s", code, out)
	}
}

// story checks all that the record says of one ask, see [governed.tale].
func (g *governed) story(a *ask.Ask, want []string) { g.t.Helper(); g.storyOf(a.Body.ID, want) }

func (g *governed) storyOf(id string, want []string) {
	g.t.Helper()
	if got := g.tale(id); !slices.Equal(got, want) {
		g.t.Errorf("the record of %s:\n%q, want\n%q", id, got, want)
	}
}

// tale is what the record says of one ask: each event with its effect or what
// was delivered, who decided, and whether that was only concluded.
func (g *governed) tale(id string) (out []string) {
	g.t.Helper()
	for _, r := range g.permd.Records(review.Filter{Ask: id}) {
		words := []string{string(r.Event)}
		for _, k := range []review.Key{review.KeyEffect, review.KeyDelivered} {
			if v := r.Field(k); v != "" {
				words = append(words, v)
			}
		}
		if r.By != nil {
			words = append(words, string(r.By.Decider().Kind))
			if r.By.Decider().Inferred {
				words = append(words, "inferred")
			}
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

// wentWell checks the end of a test that killed something: no wire was tripped,
// and the record was not tampered with.
func (g *governed) wentWell() {
	g.t.Helper()
	for _, name := range []review.Name{review.RanUngated, review.RanOther} {
		for _, x := range g.records(name) {
			g.t.Errorf("a call that was let go tripped the wire: %s", x.Raw)
		}
	}
	g.WaitFor("the nodes to end", limit, func() bool { return len(g.permd.Nodes()) == 0 })
	if code, out := g.command("review", "verify"); code == 1 {
		g.t.Errorf("permd review verify: %s", out)
	}
}
