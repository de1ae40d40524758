package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"permd/ask"
)

// vectorsDigest pins testdata/frames.json: what two builds of one protocol
// version say to each other. It changes only together with [Versions].
const vectorsDigest = "b20a3b9bd67b92418165fd2d96b5b52c489759401766d082756bcea2719140ca"

const vectorsFile = "testdata/frames.json"

// How the vectors were made; the test holds that they still come out the same.
//
//	go test ./api -run MakeVectors -make-vectors
var makeVectors = flag.Bool("make-vectors", false, "write testdata/frames.json and log its digest")

// vector is the payload of one frame (without its length) and what must be
// made of it.
type vector struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Error  string `json:"error,omitempty"`
	In     string `json:"in"`
	SHA256 string `json:"sha256"`
}

// newBody returns a place for the body of a frame of type t; nil when it has
// none.
func newBody(t string) any {
	switch t {
	case THello:
		return new(Hello)
	case TWelcome:
		return new(Welcome)
	case TRefused, TError:
		return new(Refused)
	case TAttach:
		return new(Attach)
	case TSnapshot:
		return new(Snapshot)
	case TAsk:
		return new(Shown)
	case TAnswer:
		return new(ask.Answer)
	case TVerdict:
		return new(AnswerVerdict)
	case TSettled:
		return new(Settled)
	case TDeliver:
		return new(Delivered)
	case TFaces:
		return new(Faces)
	case TOnScreen, THide:
		return new(OnScreen)
	case TSessions:
		return new(Sessions)
	case TNotice:
		return new(Notice)
	case TRegister:
		return new(Register)
	case TRegistered:
		return new(Registered)
	case TChildren:
		return new(Children)
	case TServing:
		return new(Serving)
	case TCall:
		return new(Call)
	}
	return nil
}

// readWhole reads a frame and its body, and returns what they are written as.
func readWhole(payload []byte) ([]byte, error) {
	f, err := readFrame(bytes.NewReader(frameBytes(string(payload))))
	if err != nil {
		return nil, err
	}
	if body := newBody(f.T); body != nil {
		if err := f.Body(body); err != nil {
			return nil, err
		}
		if f.B, err = ask.Encode(body); err != nil {
			return nil, err
		}
	}
	b, err := encodeFrame(f)
	if err != nil {
		return nil, err
	}
	return b[4:], nil
}

func errorName(err error) string {
	for _, e := range []struct {
		name string
		err  error
	}{{"too_large", ask.ErrTooLarge}, {"too_deep", ask.ErrTooDeep}, {"malformed", ask.ErrMalformed},
		{"not_canonical", ask.ErrNotCanonical}, {"invalid", ask.ErrInvalid}} {
		if errors.Is(err, e.err) {
			return e.name
		}
	}
	return fmt.Sprintf("untyped: %v", err)
}

func readVectors(t testing.TB) []vector {
	t.Helper()
	raw, err := os.ReadFile(vectorsFile)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(raw)); got != vectorsDigest {
		t.Fatalf("%s has digest %s, want %s", vectorsFile, got, vectorsDigest)
	}
	var file struct{ Vectors []vector }
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	return file.Vectors
}

func TestVectors(t *testing.T) {
	good, bad := 0, 0
	for _, v := range readVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			if fmt.Sprintf("%x", sha256.Sum256([]byte(v.In))) != v.SHA256 {
				t.Fatal("the bytes of the vector changed")
			}
			again, err := readWhole([]byte(v.In))
			if !v.OK {
				bad++
				if err == nil {
					t.Fatalf("accepted as %s", again)
				}
				if name := errorName(err); name != v.Error {
					t.Fatalf("refused as %s (%v), want %s", name, err, v.Error)
				}
				return
			}
			good++
			if err != nil {
				t.Fatal(err)
			}
			if string(again) != v.In {
				t.Fatalf("written again as %s", again)
			}
			for i := range v.In {
				if _, err := readWhole([]byte(v.In[:i])); err == nil {
					t.Fatalf("cut to %d bytes it is accepted", i)
				}
			}
		})
	}
	if good < 20 || bad < 4*good {
		t.Errorf("%d good and %d bad vectors", good, bad)
	}
}

