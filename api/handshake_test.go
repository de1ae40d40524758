package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestAgree(t *testing.T) {
	for _, tc := range []struct {
		ours, theirs []int
		version      int
	}{
		{[]int{1}, []int{1}, 1},
		{[]int{2, 1}, []int{1}, 1},
		{[]int{1}, []int{3, 2, 1}, 1},
		{[]int{3, 2}, []int{2, 3, 9}, 3},
		{[]int{2, 3}, []int{3, 2, 2}, 3},
		{[]int{1}, []int{2}, 0},
		{[]int{1}, nil, 0},
		{nil, []int{1}, 0},
		{[]int{1}, []int{-1, 0}, 0},
		{[]int{0, -1}, []int{0, -1}, 0},
	} {
		v, ok := agree(tc.ours, tc.theirs)
		if v != tc.version || ok != (tc.version != 0) {
			t.Errorf("%v and %v agree on %d, %v", tc.ours, tc.theirs, v, ok)
		}
	}
}

func TestNoCommonVersionNamesBothSidesAndTheRemedy(t *testing.T) {
	for _, tc := range []struct {
		ours, theirs []int
		want         string
	}{
		{[]int{1}, []int{8, 7}, "this permd (A) speaks version 1 of the socket protocol, the caller (B) version 8, 7; update permd here and start it again"},
		{[]int{9}, []int{1}, "this permd (A) speaks version 9 of the socket protocol, the caller (B) version 1; update the caller and start it again"},
		{[]int{1}, nil, "this permd (A) speaks version 1 of the socket protocol, the caller (B) version none; update the older of the two and start it again"},
	} {
		if got := noCommonVersion(tc.ours, tc.theirs, "A", "B"); got != tc.want {
			t.Errorf("got  %s\nwant %s", got, tc.want)
		}
	}
	if got := noCommonVersion([]int{1}, []int{2}, "A", "\x1b[2J\n"+strings.Repeat("x", 1000)); strings.ContainsAny(got, "\x1b\n") || len(got) > 400 {
		t.Error(got)
	}
}

// accept runs the server's side on c and reports what it returned.
func accept(c *Conn) <-chan error {
	done := make(chan error, 1)
	go func() {
		_, err := c.Accept(func(Hello) (Welcome, *Refused) { return Welcome{Node: "n1", Instance: "i"}, nil })
		done <- err
	}()
	return done
}

func TestHandshake(t *testing.T) {
	a, b := pair(t)
	server := NewConn(b)
	got := make(chan Hello, 1)
	go func() {
		h, err := server.Accept(func(h Hello) (Welcome, *Refused) {
			return Welcome{Node: "n1", Instance: "i", Serving: []string{"s-1"}}, nil
		})
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	w, err := NewConn(a).Hello(Hello{Role: RoleProbe, Build: "test"})
	if err != nil || w.Version != Versions[0] || w.Node != "n1" || w.Build == "" || len(w.Serving) != 1 {
		t.Fatalf("%+v, %v", w, err)
	}
	if h := <-got; h.Role != RoleProbe || h.Build != "test" {
		t.Fatalf("%+v", h)
	}
}

// hellos are what callers of other builds, other versions and no build at all
// say first.
func TestHellos(t *testing.T) {
	for _, tc := range []struct {
		name, hello string
		code        string // "" is welcome
	}{
		{"ours", `{"versions":[1],"role":"probe","build":"x"}`, ""},
		{"newer, speaks ours too", `{"versions":[99,1],"role":"probe","build":"x"}`, ""},
		{"newer, says more", `{"versions":[2,1],"role":"probe","build":"x","features":{"a":[1,2,{}]},"v":null}`, ""},
		{"another order", `{"build":"x","role":"probe","versions":[1]}`, ""},
		{"newer, another protocol", `{"versions":[99,98],"role":"probe","build":"x","features":[]}`, CodeVersion},
		{"no versions", `{"versions":[],"role":"probe","build":"x"}`, CodeVersion},
		{"versions null", `{"versions":null,"role":"probe","build":"x"}`, CodeVersion},
		{"versions missing", `{"role":"probe","build":"x"}`, CodeBad},
		{"version as text", `{"versions":["1"],"role":"probe","build":"x"}`, CodeBad},
		{"version too large", `{"versions":[1e99],"role":"probe","build":"x"}`, CodeBad},
		{"too many versions", `{"versions":[1` + strings.Repeat(",2", maxVersions) + `],"role":"probe","build":"x"}`, CodeBad},
		{"role missing", `{"versions":[1],"build":"x"}`, CodeBad},
		{"role unknown", `{"versions":[1],"role":"admin","build":"x"}`, CodeBad},
		{"role in capitals", `{"versions":[1],"role":"Probe","build":"x"}`, CodeBad},
		{"key in capitals", `{"versions":[1],"Role":"probe","build":"x"}`, CodeBad},
		{"role twice", `{"versions":[1],"role":"probe","role":"control","build":"x"}`, CodeBad},
		{"role twice by escape", `{"versions":[1],"role":"probe","r\u006fle":"control","build":"x"}`, CodeBad},
		{"a list", `[1]`, CodeBad},
		{"null", `null`, CodeBad},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := pair(t)
			done := accept(NewConn(b))
			caller := NewConn(a)
			if err := caller.Send(Frame{T: THello, B: json.RawMessage(tc.hello)}); err != nil {
				t.Fatal(err)
			}
			f, err := caller.Read()
			if err != nil {
				t.Fatal(err)
			}
			serverErr := <-done
			if tc.code == "" {
				if f.T != TWelcome || serverErr != nil {
					t.Fatalf("%v, %v", f, serverErr)
				}
				return
			}
			wantRefused(t, serverErr, tc.code)
			if f.T != TRefused {
				t.Fatalf("%v", f)
			}
			wantRefused(t, f.refused(), tc.code)
		})
	}
}

