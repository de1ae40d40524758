package hookwire

import (
	"encoding/binary"
	"io"
	"strconv"
	"unicode/utf8"
)

// Kind is what a frame is. The zero value is none.
type Kind byte

// The kinds of frames.
const (
	Waiting Kind = 'W'
	Done    Kind = 'R'
	Refused Kind = 'V'
)

// frameHead is the size of a frame's kind and length.
const frameHead = 1 + 4

// Result is what the hook does in the end. Code is 0 to 255; it is an int so
// that one out of range is an error and not cut to another.
type Result struct {
	Code   int
	Stdout []byte
	Stderr []byte
}

// Frame is one frame from the node. Result belongs to Done, Text to Refused.
type Frame struct {
	Kind   Kind
	Result Result
	Text   string
}

// AppendFrame appends the frame. One that NextFrame would refuse is an error.
func AppendFrame(dst []byte, f Frame) ([]byte, error) {
	switch f.Kind {
	case Waiting:
		return append(dst, byte(Waiting), 0, 0, 0, 0), nil
	case Refused:
		if err := checkRefusal([]byte(f.Text)); err != nil {
			return nil, err
		}
		dst = append(dst, byte(Refused))
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(f.Text)))
		return append(dst, f.Text...), nil
	case Done:
		code, out, text := f.Result.Code, f.Result.Stdout, f.Result.Stderr
		if code < 0 || code > 255 {
			return nil, malformed("exit code " + strconv.Itoa(code))
		}
		if len(out) > MaxStdout {
			return nil, tooLarge("standard output", MaxStdout)
		}
		if len(text) > MaxStderr {
			return nil, tooLarge("standard error", MaxStderr)
		}
		dst = append(dst, byte(Done))
		dst = binary.BigEndian.AppendUint32(dst, uint32(1+4+len(out)+len(text)))
		dst = append(dst, byte(code))
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(out)))
		dst = append(dst, out...)
		return append(dst, text...), nil
	}
	return nil, malformed("unknown kind of frame")
}

// WriteWaiting says that the node is still at it. One write, so a frame is
// never cut by a deadline that a caller set for w.
func WriteWaiting(w io.Writer) error { return writeFrame(w, Frame{Kind: Waiting}) }

// WriteResult ends the call. A result over a limit, or with a code that is none,
// is an error and nothing is written: refuse the call instead.
func WriteResult(w io.Writer, r Result) error {
	return writeFrame(w, Frame{Kind: Done, Result: r})
}

// WriteRefused ends the call with a reason and its remedy, which is cut to
// MaxRefusal. The hook fails with it: a gate stays shut, other calls end with 0.
func WriteRefused(w io.Writer, text string) error {
	return writeFrame(w, Frame{Kind: Refused, Text: refusal(text)})
}

func writeFrame(w io.Writer, f Frame) error {
	b, err := AppendFrame(nil, f)
	if err != nil {
		return err
	}
	_, err = w.Write(b)
	return err
}

// refusal makes of any text one that can be sent.
func refusal(text string) string {
	if text == "" {
		return "refused without a reason"
	}
	if !utf8.ValidString(text) {
		text = strconv.Quote(text)
	}
	if len(text) <= MaxRefusal {
		return text
	}
	cut := MaxRefusal
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}

// NextFrame reads the frame that b begins with and says how many bytes it
// takes. n is 0 while b holds too little, and err is set as soon as b can
// begin no frame. Result refers to b.
func NextFrame(b []byte) (f Frame, n int, err error) {
	if len(b) == 0 {
		return Frame{}, 0, nil
	}
	kind := Kind(b[0])
	most, known := bodyLimit(kind)
	if !known {
		return Frame{}, 0, malformed("unknown kind of frame")
	}
	if len(b) < frameHead {
		return Frame{}, 0, nil
	}
	size := binary.BigEndian.Uint32(b[1:])
	if size > uint32(most) {
		return Frame{}, 0, tooLarge("frame", most)
	}
	n = frameHead + int(size)
	if len(b) < n {
		return Frame{}, 0, nil
	}
	f, err = parseFrame(kind, b[frameHead:n])
	if err != nil {
		return Frame{}, 0, err
	}
	return f, n, nil
}

func bodyLimit(k Kind) (int, bool) {
	switch k {
	case Waiting:
		return 0, true
	case Refused:
		return MaxRefusal, true
	case Done:
		return 1 + 4 + MaxStdout + MaxStderr, true
	}
	return 0, false
}

func parseFrame(kind Kind, body []byte) (Frame, error) {
	switch kind {
	case Waiting:
		return Frame{Kind: Waiting}, nil
	case Refused:
		if err := checkRefusal(body); err != nil {
			return Frame{}, err
		}
		return Frame{Kind: Refused, Text: string(body)}, nil
	}
	s := scanner{rest: body}
	code := s.u8()
	out := s.take(s.u32())
	switch {
	case s.short:
		return Frame{}, malformed("result ends in the middle of a field")
	case len(out) > MaxStdout:
		return Frame{}, tooLarge("standard output", MaxStdout)
	case len(s.rest) > MaxStderr:
		return Frame{}, tooLarge("standard error", MaxStderr)
	}
	return Frame{Kind: Done, Result: Result{int(code), out, s.rest}}, nil
}

func checkRefusal(text []byte) error {
	switch {
	case len(text) == 0:
		return malformed("refusal without a text")
	case len(text) > MaxRefusal:
		return tooLarge("refusal", MaxRefusal)
	case !utf8.Valid(text):
		return malformed("refusal is not UTF-8")
	}
	return nil
}
