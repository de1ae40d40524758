package desk

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"permd/api"
	"permd/ask"
	"permd/desk/desktest"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// shown is an ask as a node shows it; text tells two bodies of one id apart.
func shown(t testing.TB, id, text string, age time.Duration) api.Shown {
	t.Helper()
	a, err := ask.Seal(desktest.Gate(id, "claude-1", text))
	if err != nil {
		t.Fatal(err)
	}
	return api.Shown{Ask: a, AgeMS: age.Milliseconds()}
}

// words is what was said, one word a frame.
func words(told []said) []string {
	out := []string{}
	for _, s := range told {
		switch b := s.body.(type) {
		case api.Shown:
			out = append(out, "ask "+b.Ask.Body.ID+" "+b.Ask.Body.Action.Command+" @"+b.Node)
		case api.Settled:
			out = append(out, "settled "+b.Ask+" "+b.How)
		case api.Delivered:
			out = append(out, "delivered "+b.Ask)
		}
	}
	return out
}

func (b *board) ids() []string {
	out := []string{}
	for _, c := range b.list {
		out = append(out, c.id)
	}
	return out
}

func TestBoardCells(t *testing.T) {
	cancelled := func(id string) api.Settled { return api.Settled{Ask: id, How: api.SettledCancel} }
	me := &face{name: "terminal pts/1"}
	for _, c := range []struct {
		name  string
		first func(b *board)
		do    func(b *board) []said
		told  []string
		left  []string
	}{
		{"arrives", nil,
			func(b *board) []said { return b.arrive("n1", shown(t, "a", "x", 0), start) },
			[]string{"ask a x @n1"}, []string{"a"}},
		{"an older one goes before", func(b *board) { b.arrive("n1", shown(t, "a", "x", time.Second), start) },
			func(b *board) []said { return b.arrive("n2", shown(t, "b", "y", time.Minute), start) },
			[]string{"ask b y @n2"}, []string{"b", "a"}},
		{"an equally old one goes behind", func(b *board) { b.arrive("n1", shown(t, "a", "x", time.Second), start) },
			func(b *board) []said { return b.arrive("n2", shown(t, "b", "y", time.Second), start) },
			[]string{"ask b y @n2"}, []string{"a", "b"}},
		{"the same text at another node is taken over, in its place", func(b *board) {
			b.arrive("n1", shown(t, "a", "x", time.Minute), start)
			b.arrive("n1", shown(t, "b", "y", time.Second), start)
		},
			func(b *board) []said { return b.arrive("n2", shown(t, "a", "x", 0), start) },
			[]string{"ask a x @n2"}, []string{"a", "b"}},
		{"another text under the id waits behind", func(b *board) { b.arrive("n1", shown(t, "a", "x", 0), start) },
			func(b *board) []said { return b.arrive("n2", shown(t, "a", "rm -rf", 0), start) },
			nil, []string{"a"}},
		{"another text from the same node ends the first", func(b *board) { b.arrive("n1", shown(t, "a", "x", 0), start) },
			func(b *board) []said { return b.arrive("n1", shown(t, "a", "rm -rf", 0), start) },
			[]string{"settled a cancelled", "ask a rm -rf @n1"}, []string{"a"}},
		{"settled by the node that shows it", func(b *board) { b.arrive("n1", shown(t, "a", "x", 0), start) },
			func(b *board) []said { return b.settled("n1", cancelled("a"), start) },
			[]string{"settled a cancelled"}, []string{}},
		{"settled by a node that has nothing to do with it", func(b *board) { b.arrive("n1", shown(t, "a", "x", 0), start) },
			func(b *board) []said { return b.settled("n2", cancelled("a"), start) },
			nil, []string{"a"}},
		{"settled and unknown", nil,
			func(b *board) []said { return b.settled("n1", cancelled("a"), start) },
			nil, []string{}},
		{"settled by a node behind", func(b *board) {
			b.arrive("n1", shown(t, "a", "x", 0), start)
			b.arrive("n2", shown(t, "a", "x", 0), start)
		},
			func(b *board) []said { return b.settled("n1", cancelled("a"), start) },
			nil, []string{"a"}},
		{"settled in front of another", func(b *board) {
			b.arrive("n1", shown(t, "a", "x", 0), start)
			b.arrive("n2", shown(t, "a", "rm -rf", 0), start)
		},
			func(b *board) []said { return b.settled("n1", cancelled("a"), start) },
			[]string{"settled a cancelled", "ask a rm -rf @n2"}, []string{"a"}},
		{"a node goes", func(b *board) {
			b.arrive("n1", shown(t, "a", "x", 0), start)
			b.arrive("n2", shown(t, "b", "y", 0), start)
			b.arrive("n1", shown(t, "c", "z", 0), start)
		},
			func(b *board) []said { return b.gone("n1", "its agent ended", ask.Withdrawn, start) },
			[]string{"settled a cancelled", "settled c cancelled"}, []string{"b"}},
		{"a node with nothing goes", func(b *board) { b.arrive("n1", shown(t, "a", "x", 0), start) },
			func(b *board) []said { return b.gone("n2", "", ask.Withdrawn, start) },
			nil, []string{"a"}},
		{"accepted", func(b *board) { b.arrive("n1", shown(t, "a", "x", 0), start) },
			func(b *board) []said {
				return b.accepted("n1", api.Settled{Ask: "a", How: api.SettledLocally}, me, start)
			},
			[]string{"settled a answered-locally"}, []string{}},
		{"accepted after its node went", func(b *board) {
			b.arrive("n1", shown(t, "a", "x", 0), start)
			b.gone("n1", "", ask.Withdrawn, start)
		},
			func(b *board) []said {
				return b.accepted("n1", api.Settled{Ask: "a", How: api.SettledLocally}, me, start)
			},
			nil, []string{}},
		{"delivered", func(b *board) {
			b.arrive("n1", shown(t, "a", "x", 0), start)
			b.settled("n1", cancelled("a"), start)
		},
			func(b *board) []said { return b.delivered("n1", api.Delivered{Ask: "a", How: "released"}) },
			[]string{"delivered a"}, []string{}},
		{"delivered by another node", func(b *board) { b.arrive("n1", shown(t, "a", "x", 0), start) },
			func(b *board) []said { return b.delivered("n2", api.Delivered{Ask: "a", How: "released"}) },
			nil, []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBoard()
			if c.first != nil {
				c.first(b)
			}
			told := c.do(b)
			if got := words(told); !slices.Equal(got, append([]string{}, c.told...)) {
				t.Errorf("told %q, want %q", got, c.told)
			}
			if got := b.ids(); !slices.Equal(got, c.left) {
				t.Errorf("left %q, want %q", got, c.left)
			}
		})
	}
}

