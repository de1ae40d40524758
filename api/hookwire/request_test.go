package hookwire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func write(t testing.TB, r *Request) []byte {
	t.Helper()
	b, err := r.AppendHead(nil)
	if err != nil {
		t.Fatal(err)
	}
	return append(b, r.Stdin...)
}

// wantRequests says what the good vectors mean.
var wantRequests = map[string]*Request{
	"smallest": {Client: "x", PID: 1, Stdin: []byte{}},
	"gate": {Client: "claude", Gate: true, PID: 0x1234, PPID: 0x1200, Args: []string{"--gate", "claude"},
		Env: []Var{{"CLAUDE_PID", "4608"}}, Cwd: "/home/me", Stdin: []byte("{}")},
	"newer-name": {Client: "pi", PID: 7, PPID: 1, Env: []Var{{"SOMETHING_NEW", "1"}}, Stdin: []byte{}},
	"binary":     {Client: "gemini-2", PID: 1<<31 - 1, Args: []string{"\xff\xfe"}, Stdin: []byte{0, 0xff, '\n', 0}},
	"empty-arg":  {Client: "codex", PID: 1, PPID: 1, Args: []string{"", ""}, Stdin: []byte{}},
}

func TestRequestVectors(t *testing.T) {
	vs := readVectors(t, "testdata/requests.txt")
	atLeastFourBad(t, vs)
	for _, v := range vs {
		t.Run(v.name, func(t *testing.T) {
			got, err := ReadRequest(bytes.NewReader(v.bytes))
			var version *VersionError
			switch v.verdict {
			case "good":
				if err != nil {
					t.Fatal(err)
				}
				if want := wantRequests[v.name]; !reflect.DeepEqual(got, want) {
					t.Errorf("got  %+v\nwant %+v", got, want)
				}
				if again := write(t, got); !bytes.Equal(again, v.bytes) {
					t.Errorf("written again:\n%q\nwas\n%q", again, v.bytes)
				}
				return
			case "bad":
				if !errors.Is(err, ErrMalformed) {
					t.Errorf("error %v, want malformed", err)
				}
			case "large":
				if !errors.Is(err, ErrTooLarge) {
					t.Errorf("error %v, want too large", err)
				}
			case "short":
				if err != io.EOF && err != io.ErrUnexpectedEOF {
					t.Errorf("error %v, want an end of input", err)
				}
			case "version":
				if !errors.As(err, &version) {
					t.Errorf("error %v, want a version error", err)
				}
			default:
				t.Fatalf("unknown verdict %q", v.verdict)
			}
			if got != nil {
				t.Errorf("got a request beside the error: %+v", got)
			}
		})
	}
}

func TestReadRequestTakesNothingMore(t *testing.T) {
	req := write(t, wantRequests["gate"])
	r := strings.NewReader(string(req) + "rest")
	if _, err := ReadRequest(iotest.OneByteReader(r)); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(r); string(rest) != "rest" {
		t.Errorf("left %q, want the bytes after the request", rest)
	}
}

// Every request cut anywhere, and with any one byte changed, is refused or is
// another whole request: never a panic, never the same one.
func TestRequestTampered(t *testing.T) {
	whole := write(t, wantRequests["gate"])
	for n := range whole {
		if got, err := ReadRequest(bytes.NewReader(whole[:n])); err == nil {
			t.Errorf("cut after %d bytes: read %+v", n, got)
		}
	}
	for n := range whole {
		for _, flip := range []byte{0x01, 0x20, 0x80, 0xff} {
			b := bytes.Clone(whole)
			b[n] ^= flip
			got, err := ReadRequest(bytes.NewReader(b))
			if err == nil && reflect.DeepEqual(got, wantRequests["gate"]) {
				t.Errorf("byte %d changed by %#x makes no difference", n, flip)
			}
		}
	}
}

