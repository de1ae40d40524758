package desk_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"permd/api"
	"permd/ask"
	"permd/desk"
)

// form is a question with one item of every kind.
func form(t testing.TB, verbs ask.Verbs) api.Shown {
	t.Helper()
	a, err := ask.Seal(ask.Body{ID: "q", Origin: ask.OriginAsk, From: ask.Who{Session: "claude-1", Client: "claude"}, Title: "Some questions", Verbs: verbs,
		Items: []ask.Item{
			{ID: "lib", Prompt: "Which library?", Type: ask.ItemChoice, MaxPicks: 1, Required: true, Default: []byte(`"a"`),
				Options: []ask.Option{{ID: "a", Label: "Same", Recommended: true}, {ID: "b", Label: "Same"}}, Free: &ask.Free{Mode: ask.FreeBoth, Multiline: true, Prefill: "prefilled"}},
			{ID: "parts", Prompt: "Which parts?", Type: ask.ItemChoice, MaxPicks: 2,
				Options: []ask.Option{{ID: "x", Label: "X, Y"}, {ID: "y", Label: "Y"}, {ID: "z", Label: "Z"}}, Free: &ask.Free{Mode: ask.FreeInstead}},
			{ID: "name", Prompt: "Name", Type: ask.ItemText, Free: &ask.Free{MaxLen: 8}},
			{ID: "sure", Prompt: "Sure?", Type: ask.ItemBool},
			{ID: "count", Prompt: "Count", Type: ask.ItemInt, Min: "1", Max: "9"},
		}})
	if err != nil {
		t.Fatal(err)
	}
	return api.Shown{Ask: a}
}

var everyVerb = ask.Verbs{Skip: true, YouDecide: true, Decline: true, Dismiss: true, Stop: true, Reply: true}

