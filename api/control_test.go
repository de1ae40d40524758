package api

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestChild(t *testing.T) {
	key := strings.Repeat("ab", KeyBytes)
	path := node(t, func(h Hello, f Frame, c *Conn) {
		var r Register
		must(t, f.Body(&r))
		if h.Role != RoleChild || f.T != TRegister || r.Node != "n2" || r.Sessions[0].Parent != "s-1" {
			t.Errorf("%+v", r)
		}
		must(t, c.Write(TRegistered, 0, Registered{Key: key, Node: "n1", Instance: "i1", Serving: []string{"s-1"},
			Verified: []Proof{{Session: "s-2", Parent: "s-1", How: "ticket"}}}))
		must(t, c.Write(TServing, 0, Serving{Sessions: []string{}}))
		must(t, c.Write(TWake, 0, nil))
		must(t, c.Write(TOnScreen, 0, OnScreen{Ask: "a-1"}))
		must(t, c.Write(TServing, 0, Serving{Sessions: []string{"../x"}}))
		must(t, c.Write(TAsk, 0, Shown{Ask: sampleAsk(t, "a-1")}))
		var got []string
		for range 4 {
			f, err := c.Read()
			must(t, err)
			got = append(got, f.T)
		}
		// What the reader says and what the test says are not ordered.
		for _, want := range []string{TError, TUnknown, TWake, TChildren} {
			if !strings.Contains(strings.Join(got, " "), want) {
				t.Errorf("no %s in %v", want, got)
			}
		}
	})
	c, err := DialChild(context.Background(), path, "test", Register{Node: "n2", Instance: "i2", PID: 42, Start: 7, Boot: "b",
		Sessions: []ChildSession{{Session: "s-2", Parent: "s-1", FoundBy: "flag"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if r := c.Registered(); r.Key != key || len(r.Verified) != 1 {
		t.Fatalf("%+v", r)
	}
	events, end := run(t, c.Run)
	next[*Serving](t, events)
	next[*Wake](t, events)
	if e := next[*OnScreen](t, events); e.Ask != "a-1" {
		t.Fatalf("%+v", e)
	}
	if n := next[*Notice](t, events); n.Kind != NoticeMalformed {
		t.Fatalf("%+v", n)
	}
	must(t, c.Wake())
	must(t, c.Children([]ChildSession{}))
	if err := end(); err != io.EOF {
		t.Fatalf("its end is death: %v", err)
	}
}

func TestChildRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		say  func(c *Conn)
		code string
	}{
		"busy":      {func(c *Conn) { c.Refuse(CodeBusy, "node n2 is registered by pid 7, which is alive") }, CodeBusy},
		"no key":    {func(c *Conn) { c.Write(TRegistered, 0, Registered{Node: "n1", Instance: "i1"}) }, ""},
		"short key": {func(c *Conn) { c.Write(TRegistered, 0, Registered{Key: "ab", Node: "n1", Instance: "i1"}) }, ""},
		"key, not hex": {func(c *Conn) {
			c.Write(TRegistered, 0, Registered{Key: strings.Repeat("zz", KeyBytes), Node: "n1", Instance: "i1"})
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			path := node(t, func(_ Hello, _ Frame, c *Conn) { tc.say(c) })
			_, err := DialChild(context.Background(), path, "", Register{Node: "n2", Instance: "i", PID: 1})
			if err == nil {
				t.Fatal("registered")
			}
			if tc.code != "" {
				wantRefused(t, err, tc.code)
			}
		})
	}
}

func TestControl(t *testing.T) {
	path := node(t, func(h Hello, f Frame, c *Conn) {
		for {
			var call Call
			must(t, f.Body(&call))
			switch call.Op {
			case OpStatus:
				must(t, c.Write(TNotice, 0, Notice{Text: "aside"}))
				must(t, c.Write(TResult, f.N+100, Status{Node: "another call's"}))
				must(t, c.Write(TResult, f.N, Status{Node: "n1", PID: 5}))
			case OpPause:
				var p PauseArgs
				must(t, call.Arguments(&p))
				must(t, c.Write(TResult, f.N, nil))
			case OpRevoke:
				must(t, c.Fail(f.N, CodeUnavailable, "no such grant"))
			case OpGrants:
				must(t, c.Write(TResult, f.N, map[string]int{"grants": 1}))
			case OpTicket:
				must(t, c.Unknown(f))
			case OpStop:
				c.Refuse(CodeDenied, "an agent may not do this")
				return
			}
			var err error
			if f, err = c.Read(); err != nil {
				return
			}
		}
	})
	ctx := context.Background()
	c, err := DialControl(ctx, path, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var st Status
	if err := c.Call(ctx, OpStatus, nil, &st); err != nil || st.PID != 5 || c.Welcome().Node != "n1" {
		t.Fatalf("%+v, %v", st, err)
	}
	if err := c.Call(ctx, OpPause, PauseArgs{ForMS: 1}, nil); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, c.Call(ctx, OpRevoke, RevokeArgs{ID: "g"}, nil), CodeUnavailable)
	var g Grants
	if err := c.Call(ctx, OpGrants, nil, &g); err == nil {
		t.Fatalf("%+v", g)
	}
	if err := c.Call(ctx, OpTicket, TicketArgs{}, nil); err == nil || !strings.Contains(err.Error(), "update") {
		t.Fatal(err)
	}
	if err := c.Call(ctx, OpLaunch, make(chan int), nil); err == nil {
		t.Fatal("a channel is no argument")
	}
	wantRefused(t, c.Call(ctx, OpStop, nil, nil), CodeDenied)
	if err := c.Call(ctx, OpStatus, nil, &st); err == nil {
		t.Fatal("called after the end")
	}
}

func TestControlCallGivenUp(t *testing.T) {
	path := node(t, func(_ Hello, _ Frame, c *Conn) { drain(c) })
	c, err := DialControl(context.Background(), path, "")
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	if err := c.Call(ctx, OpStatus, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
}
