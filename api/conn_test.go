package api

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"permd/ask"
)

func frameBytes(payload string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

func TestConnRoundTrip(t *testing.T) {
	a, b := pair(t)
	ca, cb := NewConn(a), NewConn(b)
	sent := []Frame{
		{T: TWake},
		{T: TFaces, B: json.RawMessage(`{"faces":2}`)},
		{T: TResult, N: 1<<64 - 1, B: json.RawMessage(`"<&>\u2028"`)},
		{T: TAnswer, N: 7, B: json.RawMessage(`{"text":"` + strings.Repeat("x", 3<<20) + `"}`)},
	}
	done := make(chan error, 1)
	go func() {
		for _, f := range sent {
			if err := ca.Send(f); err != nil {
				done <- err
				return
			}
		}
		done <- ca.Close()
	}()
	for _, want := range sent {
		got, err := cb.Receive()
		if err != nil || got.T != want.T || got.N != want.N || !bytes.Equal(got.B, want.B) {
			t.Fatalf("got %.80v, %v", got, err)
		}
	}
	if _, err := cb.Read(); err != io.EOF {
		t.Fatalf("a clean end is io.EOF, got %v", err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestReadFrameRefuses(t *testing.T) {
	good := string(frameBytes(`{"t":"faces","n":3,"b":{"faces":1}}`))
	if _, err := readFrame(strings.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	for i := 1; i < len(good); i++ {
		f, err := readFrame(strings.NewReader(good[:i]))
		if !errors.Is(err, ErrFrame) || f.T != "" {
			t.Fatalf("cut after %d bytes: %v, %v", i, f, err)
		}
	}
	if _, err := readFrame(strings.NewReader("")); err != io.EOF {
		t.Fatal(err)
	}
	for name, in := range map[string]string{
		"empty":              string(frameBytes("")),
		"too large":          "\x00\x80\x00\x01",
		"length of the hook": "permd-hook/1\n",
		"largest length":     "\xff\xff\xff\xff",
		"not JSON":           string(frameBytes("x")),
		"no type":            string(frameBytes(`{"b":1}`)),
		"empty type":         string(frameBytes(`{"t":""}`)),
		"type with escapes":  string(frameBytes(`{"t":"a\u001b"}`)),
		"long type":          string(frameBytes(`{"t":"` + strings.Repeat("a", 65) + `"}`)),
		"duplicate type":     string(frameBytes(`{"t":"wake","t":"call"}`)),
		"case variant":       string(frameBytes(`{"T":"wake"}`)),
		"unknown field":      string(frameBytes(`{"t":"wake","x":1}`)),
		"zero number":        string(frameBytes(`{"t":"wake","n":0}`)),
		"negative number":    string(frameBytes(`{"t":"wake","n":-1}`)),
		"space":              string(frameBytes(`{"t":"wake" }`)),
		"space in the body":  string(frameBytes(`{"t":"faces","b":{"faces": 1}}`)),
		"two values":         string(frameBytes(`{"t":"wake"}{}`)),
		"not UTF-8":          string(frameBytes("{\"t\":\"notice\",\"b\":\"\xff\"}")),
		"deep body":          string(frameBytes(`{"t":"notice","b":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`)),
		"null":               string(frameBytes(`null`)),
	} {
		if f, err := readFrame(strings.NewReader(in)); !errors.Is(err, ErrFrame) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
}

// A length alone costs nothing: memory grows with what arrives.
func TestLengthAllocatesNothing(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := readFrame(strings.NewReader("\x00\x7f\xff\xff{")); err == nil {
			t.Fatal("accepted")
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / 100; got > 128<<10 {
		t.Errorf("%d bytes for an announced frame of 8 MiB", got)
	}
}

func TestWriteTooLargeLeavesTheConnection(t *testing.T) {
	a, b := pair(t)
	ca, cb := NewConn(a), NewConn(b)
	if err := ca.Write(TNotice, 0, Notice{Text: strings.Repeat("x", MaxFrame)}); !errors.Is(err, ask.ErrTooLarge) {
		t.Fatal(err)
	}
	if err := ca.Write(TNotice, 0, Notice{Text: "\xff"}); !errors.Is(err, ask.ErrNotCanonical) {
		t.Fatal(err)
	}
	if err := ca.Write(TNotice, 0, make(chan int)); err == nil {
		t.Fatal("a channel is no body")
	}
	if err := ca.Write(TWake, 0, nil); err != nil {
		t.Fatal(err)
	}
	if f, err := cb.Read(); err != nil || f.T != TWake {
		t.Fatalf("%v, %v", f, err)
	}
}

func TestLargestFrame(t *testing.T) {
	a, b := pair(t)
	ca, cb := NewConn(a), NewConn(b)
	empty, err := encodeFrame(Frame{T: TNotice, B: json.RawMessage(`""`)})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", MaxFrame-(len(empty)-4))
	done := make(chan error, 1)
	go func() { done <- ca.Write(TNotice, 0, text) }()
	f, err := cb.Read()
	if err != nil || len(f.B) != len(text)+2 {
		t.Fatalf("%d, %v", len(f.B), err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if err := ca.Write(TNotice, 0, text+"x"); !errors.Is(err, ask.ErrTooLarge) {
		t.Fatal(err)
	}
}

// A peer that does not read is given up; whoever reads there learns why.
func TestStuckPeer(t *testing.T) {
	a, _ := pair(t)
	c := NewConn(a)
	c.timeout = 30 * time.Millisecond
	read := make(chan error, 1)
	go func() {
		_, err := c.Read()
		read <- err
	}()
	var err error
	for err == nil {
		err = c.Write(TNotice, 0, Notice{Text: strings.Repeat("x", 1<<20)})
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "does not read") {
		t.Fatal(err)
	}
	if again := c.Write(TWake, 0, nil); !errors.Is(again, os.ErrDeadlineExceeded) {
		t.Fatalf("a frame after half a frame: %v", again)
	}
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
}

func TestManyWriters(t *testing.T) {
	for _, queued := range []bool{false, true} {
		t.Run(fmt.Sprintf("queued=%v", queued), func(t *testing.T) {
			a, b := pair(t)
			ca, cb := NewConn(a), NewConn(b)
			end := func() { ca.Close() }
			if queued {
				end = ca.Queue()
			}
			const writers, each = 8, 100
			var work sync.WaitGroup
			for w := range writers {
				work.Go(func() {
					for i := range each {
						if err := ca.Write(TResult, uint64(w*each+i+1), strings.Repeat("y", i*50)); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			go func() {
				work.Wait()
				end()
			}()
			last := make([]int, writers)
			n := 0
			for {
				f, err := cb.Read()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				n++
				w, i := int(f.N-1)/each, int(f.N-1)%each
				if len(f.B) != i*50+2 || i+1 <= last[w] {
					t.Fatalf("frame %d of writer %d after %d, %d bytes", i, w, last[w], len(f.B))
				}
				last[w] = i + 1
			}
			if n != writers*each {
				t.Fatalf("%d frames", n)
			}
		})
	}
}

func TestUnknownFramesAreAnsweredAndPassedOver(t *testing.T) {
	a, b := pair(t)
	ca, cb := NewConn(a), NewConn(b)
	for i := range 20 {
		if err := ca.Send(Frame{T: fmt.Sprintf("x-%d", i), N: uint64(i), B: json.RawMessage(`{"any":["thing"]}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := ca.Write(TFaces, 99, Faces{1}); err != nil {
		t.Fatal(err)
	}
	if f, err := cb.Read(); err != nil || f.T != TFaces || f.N != 99 {
		t.Fatalf("%v, %v", f, err)
	}
	for i := range 20 {
		if f, err := ca.Read(); err != nil || f.T != TUnknown || f.N != uint64(i) || f.B != nil {
			t.Fatalf("%v, %v", f, err)
		}
	}
	// No answer to an answer.
	if err := cb.Unknown(Frame{T: TUnknown, N: 5}); err != nil {
		t.Fatal(err)
	}
	cb.Close()
	if f, err := ca.Read(); err != io.EOF {
		t.Fatalf("%v, %v", f, err)
	}
}

// A stuck surface holds up nobody: queued writes return at once, and too many
// of them end the connection.
func TestQueueGivesUpAStuckPeer(t *testing.T) {
	a, _ := pair(t)
	c := NewConn(a)
	end := c.Queue()
	defer end()
	var err error
	n := 0
	for start := time.Now(); err == nil; n++ {
		err = c.Write(TNotice, 0, Notice{Text: "x"})
		if time.Since(start) > patience {
			t.Fatal("writes are waiting")
		}
	}
	if !errors.Is(err, ErrSlow) || n < MaxPending {
		t.Fatalf("after %d frames: %v", n, err)
	}
	if _, err := c.Read(); !errors.Is(err, ErrSlow) {
		t.Fatal(err)
	}
}

func TestQueueEndDrains(t *testing.T) {
	a, b := pair(t)
	ca, cb := NewConn(a), NewConn(b)
	end := ca.Queue()
	second := ca.Queue()
	for i := range 50 {
		if err := ca.Write(TResult, uint64(i+1), strings.Repeat("x", 20_000)); err != nil {
			t.Fatal(err)
		}
	}
	got := make(chan int, 1)
	go func() {
		n := 0
		for {
			if _, err := cb.Read(); err != nil {
				got <- n
				return
			}
			n++
		}
	}()
	end()
	if n := <-got; n != 50 {
		t.Fatalf("%d frames arrived", n)
	}
	if err := ca.Write(TWake, 0, nil); err == nil {
		t.Fatal("written after the end")
	}
	second()
}

func TestQueueEndWithAPeerThatHungUp(t *testing.T) {
	a, b := pair(t)
	c := NewConn(a)
	end := c.Queue()
	b.Close()
	for i := 0; i < 100 && c.Write(TNotice, 0, Notice{Text: "x"}) == nil; i++ {
	}
	end()
}

// A peer that closed only its writing end is at its end; what it still reads
// can be written.
func TestHalfClosedPeer(t *testing.T) {
	a, b := pair(t)
	ca, cb := NewConn(a), NewConn(b)
	if err := a.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := cb.Read(); err != io.EOF {
		t.Fatal(err)
	}
	if err := cb.Refuse(CodeBad, "a reason"); err == nil {
		t.Fatal("a refusal is an error")
	}
	f, err := ca.Read()
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, f.refused(), CodeBad)
}

func TestFrameBody(t *testing.T) {
	f := Frame{T: TFaces, B: json.RawMessage(`{"faces":1}`)}
	var v Faces
	if err := f.Body(&v); err != nil || v.Faces != 1 {
		t.Fatal(v, err)
	}
	for _, bad := range []string{``, `null`, `{}`, `{"faces":-1}`, `{"faces":1,"faces":1}`, `{"faces":1,"x":2}`, `[]`} {
		f.B = json.RawMessage(bad)
		if err := f.Body(&v); err == nil || !strings.HasPrefix(err.Error(), "faces: ") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	c := Call{Op: OpPause, Args: json.RawMessage(`{"for_ms":1}`)}
	var p PauseArgs
	if err := c.Arguments(&p); err != nil || p.ForMS != 1 {
		t.Fatal(p, err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(frameBytes(`{"t":"faces","n":3,"b":{"faces":1}}`))
	f.Add(append(frameBytes(`{"t":"wake"}`), frameBytes(`{"t":"x","b":[1,"\u2028"]}`)...))
	f.Add([]byte("permd-hook/1\n"))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			start := len(b) - r.Len()
			fr, err := readFrame(r)
			if err != nil {
				return
			}
			again, err := encodeFrame(fr)
			if err != nil || !bytes.Equal(again, b[start:len(b)-r.Len()]) {
				t.Fatalf("%q is written again as %q, %v", b[start:], again, err)
			}
		}
	})
}