func TestBoardWinnerIsNotTold(t *testing.T) {
	b, me := newBoard(), &face{}
	b.arrive("n1", shown(t, "a", "x", 0), start)
	for _, s := range b.accepted("n1", api.Settled{Ask: "a"}, me, start) {
		if s.but != me {
			t.Errorf("frame %s is for everybody", s.t)
		}
	}
}

func TestBoardAges(t *testing.T) {
	b := newBoard()
	s := shown(t, "a", "x", time.Second)
	a := *s.Ask
	a.Header.RemainingMS = ask.RemainingMS(10 * time.Second)
	s.Ask = &a
	b.arrive("n1", s, start)
	got := b.snapshot(start.Add(4 * time.Second))[0]
	if got.AgeMS != 5000 || *got.Ask.Header.RemainingMS != 6000 {
		t.Errorf("age %d, left %d, want 5000 and 6000", got.AgeMS, *got.Ask.Header.RemainingMS)
	}
	if got := b.snapshot(start.Add(time.Hour))[0]; *got.Ask.Header.RemainingMS != 0 {
		t.Errorf("left %d, want 0", *got.Ask.Header.RemainingMS)
	}
	if *s.Ask.Header.RemainingMS != 10000 {
		t.Error("the node's own ask was changed")
	}
}

func TestBoardRemembersEnough(t *testing.T) {
	b := newBoard()
	for i := range keep + 10 {
		id := fmt.Sprintf("a-%d", i)
		b.arrive("n1", shown(t, id, "x", 0), start)
		b.settled("n1", api.Settled{Ask: id}, start)
	}
	if len(b.past) != keep || len(b.ring) != keep {
		t.Errorf("%d and %d remembered, want %d", len(b.past), len(b.ring), keep)
	}
	if node, c := b.target(fmt.Sprintf("a-%d", keep+9)); node != "n1" || c != nil {
		t.Errorf("the last one is at %q", node)
	}
	if node, _ := b.target("a-0"); node != "" {
		t.Errorf("the first one is still at %q", node)
	}
}

// TestBoardLaw: whatever nodes say, a face that follows what it is told has
// exactly the board on its screen, and no ask on it changes its text without
// having been ended first.
func TestBoardLaw(t *testing.T) {
	var all []api.Shown
	for _, id := range []string{"a", "b", "c"} {
		for _, text := range []string{"x", "y"} {
			all = append(all, shown(t, id, text, 0))
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		b, now := newBoard(), start
		screen := map[string]api.Shown{}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "ms")) * time.Millisecond)
			node := rapid.SampledFrom([]string{"n1", "n2", "n3"}).Draw(t, "node")
			id := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "id")
			var told []said
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0, 1:
				s := rapid.SampledFrom(all).Draw(t, "ask")
				s.AgeMS = int64(rapid.IntRange(0, 5).Draw(t, "age"))
				told = b.arrive(node, s, now)
			case 2:
				told = b.settled(node, api.Settled{Ask: id, How: api.SettledCancel}, now)
			case 3:
				told = b.accepted(node, api.Settled{Ask: id, How: api.SettledLocally}, &face{}, now)
			case 4:
				told = b.gone(node, "", ask.Withdrawn, now)
			}
			for _, s := range told {
				switch x := s.body.(type) {
				case api.Settled:
					if _, ok := screen[x.Ask]; !ok {
						t.Fatalf("%s was ended and was not on the screen", x.Ask)
					}
					delete(screen, x.Ask)
				case api.Shown:
					id := x.Ask.Body.ID
					if old, ok := screen[id]; ok && old.Ask.Digest != x.Ask.Digest {
						t.Fatalf("%s changed its text on the screen", id)
					}
					screen[id] = x
				}
			}
			board := b.snapshot(now)
			if len(board) != len(screen) || len(b.byID) != len(board) {
				t.Fatalf("%d on the board, %d on the screen", len(board), len(screen))
			}
			for i, s := range board {
				on, ok := screen[s.Ask.Body.ID]
				if !ok || on.Ask.Digest != s.Ask.Digest || on.Node != s.Node {
					t.Fatalf("%s is on the board of %s and not so on the screen", s.Ask.Body.ID, s.Node)
				}
				if i > 0 && board[i-1].AgeMS < s.AgeMS {
					t.Fatalf("%s is older than what is before it", s.Ask.Body.ID)
				}
			}
		}
	})
}