func TestFirstFrames(t *testing.T) {
	for name, first := range map[string]string{
		"not hello":      string(frameBytes(`{"t":"attach","b":{"surface":"x","faces":1}}`)),
		"hello, no body": string(frameBytes(`{"t":"hello"}`)),
		"not a frame":    string(frameBytes(`{"t":"hello"`)),
		"too large":      "\x00\xff\xff\xff",
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			done := accept(NewConn(b))
			if _, err := a.Write([]byte(first)); err != nil {
				t.Fatal(err)
			}
			f, err := NewConn(a).Read()
			if err != nil || f.T != TRefused {
				t.Fatalf("%v, %v", f, err)
			}
			wantRefused(t, f.refused(), CodeBad)
			wantRefused(t, <-done, CodeBad)
		})
	}
	t.Run("nothing", func(t *testing.T) {
		a, b := pair(t)
		done := accept(NewConn(b))
		a.Close()
		if err := <-done; !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	})
}

// A hello that is cut or delayed at any byte holds the server up for no longer
// than its patience.
func TestHelloCutAtEveryByte(t *testing.T) {
	whole := frameBytes(`{"t":"hello","b":{"versions":[1],"role":"probe","build":"x"}}`)
	for i := range len(whole) {
		a, b := pair(t)
		done := accept(NewConn(b))
		if _, err := a.Write(whole[:i]); err != nil {
			t.Fatal(err)
		}
		a.CloseWrite()
		if err := <-done; err == nil {
			t.Fatalf("cut after %d bytes is welcome", i)
		}
	}
	for _, i := range []int{0, 1, 4, 5, len(whole) - 1} {
		a, b := pair(t)
		server := NewConn(b)
		server.timeout = 20 * time.Millisecond
		done := accept(server)
		if _, err := a.Write(whole[:i]); err != nil {
			t.Fatal(err)
		}
		if err := <-done; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("held up after %d bytes: %v", i, err)
		}
	}
}

// The deadline of the handshake does not outlive it.
func TestHeldConnectionHasNoDeadline(t *testing.T) {
	a, b := pair(t)
	server, caller := NewConn(b), NewConn(a)
	server.timeout, caller.timeout = 200*time.Millisecond, 200*time.Millisecond
	done := accept(server)
	if _, err := caller.Hello(Hello{Role: RoleControl}); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := server.Read()
		read <- err
	}()
	select {
	case err := <-read:
		t.Fatalf("ended by itself: %v", err)
	case <-time.After(3 * server.timeout):
	}
	if err := caller.Write(TWake, 0, nil); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
}

func TestDialErrors(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	if _, err := Probe(ctx, filepath.Join(dir, "none"), ""); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no socket: %v", err)
	}
	dead := filepath.Join(dir, "dead")
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	ln.Close()
	if _, err := Probe(ctx, dead, ""); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("nobody behind it: %v", err)
	}
	if _, err := Probe(ctx, "/"+strings.Repeat("d", MaxSocketPath), ""); err == nil || !strings.Contains(err.Error(), "--root") {
		t.Errorf("too long: %v", err)
	}
	// Somebody who takes connections and never answers.
	mute := filepath.Join(dir, "mute")
	if ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: mute}); err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	brief, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := Probe(brief, mute, ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no answer: %v", err)
	}
	why := errors.New("not needed any more")
	gone, stop := context.WithCancelCause(ctx)
	stop(why)
	if _, err := Probe(gone, mute, ""); err == nil {
		t.Error("dialled although the context had ended")
	}
	c, err := net.Dial("unix", mute)
	if err != nil {
		t.Fatal(err)
	}
	conn := NewConn(c)
	defer conn.Close()
	conn.timeout = 20 * time.Millisecond
	if _, err := conn.Hello(Hello{Role: RoleProbe}); !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "no answer within") {
		t.Errorf("no answer: %v", err)
	}
}

