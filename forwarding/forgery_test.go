package forwarding

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"permd/api"
	"permd/ask"
)

// T12: what a process of the same user can write has no effect. The person's
// answer to the victim is the only one that counts, the service stays up, and
// each attempt is reported.
func TestForgery(t *testing.T) {
	guess := []byte("a guess of 32 bytes, as good as any")
	zeros := make([]byte, 32)
	attacks := []struct {
		name string
		do   func(*siege)
	}{
		// A decision for the victim, in the child's mailbox.
		{"decision as plain JSON", func(s *siege) {
			s.plant("a", s.victimAllowName(50), []byte(`{"ask":"victim","verdict":"allow","outcome":"answered"}`))
		}},
		{"decision in another system's form", func(s *siege) {
			s.plant("a", s.victimAllowName(50), []byte(`{"approved":true,"state":"approved","responderSessionId":"b"}`))
		}},
		{"decision without a key", func(s *siege) { s.sealAndPlant("a", s.victimAllow(50), nil) }},
		{"decision under the empty key", func(s *siege) { s.sealAndPlant("a", s.victimAllow(50), []byte{}) }},
		{"decision under a key of zeros", func(s *siege) { s.sealAndPlant("a", s.victimAllow(50), zeros) }},
		{"decision under a guessed key", func(s *siege) { s.sealAndPlant("a", s.victimAllow(50), guess) }},
		{"decision under the unauthenticated key", func(s *siege) { s.sealAndPlant("a", s.victimAllow(50), sharedKey) }},
		{"decision under the attacker's own key", func(s *siege) { s.sealAndPlant("a", s.victimAllow(50), s.m.key) }},
		{"decision under the digest as key", func(s *siege) { l := s.victimAllow(50); s.sealAndPlant("a", l, l.Digest[:]) }},
		{"old allow again", func(s *siege) { p := s.seen(KindDecision, "old"); s.plant("a", p.name.String(), p.raw) }},
		{"old allow under a fresh name", func(s *siege) {
			p := s.seen(KindDecision, "old")
			p.name.Counter = 99
			s.plant("a", p.name.String(), p.raw)
		}},
		{"old allow under the victim's name", func(s *siege) {
			p := s.seen(KindDecision, "old")
			p.name.ID, p.name.Counter = "victim", 99
			s.plant("a", p.name.String(), p.raw)
		}},
		{"old allow with the victim's id", func(s *siege) { s.changed("a", s.seen(KindDecision, "old"), " old ", " victim ") }},
		{"old allow with another counter", func(s *siege) { s.changed("a", s.seen(KindDecision, "old"), " 1 ", " 77 ") }},
		{"old allow with the victim's digest", func(s *siege) {
			s.changed("a", s.seen(KindDecision, "old"), s.ask("old").Digest.String(), s.ask("victim").Digest.String())
		}},
		{"old allow with the victim's body", func(s *siege) {
			l, err := read(s.seen(KindDecision, "old").raw)
			if err != nil {
				s.t.Fatal(err)
			}
			s.changed("a", s.seen(KindDecision, "old"), string(l.Body), strings.Replace(string(l.Body), "old", "victim", 1))
		}},
		{"decision from an unknown node", func(s *siege) { l := s.victimAllow(50); l.From.Node = "x"; s.sealAndPlant("a", l, guess) }},
		{"decision from the attacker's node", func(s *siege) {
			l := s.victimAllow(50)
			l.From = Address{"m", "m-1", "m"}
			s.sealAndPlant("a", l, s.m.key)
		}},
		{"decision from another life of the parent", func(s *siege) { l := s.victimAllow(50); l.From.Instance = "b-0"; s.sealAndPlant("a", l, guess) }},
		{"decision for another life of the child", func(s *siege) { l := s.victimAllow(50); l.To.Instance = "a-0"; s.sealAndPlant("a", l, guess) }},
		{"the child's own ask reflected as a decision", func(s *siege) {
			p := s.seen(KindAsk, "victim")
			raw := bytes.Replace(p.raw, []byte("\nask "), []byte("\ndecision "), 1)
			p.name.Kind = KindDecision
			s.plant("a", p.name.String(), raw)
		}},
		{"the child's own ask reflected", func(s *siege) { p := s.seen(KindAsk, "victim"); s.plant("a", p.name.String(), p.raw) }},
		{"an ask to the child, who has no children", func(s *siege) {
			l := s.victimAllow(50)
			l.Kind = KindAsk
			s.sealAndPlant("a", l, guess)
		}},
		{"decision of version 2", func(s *siege) { s.changed("a", s.seen(KindDecision, "old"), "permd-mail 1", "permd-mail 2") }},
		{"decision with an upper-case MAC", func(s *siege) {
			p := s.seen(KindDecision, "old")
			copy(p.raw[len(mailPrefix):], bytes.ToUpper(p.raw[len(mailPrefix):firstLine-1]))
			s.plant("a", p.name.String(), p.raw)
		}},
		{"half a decision that stays half", func(s *siege) { p := s.seen(KindDecision, "old"); s.plant("a", p.name.String(), p.raw[:100]) }},
		{"decision and a letter more", func(s *siege) {
			p := s.seen(KindDecision, "old")
			s.plant("a", p.name.String(), append(p.raw, p.raw...))
		}},
		{"link to a decision", func(s *siege) {
			p := s.seen(KindDecision, "old")
			out := filepath.Join(s.t.TempDir(), "x")
			s.must(os.WriteFile(out, p.raw, 0o600), os.Symlink(out, s.file("a", p.name.String())))
		}},
		{"link to a decision beside it", func(s *siege) {
			p := s.seen(KindDecision, "old")
			s.must(os.WriteFile(s.file("a", "beside"), p.raw, 0o600), os.Symlink("beside", s.file("a", p.name.String())))
		}},
		{"hard link to a decision", func(s *siege) {
			p := s.seen(KindDecision, "old")
			s.must(os.WriteFile(s.file("a", "beside"), p.raw, 0o600), os.Link(s.file("a", "beside"), s.file("a", p.name.String())))
		}},
		{"decision that others may write", func(s *siege) {
			p := s.seen(KindDecision, "old")
			f := s.file("a", "beside")
			s.must(os.WriteFile(f, p.raw, 0o600), os.Chmod(f, 0o666), os.Rename(f, s.file("a", p.name.String())))
		}},
		{"pipe in a decision's place", func(s *siege) { s.must(syscall.Mkfifo(s.file("a", s.victimAllowName(50)), 0o600)) }},
		{"directory in a decision's place", func(s *siege) { s.must(os.Mkdir(s.file("a", s.victimAllowName(50)), 0o700)) }},
		{"10 GB in a decision's place", func(s *siege) {
			f := s.file("a", "beside")
			s.must(os.WriteFile(f, nil, 0o600), os.Truncate(f, 10<<30), os.Rename(f, s.file("a", s.victimAllowName(50))))
		}},
		{"4 MB of JSON that nests", func(s *siege) {
			s.plant("a", s.victimAllowName(50), bytes.Repeat([]byte("["), 4<<20))
		}},
		{"directory in the next decision's place", func(s *siege) {
			for c := uint64(2); c < 6; c++ {
				s.must(os.Mkdir(s.file("a", s.victimAllowName(c)), 0o700))
			}
		}},
		{"names with separators and dots", func(s *siege) {
			for _, n := range []string{"b~b-1~0000000000000032~decision~..", "b~b-1~0000000000000032~decision~.victim", "..~b-1~0000000000000032~decision~victim",
				"b~b-1~0000000000000032~decision~victim~", "b~b-1~32~decision~victim", "b~b-1~0000000000000032~DECISION~victim", "b\n~b-1~0000000000000032~decision~victim"} {
				s.plant("a", n, []byte("x"))
			}
		}},

		// Letters to the parent.
		{"ask as plain JSON", func(s *siege) {
			s.plant("b", s.evilName(KindAsk, 90), []byte(`{"id":"evil","requesterSessionId":"a"}`))
		}},
		{"ask without a key", func(s *siege) { s.sealAndPlant("b", s.evilAsk("evil", 90), nil) }},
		{"ask under a guessed key", func(s *siege) { s.sealAndPlant("b", s.evilAsk("evil", 90), guess) }},
		{"ask under the unauthenticated key", func(s *siege) { s.sealAndPlant("b", s.evilAsk("evil", 90), sharedKey) }},
		{"ask in another's name under the attacker's key", func(s *siege) { s.sealAndPlant("b", s.evilAsk("evil", 90), s.m.key) }},
		{"ask from an unknown node", func(s *siege) { l := s.evilAsk("evil", 90); l.From.Node = "x"; s.sealAndPlant("b", l, guess) }},
		{"old ask again", func(s *siege) { p := s.seen(KindAsk, "old"); s.plant("b", p.name.String(), p.raw) }},
		{"old ask under a fresh name", func(s *siege) { p := s.seen(KindAsk, "old"); p.name.Counter = 99; s.plant("b", p.name.String(), p.raw) }},
		{"old ask with another counter", func(s *siege) { s.changed("b", s.seen(KindAsk, "old"), " 1 ", " 77 ") }},
		{"waiting ask with another command", func(s *siege) { s.changed("b", s.seen(KindAsk, "victim"), "go test ./...", "rm -rf /home ") }},
		{"waiting ask with another command, shorter", func(s *siege) { s.changed("b", s.seen(KindAsk, "victim"), "go test ./...", "rm") }},
		{"waiting ask under another id", func(s *siege) { s.changed("b", s.seen(KindAsk, "victim"), " victim ", " evil ") }},
		{"waiting ask of another origin", func(s *siege) { s.changed("b", s.seen(KindAsk, "victim"), " a ", " root ") }},
		{"waiting ask to another session", func(s *siege) { s.changed("b", s.seen(KindAsk, "victim"), " b ", " b.sub ") }},
		{"waiting ask of another session", func(s *siege) { s.changed("b", s.seen(KindAsk, "victim"), "a-1 a ", "a-1 m ") }},
		{"waiting ask with a shorter path", func(s *siege) { s.changed("b", s.seen(KindAsk, "victim"), "\n- a a +\n", "\n-\n") }},
		{"old withdrawal again", func(s *siege) { p := s.seen(KindCancel, "waits-withdrawn"); s.plant("b", p.name.String(), p.raw) }},
		{"withdrawal of the victim, without a key", func(s *siege) { s.sealAndPlant("b", s.upward(KindCancel, 90, nil), nil) }},
		{"withdrawal of the victim, guessed key", func(s *siege) { s.sealAndPlant("b", s.upward(KindCancel, 90, []byte("x")), guess) }},
		{"withdrawal of the victim, made from an old one", func(s *siege) {
			s.changed("b", s.seen(KindCancel, "waits-withdrawn"), " waits-withdrawn ", " victim ")
		}},
		{"withdrawal of the victim by the attacker", func(s *siege) {
			s.mine(KindCancel, "victim", func(l *Letter) { l.Origin, l.Digest = "a", s.ask("victim").Digest })
			// It is about an ask of its own that never was: nothing to refuse,
			// nothing to end. A second one is as vain, and reported.
			s.mine(KindCancel, "victim", func(l *Letter) { l.From.Session = "a" })
			s.plant("b", s.evilName(KindCancel, 91), []byte("x"))
		}},
		{"receipt again", func(s *siege) { p := s.seen(KindDelivered, "old"); s.plant("b", p.name.String(), p.raw) }},
		{"receipt without a key", func(s *siege) {
			s.sealAndPlant("b", s.upward(KindDelivered, 90, []byte(`{"ask":"victim","how":"released"}`)), nil)
		}},
		{"receipt for another's decision", func(s *siege) {
			s.mine(KindDelivered, "old", func(l *Letter) {
				l.Origin, l.Digest, l.Body = "a", s.ask("old").Digest, []byte(`{"ask":"old","how":"refused"}`)
			})
		}},
		{"decision to the parent", func(s *siege) { s.sealAndPlant("b", s.upward(KindDecision, 90, []byte("x")), guess) }},
		{"the parent's own decision reflected", func(s *siege) { p := s.seen(KindDecision, "old"); s.plant("b", p.name.String(), p.raw) }},
		{"pipe in an ask's place", func(s *siege) { s.must(syscall.Mkfifo(s.file("b", s.evilName(KindAsk, 90)), 0o600)) }},
		{"link in an ask's place", func(s *siege) { s.must(os.Symlink("/etc/passwd", s.file("b", s.evilName(KindAsk, 90)))) }},
		{"directory in an ask's place", func(s *siege) { s.must(os.Mkdir(s.file("b", s.evilName(KindAsk, 90)), 0o700)) }},
		{"10 GB in an ask's place", func(s *siege) {
			f := s.file("b", "beside")
			s.must(os.WriteFile(f, nil, 0o600), os.Truncate(f, 10<<30), os.Rename(f, s.file("b", s.evilName(KindAsk, 90))))
		}},
		{"a mailbox full of junk", func(s *siege) {
			for i := range 3000 {
				s.must(os.WriteFile(s.file("b", fmt.Sprintf("junk-%d.json", i)), nil, 0o600))
			}
		}},
		{"a mailbox full of forged asks", func(s *siege) {
			for i := range uint64(500) {
				s.sealAndPlant("b", s.evilAsk("evil", 1000+i), guess)
			}
		}},
		{"a mailbox full of asks from nobody", func(s *siege) {
			for i := range uint64(500) {
				l := s.evilAsk("evil", 1000+i)
				l.From.Node = fmt.Sprintf("x%d", i)
				s.sealAndPlant("b", l, guess)
			}
		}},
		{"bad is a link elsewhere", func(s *siege) {
			bad, out := filepath.Join(s.dirs.Node("b").Mail(), badDir), s.t.TempDir()
			s.must(os.Remove(bad), os.Symlink(out, bad))
			s.plant("b", s.evilName(KindAsk, 90), []byte("x"))
			s.until("the letter is gone", func() bool { _, err := os.Lstat(s.file("b", s.evilName(KindAsk, 90))); return err != nil })
			if l, err := os.ReadDir(out); err != nil || len(l) != 0 {
				s.t.Fatalf("written outside: %v, %v", l, err)
			}
		}},

		// What the attacker's own registration gives it.
		{"ask of another's session", func(s *siege) { s.mine(KindAsk, "evil", func(l *Letter) { l.From.Session = "a" }) }},
		{"ask of a session it never named", func(s *siege) {
			s.mine(KindAsk, "evil", func(l *Letter) {
				a, _ := testAsk("m", "evil")
				l.From.Session, l.Body = "zz", s.body(a, ask.Hop{Session: "zz", Node: "m"})
			})
		}},
		{"its own ask under another name", func(s *siege) {
			s.m.n++
			a, _ := testAsk("m", "evil")
			l := Letter{Envelope: Envelope{Kind: KindAsk, ID: "evil", Origin: "m", Digest: a.Digest, Counter: s.m.n,
				From: Address{"m", "m-1", "m"}, To: Address{"b", "b-1", "b"}}, Body: s.body(a, ask.Hop{Session: "m", Node: "m"})}
			raw, err := l.Seal(s.m.key)
			s.must(err)
			n := l.Name()
			n.ID = "harmless"
			s.plant("b", n.String(), raw)
		}},
		{"ask in another's path", func(s *siege) {
			s.mine(KindAsk, "evil", func(l *Letter) {
				a, _ := testAsk("m", "evil")
				l.Body = s.body(a, ask.Hop{Session: "a", Node: "a"})
			})
		}},
		{"ask without a path", func(s *siege) {
			s.mine(KindAsk, "evil", func(l *Letter) { a, _ := testAsk("m", "evil"); l.Body = s.body(a) })
		}},
		{"ask that came through here before", func(s *siege) {
			s.mine(KindAsk, "evil", func(l *Letter) {
				a, _ := testAsk("m", "evil")
				l.Body = s.body(a, ask.Hop{Session: "x", Node: "b"}, ask.Hop{Session: "m", Node: "m"})
			})
		}},
		{"ask that travelled too far", func(s *siege) {
			s.mine(KindAsk, "evil", func(l *Letter) {
				a, _ := testAsk("m", "evil")
				var hops []ask.Hop
				for i := range ask.MaxHops + 1 {
					hops = append(hops, ask.Hop{Session: "m", Node: fmt.Sprintf("n%d", i)})
				}
				l.Body = s.body(a, append(hops, ask.Hop{Session: "m", Node: "m"})...)
			})
		}},
		{"ask whose digest is another's", func(s *siege) { s.mine(KindAsk, "evil", func(l *Letter) { l.Digest = s.ask("victim").Digest }) }},
		{"ask whose body has another id", func(s *siege) {
			s.mine(KindAsk, "evil", func(l *Letter) {
				a, _ := testAsk("m", "other")
				l.Body, l.Digest = s.body(a, ask.Hop{Session: "m", Node: "m"}), a.Digest
			})
		}},
		{"ask whose body is of another origin", func(s *siege) {
			s.mine(KindAsk, "evil", func(l *Letter) {
				a, _ := testAsk("a", "evil")
				l.Body, l.Digest = s.body(a, ask.Hop{Session: "m", Node: "m"}), a.Digest
			})
		}},
		{"ask whose path goes round", func(s *siege) {
			s.mine(KindAsk, "evil", func(l *Letter) {
				l.Body = bytes.Replace(l.Body, []byte("+\n"), []byte("+ m m +\n"), 1)
			})
		}},
		{"ask whose body holds a key twice", func(s *siege) {
			s.mine(KindAsk, "evil", func(l *Letter) { l.Body = bytes.Replace(l.Body, []byte(`"cwd"`), []byte(`"cwd":"/","cwd"`), 1) })
		}},
		{"decision for the victim, by the attacker's registration", func(s *siege) {
			l := s.victimAllow(1)
			l.From = Address{"m", "m-1", "b"}
			s.sealAndPlant("a", l, s.m.key)
		}},
		{"its own letter again", func(s *siege) {
			s.mine(KindCancel, "evil", func(*Letter) {})
			s.m.n--
			s.mine(KindCancel, "evil", func(*Letter) {})
			s.m.n--
			time.Sleep(5 * time.Millisecond)
			s.mine(KindCancel, "evil", func(*Letter) {})
		}},
		{"a second life of the child's node", func(s *siege) { s.registers("a", "a", "busy") }},
		{"a second holder of the child's session", func(s *siege) { s.registers("n", "a", "busy") }},
		{"a registration of the parent itself", func(s *siege) { s.registers("b", "n", "bad") }},
		{"a session whose parent is not here", func(s *siege) {
			c := s.dial(context.Background(), 33)
			defer c.Close()
			if _, err := handshake(c, api.Register{Node: "n", Instance: "n-1", PID: 33, Start: 1, Sessions: []api.ChildSession{{Session: "n", Parent: "elsewhere", FoundBy: "x"}}}); err != nil {
				s.t.Fatal(err)
			}
		}},
		{"a session that is the parent's own", func(s *siege) {
			c := s.dial(context.Background(), 33)
			defer c.Close()
			if _, err := handshake(c, api.Register{Node: "n", Instance: "n-1", PID: 33, Start: 1, Sessions: []api.ChildSession{{Session: "b.sub", Parent: "b", FoundBy: "x"}}}); err != nil {
				s.t.Fatal(err)
			}
		}},
		{"a forged ticket", func(s *siege) {
			c := s.dial(context.Background(), 33)
			defer c.Close()
			got, err := handshake(c, api.Register{Node: "n", Instance: "n-1", PID: 33, Start: 1, Ticket: "00112233", Sessions: []api.ChildSession{{Session: "n", Parent: "b", FoundBy: "x"}}})
			if err != nil || len(got.Verified) != 0 {
				s.t.Fatalf("%+v, %v", got, err)
			}
		}},
		{"taking over the child's session later", func(s *siege) {
			if err := s.m.conn.Write(api.TChildren, 0, api.Children{Sessions: []api.ChildSession{{Session: "a", Parent: "b", FoundBy: "x"}}}); err != nil {
				s.t.Fatal(err)
			}
		}},
	}
	if len(attacks) < 60 {
		t.Errorf("%d attacks", len(attacks))
	}
	for _, at := range attacks {
		t.Run(at.name, func(t *testing.T) {
			s := newSiege(t)
			s.mu.Lock()
			before := len(s.events)
			s.mu.Unlock()
			at.do(s)
			reported := func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				for _, e := range s.events[before:] {
					switch e.Kind {
					case EventRefusedMail, EventSetAside, EventUnknownName, EventRefusedChild, EventProof, EventDuplicate:
						return true
					}
				}
				return false
			}
			if at.name == "directory in the next decision's place" {
				// Nothing to see until the parent wants to write there.
				s.person <- ask.Deny
			} else {
				s.until("the attempt is reported", reported)
			}
			time.Sleep(5 * time.Millisecond)
			select {
			case r := <-s.victim:
				if at.name != "directory in the next decision's place" {
					t.Fatalf("the victim was answered: %+v", r)
				}
				s.victim <- r
			default:
			}
			if s.didEnd("victim") {
				t.Fatal("the victim was withdrawn")
			}
			s.smu.Lock()
			served := fmt.Sprint(s.served)
			s.smu.Unlock()
			if served != "[a/old a/waits-withdrawn a/victim]" {
				t.Fatalf("served: %s", served)
			}
			if r := s.got(); len(r) != 1 || r[0].How != "released" {
				t.Fatalf("receipts: %+v", r)
			}
			// Service goes on, and the person's answer is the one that counts.
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			if d, err := s.child.Authorize(ctx, s.ask("after")); err != nil || d.Verdict != ask.Allow {
				t.Fatalf("an ask after it: %+v, %v", d, err)
			}
			select {
			case s.person <- ask.Deny:
			default:
			}
			select {
			case r := <-s.victim:
				if r.err != nil || r.d.Verdict != ask.Deny || r.d.Outcome != ask.Answered {
					t.Fatalf("the victim: %+v", r)
				}
			case <-ctx.Done():
				t.Fatal("the victim was never answered")
			}
		})
	}
}