// vectorSamples are one frame of every type that has a body.
func vectorSamples(t *testing.T) []Frame {
	a := sampleAsk(t, "a-1").WithHop(ask.Hop{Session: "s-1", Node: "n1"})
	offer := ask.Offer{ID: "o-1", Scope: ask.ScopeSession, Label: "make, in this session", Rule: ask.Rule{Action: ask.Allow, Tool: "bash", Command: "make"}}
	state := SessionState{ID: "s-1", Node: "n1", Client: "claude", PID: 7, Cwd: "/p", Authority: "local", Serving: true, Waiting: 1}
	child := ChildSession{Session: "s-2", Parent: "s-1", FoundBy: "flag"}
	proof := Proof{Session: "s-2", Parent: "s-1", How: "ticket"}
	key := strings.Repeat("0f", KeyBytes)
	var out []Frame
	for _, s := range []struct {
		t    string
		n    uint64
		body any
	}{
		{THello, 0, Hello{Versions: []int{1}, Role: RoleAnswerer, Build: "permd 1.0"}},
		{TWelcome, 0, Welcome{Version: 1, Node: "n1", Instance: "i1", Build: "permd 1.0", Serving: []string{"s-1"}}},
		{TRefused, 0, Refused{Code: CodeVersion, Text: "update <the older> & start again"}},
		{TAttach, 0, Attach{Surface: "terminal", Label: "pts/3", Faces: 1, Cap: ask.ScopeUser}},
		{TSnapshot, 0, Snapshot{Asks: []Shown{{Ask: a, AgeMS: 1}}, Sessions: Sessions{[]SessionState{state}}}},
		{TAsk, 0, Shown{Ask: a, Offers: []ask.Offer{offer}, AgeMS: 12, Denied: 2, Node: "n1", Elsewhere: []string{"the client's own dialog"}}},
		{TAnswer, 3, ask.DenyAnswer(a, "not now")},
		{TVerdict, 3, AnswerVerdict{Ask: "a-1", Verdict: VerdictTooLate, Text: "answered at the terminal", Winner: "terminal"}},
		{TSettled, 0, Settled{Ask: "a-1", How: SettledLocally, Surface: "terminal", Outcome: ask.Answered, Allowed: true}},
		{TDeliver, 0, Delivered{Ask: "a-1", How: "released"}},
		{TFaces, 0, Faces{Faces: 2}},
		{TOnScreen, 0, OnScreen{Ask: "a-1"}},
		{THide, 0, OnScreen{Ask: "a-1"}},
		{TSessions, 0, Sessions{[]SessionState{state}}},
		{TNotice, 0, Notice{Kind: "tripwire", Session: "s-1", Text: "a tool ran that was not released"}},
		{TRegister, 1, Register{Node: "n2", Instance: "i2", Sessions: []ChildSession{child}, PID: 9, Start: 5, Ticket: "00ff", Boot: "b"}},
		{TRegistered, 1, Registered{Key: key, BeatKey: key, Node: "n1", Instance: "i1", Verified: []Proof{proof}, Serving: []string{"s-1"}}},
		{TChildren, 0, Children{Sessions: []ChildSession{child}}},
		{TServing, 0, Serving{Sessions: []string{"s-1"}, Verified: []Proof{proof}}},
		{TCall, 1 << 63, Call{Op: OpPause, Args: json.RawMessage(`{"for_ms":1000}`)}},
		{TError, 4, Refused{Code: CodeDenied, Text: "an agent may not do this"}},
	} {
		raw, err := ask.Encode(s.body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Frame{T: s.t, N: s.n, B: raw})
	}
	return append(out, Frame{T: TWake}, Frame{T: TUnknown, N: 8})
}

// vectorTwists are ways to spoil any frame.
var vectorTwists = []struct {
	name string
	want error
	make func(string) string
}{
	{"body without form", ask.ErrNotCanonical, func(s string) string { return strings.Replace(s, `"b":{`, `"b":{ `, 1) }},
	{"unknown field in the body", ask.ErrNotCanonical, func(s string) string { return strings.Replace(s, `"b":{`, `"b":{"zz":0,`, 1) }},
	{"body as a list", ask.ErrMalformed, func(s string) string { return strings.Replace(s, `"b":{`, `"b":[{`, 1)[:len(s)] + "]}" }},
	{"unknown field beside", ask.ErrNotCanonical, func(s string) string { return `{"x":0,` + s[1:] }},
	{"type twice", ask.ErrNotCanonical, func(s string) string { return `{"t":"wake",` + s[1:] }},
	{"type in capitals", ask.ErrNotCanonical, func(s string) string { return strings.Replace(s, `{"t"`, `{"T"`, 1) }},
	{"trailing newline", ask.ErrNotCanonical, func(s string) string { return s + "\n" }},
	{"two frames in one", ask.ErrMalformed, func(s string) string { return s + s }},
	{"first body key twice", ask.ErrNotCanonical, func(s string) string {
		_, rest, ok := strings.Cut(s, `"b":{`)
		if !ok {
			return s
		}
		key, _, _ := strings.Cut(rest, ":")
		return strings.Replace(s, `"b":{`, `"b":{`+key+`:null,`, 1)
	}},
}