// What a server may answer to a hello, good and bad.
func TestAnswersToHello(t *testing.T) {
	for name, tc := range map[string]struct {
		answer  string
		code    string // of a refusal
		welcome bool
	}{
		"welcome":                       {answer: `{"t":"welcome","b":{"version":1,"node":"n","instance":"i","build":"b"}}`, welcome: true},
		"refused":                       {answer: `{"t":"refused","b":{"code":"peer","text":"no"}}`, code: CodePeer},
		"refused by a newer one":        {answer: `{"t":"refused","b":{"code":"version","text":"no","url":"x","n":[1]}}`, code: CodeVersion},
		"refused without words":         {answer: `{"t":"refused","b":{"code":"peer"}}`, code: CodePeer},
		"error":                         {answer: `{"t":"error","b":{"code":"bad","text":"no"}}`, code: CodeBad},
		"a version not offered":         {answer: `{"t":"welcome","b":{"version":2,"node":"n","instance":"i","build":"b"}}`},
		"no version":                    {answer: `{"t":"welcome","b":{"version":0,"node":"n","instance":"i","build":"b"}}`},
		"a welcome of another form":     {answer: `{"t":"welcome","b":{"version":1,"node":"n","instance":"i","build":"b","x":1}}`},
		"another frame":                 {answer: `{"t":"snapshot","b":{}}`},
		"unknown":                       {answer: `{"t":"unknown"}`},
		"refused with a body of no use": {answer: `{"t":"refused","b":["\u001b[2J"]}`, code: ""},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			go func() {
				NewConn(b).Read()
				b.Write(frameBytes(tc.answer))
			}()
			w, err := NewConn(a).Hello(Hello{Role: RoleProbe})
			if tc.welcome {
				if err != nil || w.Node != "n" {
					t.Fatalf("%+v, %v", w, err)
				}
				return
			}
			if err == nil || w.Version != 0 {
				t.Fatalf("%+v, %v", w, err)
			}
			if tc.code != "" {
				wantRefused(t, err, tc.code)
			}
			if strings.ContainsRune(err.Error(), 0x1b) {
				t.Fatalf("%q", err)
			}
		})
	}
}

// A peer of the future says things nobody here knows, at any moment. None of
// it is fatal, and what we know still works.
func TestGrease(t *testing.T) {
	path := serve(t, func(_ context.Context, in *Incoming) {
		if _, err := welcomed(in); err != nil {
			return
		}
		for {
			f, err := in.Conn.Read()
			if err != nil {
				return
			}
			if f.T == TCall {
				err = in.Conn.Write(TResult, f.N, Status{Node: "n1"})
			} else {
				err = in.Conn.Unknown(f)
			}
			if err != nil {
				return
			}
		}
	})
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 20 {
		nc, err := net.Dial("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		c := NewConn(nc)
		sent := 0
		grease := func() {
			for range r.IntN(5) {
				f := Frame{T: fmt.Sprintf("grease-%x", r.Uint32()), N: r.Uint64N(9), B: json.RawMessage(fmt.Sprintf(`{"x%d":[%d]}`, r.IntN(9), r.IntN(9)))}
				if err := c.Send(f); err != nil {
					t.Fatal(err)
				}
				sent++
			}
		}
		next := func() Frame {
			for {
				f, err := c.Read()
				if err != nil {
					t.Fatal(err)
				}
				if f.T != TUnknown {
					return f
				}
				sent--
			}
		}
		grease()
		hello := `{"versions":[1,77],"role":"control","build":"x","later":{"n":1}}`
		if round%4 == 3 {
			hello = `{"versions":[77,78],"role":"control","build":"x","later":1}`
		}
		if err := c.Send(Frame{T: THello, B: json.RawMessage(hello)}); err != nil {
			t.Fatal(err)
		}
		f := next()
		if round%4 == 3 {
			if f.T != TRefused {
				t.Fatal(f)
			}
			c.Close()
			continue
		}
		if f.T != TWelcome {
			t.Fatal(f)
		}
		for n := range uint64(10) {
			grease()
			// A type that is known, but not in this direction.
			if err := c.Write(TSnapshot, 0, nil); err != nil {
				t.Fatal(err)
			}
			sent++
			if err := c.Write(TCall, n+1, Call{Op: OpStatus}); err != nil {
				t.Fatal(err)
			}
			if f := next(); f.T != TResult || f.N != n+1 {
				t.Fatal(f)
			}
		}
		if sent != 0 {
			t.Fatalf("%d frames were not answered", sent)
		}
		c.Close()
	}
}

// Whatever is said first, the handshake ends with a welcome or an error and
// never with a panic, and a welcome only for a version and role we know.
func FuzzHello(f *testing.F) {
	for _, s := range []string{`{"versions":[1],"role":"probe","build":"x"}`, `{"versions":[9,1],"role":"child","build":"","x":{}}`, `null`, `{"versions":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := readHello(Frame{T: THello, B: b})
		if err != nil {
			return
		}
		if len(h.Versions) > maxVersions || len(h.Build) > 1024 {
			t.Fatalf("%+v", h)
		}
		if v, ok := Agree(h.Versions); ok && v != Versions[0] {
			t.Fatalf("agreed on %d", v)
		}
	})
}
