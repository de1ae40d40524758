package hookwire

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

// wantFrames says what the good vectors mean.
var wantFrames = map[string]Frame{
	"waiting": {Kind: Waiting},
	"silent":  {Kind: Done, Result: Result{Stdout: []byte{}, Stderr: []byte{}}},
	"allow":   {Kind: Done, Result: Result{Stdout: []byte(`{"a":1}`), Stderr: []byte{}}},
	"blocked": {Kind: Done, Result: Result{Code: 2, Stdout: []byte{}, Stderr: []byte("no\n\n")}},
	"both":    {Kind: Done, Result: Result{Code: 255, Stdout: []byte{0xff, 0xfe}, Stderr: []byte{0, 0xfd}}},
	"refused": {Kind: Refused, Text: "restart the node"},
}

func TestFrameVectors(t *testing.T) {
	vs := readVectors(t, "testdata/frames.txt")
	atLeastFourBad(t, vs)
	for _, v := range vs {
		t.Run(v.name, func(t *testing.T) {
			f, n, err := NextFrame(v.bytes)
			switch v.verdict {
			case "good":
				if err != nil || n != len(v.bytes) {
					t.Fatalf("took %d of %d bytes, error %v", n, len(v.bytes), err)
				}
				if want := wantFrames[v.name]; !reflect.DeepEqual(f, want) {
					t.Errorf("got  %+v\nwant %+v", f, want)
				}
				again, err := AppendFrame(nil, f)
				if err != nil || !bytes.Equal(again, v.bytes) {
					t.Errorf("written again %q (%v), was %q", again, err, v.bytes)
				}
				return
			case "more":
				if err != nil {
					t.Errorf("error %v, want more", err)
				}
			case "bad":
				if !errors.Is(err, ErrMalformed) {
					t.Errorf("error %v, want malformed", err)
				}
			case "large":
				if !errors.Is(err, ErrTooLarge) {
					t.Errorf("error %v, want too large", err)
				}
			default:
				t.Fatalf("unknown verdict %q", v.verdict)
			}
			if n != 0 || f.Kind != 0 {
				t.Errorf("took %d bytes as %+v", n, f)
			}
		})
	}
}

// A stream is read the same however it is cut into pieces.
func TestNextFrameInPieces(t *testing.T) {
	var stream []byte
	var want []Frame
	for _, v := range readVectors(t, "testdata/frames.txt") {
		if v.verdict == "good" {
			stream = append(stream, v.bytes...)
			want = append(want, wantFrames[v.name])
		}
	}
	for piece := 1; piece <= len(stream); piece++ {
		var got []Frame
		var buf []byte
		for rest := stream; len(rest) > 0; {
			k := min(piece, len(rest))
			buf, rest = append(buf, rest[:k]...), rest[k:]
			for {
				f, n, err := NextFrame(buf)
				if err != nil {
					t.Fatalf("pieces of %d: %v", piece, err)
				}
				if n == 0 {
					break
				}
				got = append(got, f)
				buf = bytes.Clone(buf[n:])
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("pieces of %d: got %+v", piece, got)
		}
	}
}

func TestWriters(t *testing.T) {
	read := func(t *testing.T, b []byte) Frame {
		t.Helper()
		f, n, err := NextFrame(b)
		if err != nil || n != len(b) {
			t.Fatalf("%q: took %d, error %v", b, n, err)
		}
		return f
	}
	var w countingWriter
	if err := WriteWaiting(&w); err != nil || read(t, w.Bytes()).Kind != Waiting {
		t.Errorf("waiting: %v", err)
	}
	if w.writes != 1 {
		t.Errorf("a waiting frame took %d writes", w.writes)
	}

	w = countingWriter{}
	big := Result{Code: 2, Stdout: bytes.Repeat([]byte("o"), MaxStdout), Stderr: bytes.Repeat([]byte("e"), MaxStderr)}
	if err := WriteResult(&w, big); err != nil {
		t.Fatal(err)
	}
	if f := read(t, w.Bytes()); !reflect.DeepEqual(f.Result, big) {
		t.Error("the largest result does not arrive as it was")
	}

	for _, r := range []Result{{Stdout: make([]byte, MaxStdout+1)}, {Stderr: make([]byte, MaxStderr+1)}} {
		w = countingWriter{}
		if err := WriteResult(&w, r); !errors.Is(err, ErrTooLarge) || w.Len() != 0 {
			t.Errorf("over a limit: error %v, %d bytes written", err, w.Len())
		}
	}
}

func TestWriteRefusedTakesAnyText(t *testing.T) {
	for _, text := range []string{"", "no", "\xff\xfe", strings.Repeat("é", MaxRefusal), strings.Repeat("\xff", MaxRefusal)} {
		var w bytes.Buffer
		if err := WriteRefused(&w, text); err != nil {
			t.Errorf("%.10q: %v", text, err)
			continue
		}
		f, n, err := NextFrame(w.Bytes())
		if err != nil || n != w.Len() || f.Kind != Refused || f.Text == "" || !utf8.ValidString(f.Text) {
			t.Errorf("%.10q: arrives as %+v, %v", text, f, err)
		}
		if utf8.ValidString(text) && text != "" && !strings.HasPrefix(text, f.Text) {
			t.Errorf("%.10q: arrives as %.10q", text, f.Text)
		}
	}
}

func TestAppendFrameRefusesNoFrame(t *testing.T) {
	for _, f := range []Frame{{}, {Kind: 'X'}, {Kind: Refused}, {Kind: Refused, Text: "\xff"},
		{Kind: Done, Result: Result{Code: 256}}, {Kind: Done, Result: Result{Code: -1}}} {
		if b, err := AppendFrame(nil, f); err == nil {
			t.Errorf("%+v became %q", f, b)
		}
	}
}

func FuzzFrame(f *testing.F) {
	for _, v := range readVectors(f, "testdata/frames.txt") {
		f.Add(v.bytes)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		frame, n, err := NextFrame(b)
		if err != nil || n == 0 {
			if n != 0 {
				t.Fatalf("took %d bytes beside %v", n, err)
			}
			return
		}
		again, err := AppendFrame(nil, frame)
		if err != nil || !bytes.Equal(again, b[:n]) {
			t.Errorf("read %q\nwrote %q, %v", b[:n], again, err)
		}
	})
}

type countingWriter struct {
	bytes.Buffer
	writes int
}

func (w *countingWriter) Write(b []byte) (int, error) {
	w.writes++
	return w.Buffer.Write(b)
}
