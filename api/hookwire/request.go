package hookwire

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
)

// ErrMalformed is wrapped by every error about bytes that are no request or no
// frame.
var ErrMalformed = errors.New("malformed")

// ErrTooLarge is wrapped by the errors about what is over a limit, found
// before anything of that size was allocated.
var ErrTooLarge = errors.New("too large")

// VersionError is a request in another version than this package speaks. The
// server answers it with WriteRefused and the error's text.
type VersionError struct{ Line string }

func (e *VersionError) Error() string {
	return "this permd speaks " + strconv.Quote(magic[:len(magic)-1]) + ", the hook spoke " + strconv.Quote(e.Line) +
		"; restart the agent, so that its permd is the one that is installed"
}

const flagGate = 1

// Request is one call of a hook.
type Request struct {
	// Client is the name the hook was given: "claude".
	Client string
	// Gate: the call comes before an action, which a failure must stop.
	Gate bool
	// PID and PPID are the hook's own, as it says. Who really asks, the
	// socket knows.
	PID, PPID int
	// Args are the hook's arguments without its own name.
	Args []string
	// Env is ascending by name. It may hold names that this version does
	// not know.
	Env   []Var
	Cwd   string
	Stdin []byte
}

// Getenv gives the value of a variable, "" when it was not carried.
func (r *Request) Getenv(name string) string {
	for _, v := range r.Env {
		if v.Name == name {
			return v.Value
		}
	}
	return ""
}

// AppendHead appends all of the request but Stdin, which goes after it as it
// is, so that it need not be copied. A request over a limit, or one that
// ReadRequest would refuse, is an error.
func (r *Request) AppendHead(dst []byte) ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	start := len(dst)
	dst = append(dst, magic...)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(r.Stdin)))
	dst = append(dst, byte(len(r.Client)))
	dst = append(dst, r.Client...)
	var flags byte
	if r.Gate {
		flags |= flagGate
	}
	dst = append(dst, flags)
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.PID))
	dst = binary.BigEndian.AppendUint32(dst, uint32(r.PPID))
	dst = append(dst, byte(len(r.Args)))
	for _, a := range r.Args {
		dst = append16(dst, a)
	}
	dst = append(dst, byte(len(r.Env)))
	for _, v := range r.Env {
		dst = append(dst, byte(len(v.Name)))
		dst = append(dst, v.Name...)
		dst = append16(dst, v.Value)
	}
	dst = append16(dst, r.Cwd)
	head := len(dst) - start - fixed
	if head > MaxHead {
		return nil, tooLarge("arguments and variables together", MaxHead)
	}
	binary.BigEndian.PutUint32(dst[start+len(magic):], uint32(head))
	return dst, nil
}

func append16(dst []byte, s string) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
	return append(dst, s...)
}

// check holds what both sides ask of a request.
func (r *Request) check() error {
	switch {
	case !validClient(r.Client):
		return malformed("client name " + quote(r.Client) + " is not a lower case word")
	case r.PID <= 0 || r.PID > math.MaxInt32 || r.PPID < 0 || r.PPID > math.MaxInt32:
		return malformed("process id out of range")
	case len(r.Args) > MaxArgs:
		return tooLarge("number of arguments", MaxArgs)
	case len(r.Env) > MaxVars:
		return tooLarge("number of variables", MaxVars)
	case len(r.Cwd) > MaxCwd:
		return tooLarge("working directory", MaxCwd)
	case len(r.Stdin) > MaxStdin:
		return tooLarge("standard input", MaxStdin)
	case strings.IndexByte(r.Cwd, 0) >= 0:
		return malformed("zero byte in the working directory")
	}
	for _, a := range r.Args {
		if err := checkText(a, "an argument"); err != nil {
			return err
		}
	}
	for i, v := range r.Env {
		if !validName(v.Name) {
			return malformed("variable name " + quote(v.Name))
		}
		if i > 0 && v.Name <= r.Env[i-1].Name {
			return malformed("variables are not ascending by name")
		}
		if err := checkText(v.Value, "the variable "+v.Name); err != nil {
			return err
		}
	}
	return nil
}