func must(t testing.TB, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestDraftOfEverything(t *testing.T) {
	s := form(t, everyVerb)
	d := desk.NewDraft(s)
	must(t, d.Pick("lib", "a"), d.Pick("lib", "b"), d.Note("lib", "the newer one"),
		d.Toggle("parts", "z"), d.Toggle("parts", "x"), d.Toggle("parts", "y"), d.Toggle("parts", "y"),
		d.Text("name", "naïve"), d.Bool("sure", false), d.Number("count", " 3 "))
	a, err := d.Answer()
	must(t, err)
	no := false
	want := ask.Answer{Ask: "q", Digest: s.Ask.Digest, Outcome: ask.Answered, Items: []ask.ItemAnswer{
		{Item: "lib", Picks: []string{"b"}, Note: "the newer one"}, {Item: "parts", Picks: []string{"x", "z"}},
		{Item: "name", Text: "naïve"}, {Item: "sure", Bool: &no}, {Item: "count", Number: "3"}}}
	if !reflect.DeepEqual(a, want) {
		t.Errorf("answer %+v\nwant   %+v", a, want)
	}
}

// TestDraftChoosesNothing: neither a default, a prefill nor a recommendation
// is an answer, and an answer in which nothing is answered is a choice.
func TestDraftChoosesNothing(t *testing.T) {
	d := desk.NewDraft(form(t, everyVerb))
	if a, err := d.Answer(); !errors.Is(err, desk.ErrNothingAnswered) {
		t.Fatalf("%+v, %v", a, err)
	}
	must(t, d.Skip("parts"), d.YouDecide("name"))
	if a, err := d.Answer(); !errors.Is(err, desk.ErrNothingAnswered) {
		t.Fatalf("skips alone: %+v, %v", a, err)
	}
	if _, err := d.AnswerEmpty(); err == nil || !strings.Contains(err.Error(), "question 1") {
		t.Errorf("a required question was left open: %v", err)
	}
	must(t, d.YouDecide("lib"))
	a, err := d.AnswerEmpty()
	must(t, err)
	for i, want := range []ask.ItemState{ask.ItemYouDecide, ask.ItemSkipped, ask.ItemYouDecide, ask.ItemSkipped, ask.ItemSkipped} {
		if a.Items[i].State != want {
			t.Errorf("item %d is %q, want %q", i, a.Items[i].State, want)
		}
	}
}

// TestDraftKeepsText: what was typed is never dropped because an option was
// picked beside it (d-typed text in three reports of the field).
func TestDraftKeepsText(t *testing.T) {
	d := desk.NewDraft(form(t, everyVerb))
	must(t, d.Text("lib", "my own\nwords"), d.Pick("lib", "a"))
	if got := d.Item("lib"); got.Text != "my own\nwords" {
		t.Errorf("picking changed the text: %+v", got)
	}
	a, err := d.Answer()
	must(t, err)
	if n := a.Items[0]; n.Note != "my own\nwords" || n.Text != "" || !slices.Equal(n.Picks, []string{"a"}) {
		t.Errorf("it goes as %+v, want as the note beside the pick", n)
	}
	must(t, d.Note("lib", "and a note"))
	if _, err := d.Answer(); !errors.Is(err, desk.ErrTextStays) {
		t.Errorf("text with no room: %v", err)
	}
	must(t, d.Unpick("lib", "a"), d.Note("lib", ""))
	a, err = d.Answer()
	must(t, err)
	if n := a.Items[0]; n.Text != "my own\nwords" || len(n.Picks) != 0 {
		t.Errorf("instead of a pick it goes as %+v", n)
	}
	must(t, d.Text("parts", "W"), d.Pick("parts", "x"))
	if err := d.Problem("parts"); err != nil {
		t.Errorf("own text counts as one more pick where there is room: %v", err)
	}
	must(t, d.Pick("parts", "y"))
	if err := d.Problem("parts"); !errors.Is(err, desk.ErrTextStays) {
		t.Errorf("two picks and own text of two: %v", err)
	}
	must(t, d.Skip("parts"))
	d.Resume("parts")
	if got := d.Item("parts"); got.Text != "W" || len(got.Picks) != 2 {
		t.Errorf("skipping lost what was filled in: %+v", got)
	}
}

func TestDraftProblems(t *testing.T) {
	for _, c := range []struct {
		name, item, want string
		act              func(*desk.Draft) error
	}{
		{"too long", "name", "9 characters", func(d *desk.Draft) error { return d.Text("name", "123456789") }},
		{"two lines", "name", "one line", func(d *desk.Draft) error { return d.Text("name", "a\nb") }},
		{"too much", "count", "10 is more than 9", func(d *desk.Draft) error { return d.Number("count", "10") }},
		{"no number", "count", "number", func(d *desk.Draft) error { return d.Number("count", "three") }},
		{"three picks", "parts", "3 picks", func(d *desk.Draft) error {
			return errors.Join(d.Pick("parts", "x"), d.Pick("parts", "y"), d.Pick("parts", "z"))
		}},
		{"a remark alone", "lib", "0 picks", func(d *desk.Draft) error { return d.Note("lib", "x") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := desk.NewDraft(form(t, everyVerb))
			must(t, c.act(d))
			if err := d.Problem(c.item); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("problem %v, want %q", err, c.want)
			}
			if a, err := d.Answer(); err == nil {
				t.Errorf("it is sent: %+v", a)
			}
		})
	}
}