// vectorMeanings are frames in good form that say what must not be.
var vectorMeanings = []struct{ name, in string }{
	{"no type", `{"t":""}`},
	{"an attach without a name", `{"t":"attach","b":{"surface":"","faces":1}}`},
	{"an attach with a hidden name", `{"t":"attach","b":{"surface":"a` + "\u200b" + `","faces":1}}`},
	{"an attach on two lines", `{"t":"attach","b":{"surface":"a\nb","faces":1}}`},
	{"fewer than no faces", `{"t":"attach","b":{"surface":"a","faces":-1}}`},
	{"a cap of no scope", `{"t":"attach","b":{"surface":"a","faces":1,"cap":"world"}}`},
	{"faces below none", `{"t":"faces","b":{"faces":-2}}`},
	{"an ask of nothing", `{"t":"ask","b":{"ask":null,"age_ms":0}}`},
	{"a sighting of nothing", `{"t":"shown","b":{"ask":""}}`},
	{"an id that is a path", `{"t":"hide","b":{"ask":"../a"}}`},
	{"an end of nothing", `{"t":"settled","b":{"ask":"","how":"timeout","outcome":"timed_out"}}`},
	{"a receipt for nothing", `{"t":"delivered","b":{"ask":"","how":"released"}}`},
	{"an empty verdict", `{"t":"verdict","n":1,"b":{"ask":"a-1","verdict":""}}`},
	{"a session that is a path", `{"t":"sessions","b":{"sessions":[{"id":"..","node":"n","client":"c","pid":1,"authority":"local"}]}}`},
	{"a child of no node", `{"t":"register","b":{"node":"","instance":"i","sessions":null,"pid":1,"start":1,"boot":"b"}}`},
	{"a child of no process", `{"t":"register","b":{"node":"n","instance":"i","sessions":null,"pid":0,"start":1,"boot":"b"}}`},
	{"a child of itself", `{"t":"children","b":{"sessions":[{"session":"s","parent":"s","found_by":"flag"}]}}`},
	{"a ticket that is not hex", `{"t":"register","b":{"node":"n","instance":"i","sessions":null,"pid":1,"start":1,"ticket":"xy","boot":"b"}}`},
	{"a key too short", `{"t":"registered","b":{"key":"00","node":"n","instance":"i"}}`},
	{"no key", `{"t":"registered","b":{"key":"","node":"n","instance":"i"}}`},
	{"a beat key too short", `{"t":"registered","b":{"key":"` + strings.Repeat("0f", KeyBytes) + `","beat_key":"0f","node":"n","instance":"i"}}`},
	{"serving a path", `{"t":"serving","b":{"sessions":["a/b"]}}`},
	{"a call of nothing", `{"t":"call","n":1,"b":{"op":""}}`},
	{"a call with hidden letters", `{"t":"call","n":1,"b":{"op":"stop` + "\u202e" + `"}}`},
}

func TestMakeVectors(t *testing.T) {
	var out []vector
	add := func(name, in string, want error) {
		_, err := readWhole([]byte(in))
		if (want == nil) != (err == nil) || want != nil && !errors.Is(err, want) {
			t.Fatalf("%s: got %v, want %v\n%s", name, err, want, in)
		}
		v := vector{Name: name, OK: want == nil, In: in, SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(in)))}
		if want != nil {
			v.Error = errorName(want)
		}
		out = append(out, v)
	}
	for i, f := range vectorSamples(t) {
		raw, err := ask.Encode(f)
		if err != nil {
			t.Fatal(err)
		}
		add(f.T, string(raw), nil)
		made := 0
		for k := 0; k < len(vectorTwists) && made < 4; k++ {
			w := vectorTwists[(4*i+k)%len(vectorTwists)]
			if f.B == nil && strings.Contains(w.name, "body") {
				continue
			}
			add(f.T+", "+w.name, w.make(string(raw)), w.want)
			made++
		}
	}
	for _, m := range vectorMeanings {
		add(m.name, m.in, ask.ErrInvalid)
	}
	var file bytes.Buffer
	file.WriteString("{\"version\":1,\"vectors\":[\n")
	for i, v := range out {
		if i > 0 {
			file.WriteString(",\n")
		}
		raw, err := ask.Encode(v)
		if err != nil {
			t.Fatal(err)
		}
		file.Write(raw)
	}
	file.WriteString("\n]}\n")
	if *makeVectors {
		if err := os.WriteFile(vectorsFile, file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		t.Logf("vectorsDigest = %x", sha256.Sum256(file.Bytes()))
		return
	}
	if pinned, err := os.ReadFile(vectorsFile); err != nil || !bytes.Equal(pinned, file.Bytes()) {
		t.Errorf("the samples no longer give %s (%v)", vectorsFile, err)
	}
}

// Every body that parses is written again as the same bytes.
func FuzzBodies(f *testing.F) {
	for _, v := range readVectors(f) {
		f.Add([]byte(v.In))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 || len(b) > MaxFrame {
			return
		}
		again, err := readWhole(b)
		if err == nil && !bytes.Equal(again, b) {
			t.Fatalf("%q is written again as %q", b, again)
		}
	})
}