func checkText(s, what string) error {
	if len(s) > MaxText {
		return tooLarge(what, MaxText)
	}
	if strings.IndexByte(s, 0) >= 0 {
		return malformed("zero byte in " + what)
	}
	return nil
}

func validClient(s string) bool {
	if len(s) == 0 || len(s) > MaxClient || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

func validName(s string) bool {
	if len(s) == 0 || len(s) > MaxName {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// ReadRequest reads one request from r and no byte after it. The error is a
// *VersionError, wraps ErrMalformed or ErrTooLarge, or is what r said
// (io.ErrUnexpectedEOF for a request cut short).
func ReadRequest(r io.Reader) (*Request, error) {
	var start [fixed]byte
	if _, err := io.ReadFull(r, start[:]); err != nil {
		return nil, err
	}
	if err := checkMagic(start[:]); err != nil {
		return nil, err
	}
	head, stdin := binary.BigEndian.Uint32(start[len(magic):]), binary.BigEndian.Uint32(start[len(magic)+4:])
	if head > MaxHead {
		return nil, tooLarge("arguments and variables together", MaxHead)
	}
	if stdin > MaxStdin {
		return nil, tooLarge("standard input", MaxStdin)
	}
	b, err := readN(r, int(head))
	if err != nil {
		return nil, err
	}
	req, err := parseHead(b)
	if err != nil {
		return nil, err
	}
	if req.Stdin, err = readN(r, int(stdin)); err != nil {
		return nil, err
	}
	return req, nil
}

func checkMagic(start []byte) error {
	if string(start[:len(magic)]) == magic {
		return nil
	}
	if !strings.HasPrefix(string(start), prefix) {
		return malformed("not a hook's request")
	}
	line, _, _ := strings.Cut(string(start[:len(magic)]), "\n")
	return &VersionError{line}
}

// readN reads n bytes. It allocates as they come and not as they are claimed.
func readN(r io.Reader, n int) ([]byte, error) {
	const step = 64 << 10
	b := make([]byte, 0, min(n, step))
	for len(b) < n {
		if len(b) == cap(b) {
			grown := make([]byte, len(b), min(n, 2*cap(b)))
			copy(grown, b)
			b = grown
		}
		got, err := io.ReadFull(r, b[len(b):cap(b)])
		b = b[:len(b)+got]
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

func parseHead(b []byte) (*Request, error) {
	s := scanner{rest: b}
	req := &Request{Client: s.text(uint32(s.u8()))}
	flags := s.u8()
	req.Gate = flags&flagGate != 0
	req.PID, req.PPID = int(s.u32()), int(s.u32())
	for range s.u8() {
		req.Args = append(req.Args, s.text(uint32(s.u16())))
	}
	for range s.u8() {
		req.Env = append(req.Env, Var{s.text(uint32(s.u8())), s.text(uint32(s.u16()))})
	}
	req.Cwd = s.text(uint32(s.u16()))
	switch {
	case s.short:
		return nil, malformed("head ends in the middle of a field")
	case len(s.rest) > 0:
		return nil, malformed("head has bytes after its last field")
	case flags&^flagGate != 0:
		return nil, malformed("unknown flag")
	}
	return req, req.check()
}

// scanner takes fields off rest; after the first that is not whole, all are
// empty and short is set.
type scanner struct {
	rest  []byte
	short bool
}

func (s *scanner) take(n uint32) []byte {
	if s.short || uint64(n) > uint64(len(s.rest)) {
		s.short, s.rest = true, nil
		return nil
	}
	b := s.rest[:n]
	s.rest = s.rest[n:]
	return b
}

func (s *scanner) u8() byte {
	if b := s.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (s *scanner) u16() uint16 {
	if b := s.take(2); b != nil {
		return binary.BigEndian.Uint16(b)
	}
	return 0
}

func (s *scanner) u32() uint32 {
	if b := s.take(4); b != nil {
		return binary.BigEndian.Uint32(b)
	}
	return 0
}

func (s *scanner) text(n uint32) string { return string(s.take(n)) }