func TestDraftRefuses(t *testing.T) {
	d := desk.NewDraft(form(t, ask.Verbs{}))
	big := strings.Repeat("x", ask.MaxText+1)
	for name, err := range map[string]error{
		"an option nobody asked": d.Pick("lib", "c"), "a pick in a text": d.Pick("name", "a"), "another item": d.Skip("nobody"),
		"text in a yes or no": d.Text("sure", "x"), "a note at a text": d.Note("name", "x"), "a number in a text": d.Number("name", "1"),
		"a yes to a number": d.Bool("count", true), "skip": d.Skip("name"), "you decide": d.YouDecide("name"), "reply": d.Reply("x"),
		"more than fits": d.Text("name", big),
	} {
		if err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	for name, f := range map[string]func() (ask.Answer, error){
		"decline": func() (ask.Answer, error) { return d.Decline("no") }, "dismiss": d.Dismiss, "stop": func() (ask.Answer, error) { return d.Stop("") },
	} {
		if _, err := f(); err == nil {
			t.Errorf("%s is not legal here", name)
		}
	}
	if len(d.Typed()) != 0 {
		t.Errorf("kept %q of what was refused", d.Typed())
	}
}

func TestDraftReplies(t *testing.T) {
	d := desk.NewDraft(form(t, everyVerb))
	must(t, d.Reply("let me explain"), d.Number("count", "4"))
	a, err := d.Answer()
	must(t, err)
	if a.Reply != "let me explain" || a.Outcome != ask.Answered {
		t.Errorf("%+v", a)
	}
	for _, f := range []struct {
		want ask.Outcome
		f    func() (ask.Answer, error)
	}{{ask.Declined, func() (ask.Answer, error) { return d.Decline("because") }}, {ask.Dismissed, d.Dismiss},
		{ask.Stopped, func() (ask.Answer, error) { return d.Stop("") }}} {
		a, err := f.f()
		must(t, err)
		if a.Outcome != f.want || len(a.Items) != 0 || a.Reply != "" {
			t.Errorf("%s: %+v", f.want, a)
		}
	}
}

// TestLawOfDraft: whatever is done to a draft, what it builds is valid, nothing
// is in it that nobody chose, and no typed word is dropped without an error.
func TestLawOfDraft(t *testing.T) {
	built := 0
	rapid.Check(t, func(r *rapid.T) {
		verbs := ask.Verbs{Skip: rapid.Bool().Draw(r, "skip"), YouDecide: rapid.Bool().Draw(r, "decide"), Reply: rapid.Bool().Draw(r, "reply")}
		s := form(t, verbs)
		d := desk.NewDraft(s)
		picked := map[string]bool{}
		for range rapid.IntRange(0, 14).Draw(r, "acts") {
			item := rapid.SampledFrom([]string{"lib", "parts", "name", "sure", "count"}).Draw(r, "item")
			text := rapid.SampledFrom([]string{"", "one", "two words", "3", "new\nline"}).Draw(r, "text")
			option := rapid.SampledFrom([]string{"a", "b", "x", "y", "z"}).Draw(r, "option")
			switch rapid.IntRange(0, 8).Draw(r, "act") {
			case 0:
				if d.Pick(item, option) == nil {
					picked[option] = true
				}
			case 1:
				_ = d.Unpick(item, option)
			case 2:
				_ = d.Text(item, text)
			case 3:
				_ = d.Note(item, text)
			case 4:
				_ = d.Number(item, text)
			case 5:
				_ = d.Bool(item, true)
			case 6:
				_ = d.Skip(item)
			case 7:
				_ = d.YouDecide(item)
			case 8:
				_ = d.Reply(text)
			}
		}
		a, err := d.Answer()
		if err != nil {
			return
		}
		built++
		if err := s.Ask.Validate(&a, nil); err != nil {
			r.Fatalf("%+v: %v", a, err)
		}
		if n, _ := d.Answered(); n == 0 && a.Reply == "" {
			r.Fatalf("an answer in which nothing is answered: %+v", a)
		}
		all := a.Reply
		for _, n := range a.Items {
			all += "\x00" + n.Text + "\x00" + n.Note + "\x00" + n.Number
			for _, p := range n.Picks {
				if !picked[p] {
					r.Fatalf("%s was never picked: %+v", p, a)
				}
			}
			if d.Item(n.Item).State == ask.ItemAnswered && n.State == ask.ItemAnswered {
				for _, typed := range []string{d.Item(n.Item).Text, d.Item(n.Item).Note, d.Item(n.Item).Number} {
					if typed != "" && !strings.Contains(all, typed) {
						r.Fatalf("%q is lost in %+v", typed, n)
					}
				}
			}
		}
	})
	if built == 0 {
		t.Error("no draft ever becomes an answer")
	}
}