func TestRequestLimits(t *testing.T) {
	base := func() *Request { return &Request{Client: "claude", PID: 2, PPID: 1} }
	vars := func(n int) []Var {
		var out []Var
		for i := range n {
			out = append(out, Var{"V" + string(rune('A'+i/26)) + string(rune('A'+i%26)), ""})
		}
		return out
	}
	for _, c := range []struct {
		name string
		set  func(r *Request)
		want error
	}{
		{"client of 32", func(r *Request) { r.Client = strings.Repeat("c", MaxClient) }, nil},
		{"client of 33", func(r *Request) { r.Client = strings.Repeat("c", MaxClient+1) }, ErrMalformed},
		{"64 arguments", func(r *Request) { r.Args = make([]string, MaxArgs) }, nil},
		{"65 arguments", func(r *Request) { r.Args = make([]string, MaxArgs+1) }, ErrTooLarge},
		{"longest argument", func(r *Request) { r.Args = []string{strings.Repeat("a", MaxText)} }, nil},
		{"longer argument", func(r *Request) { r.Args = []string{strings.Repeat("a", MaxText+1)} }, ErrTooLarge},
		{"64 variables", func(r *Request) { r.Env = vars(MaxVars) }, nil},
		{"65 variables", func(r *Request) { r.Env = vars(MaxVars + 1) }, ErrTooLarge},
		{"longest value", func(r *Request) { r.Env = []Var{{"A", strings.Repeat("a", MaxText)}} }, nil},
		{"longer value", func(r *Request) { r.Env = []Var{{"A", strings.Repeat("a", MaxText+1)}} }, ErrTooLarge},
		{"longest name", func(r *Request) { r.Env = []Var{{strings.Repeat("A", MaxName), ""}} }, nil},
		{"longer name", func(r *Request) { r.Env = []Var{{strings.Repeat("A", MaxName+1), ""}} }, ErrMalformed},
		{"longest directory", func(r *Request) { r.Cwd = strings.Repeat("/", MaxCwd) }, nil},
		{"longer directory", func(r *Request) { r.Cwd = strings.Repeat("/", MaxCwd+1) }, ErrTooLarge},
		{"largest input", func(r *Request) { r.Stdin = make([]byte, MaxStdin) }, nil},
		{"larger input", func(r *Request) { r.Stdin = make([]byte, MaxStdin+1) }, ErrTooLarge},
		{"head too large as a whole", func(r *Request) {
			r.Args = make([]string, 20)
			for i := range r.Args {
				r.Args[i] = strings.Repeat("a", MaxText)
			}
		}, ErrTooLarge},
		{"zero byte", func(r *Request) { r.Args = []string{"a\x00b"} }, ErrMalformed},
		{"no process", func(r *Request) { r.PID = 0 }, ErrMalformed},
		{"variables out of order", func(r *Request) { r.Env = []Var{{"B", ""}, {"A", ""}} }, ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := base()
			c.set(r)
			b, err := r.AppendHead([]byte("before"))
			if c.want != nil {
				if !errors.Is(err, c.want) {
					t.Errorf("error %v, want %v", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got, err := ReadRequest(bytes.NewReader(append(b, r.Stdin...)[len("before"):]))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(write(t, got), write(t, r)) {
				t.Error("reads as something else")
			}
		})
	}
}

// A peer that claims much and sends little must not cost what it claims.
func TestReadRequestAllocatesWhatComes(t *testing.T) {
	b := write(t, &Request{Client: "x", PID: 1, Stdin: make([]byte, MaxStdin)})
	b = b[:len(b)-MaxStdin+10]
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 10 {
		if _, err := ReadRequest(bytes.NewReader(b)); err != io.ErrUnexpectedEOF {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := (after.TotalAlloc - before.TotalAlloc) / 10; grown > 256<<10 {
		t.Errorf("%d bytes allocated for 10 that came", grown)
	}
}

func TestPick(t *testing.T) {
	env := []string{
		"HOME=/home/me", "ANTHROPIC_API_KEY=secret", "TMUX_PANE=%3", "CLAUDE_PID=12", "CLAUDE_PID=13",
		"CLAUDE_PIDS=14", "XCLAUDE_PID=15", "PERMD_SESSION=", "CLAUDE_CODE_MESSAGING_TOKEN=secret", "no equals sign", "",
	}
	got, err := Pick(env)
	if err != nil {
		t.Fatal(err)
	}
	want := []Var{{"CLAUDE_PID", "12"}, {"PERMD_SESSION", ""}, {"TMUX_PANE", "%3"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := Pick([]string{"TMUX=" + strings.Repeat("x", MaxText+1)}); err == nil || !strings.Contains(err.Error(), "TMUX") {
		t.Errorf("a value too long: %v, want an error that names the variable", err)
	}
}

func TestNamesFitARequest(t *testing.T) {
	var all []Var
	for _, n := range Names() {
		all = append(all, Var{n, ""})
		for _, word := range []string{"TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIAL"} {
			if strings.Contains(n, word) {
				t.Errorf("%s looks like a secret", n)
			}
		}
	}
	write(t, &Request{Client: "x", PID: 1, Env: all})
	Names()[0] = "changed"
	if Names()[0] == "changed" {
		t.Error("a caller can change the list")
	}
}

func FuzzRequest(f *testing.F) {
	for _, v := range readVectors(f, "testdata/requests.txt") {
		f.Add(v.bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		req, err := ReadRequest(r)
		if err != nil {
			return
		}
		if used := b[:len(b)-r.Len()]; !bytes.Equal(write(t, req), used) {
			t.Errorf("read %q\nwrote %q", used, write(t, req))
		}
	})
}
