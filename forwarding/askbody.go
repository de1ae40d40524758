package forwarding

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"permd/ask"
)

// The body of an ask's letter is its header as one line and then its sealed
// body, whose bytes nobody on the way touches or encodes again:
//
//	<milliseconds left, or -> { <session> <node> <+ proved, or ? claimed>}\n
//	<body>

const maxHeader = 32 + ask.MaxHops*(2*64+4)

func encodeAsk(a *ask.Ask) ([]byte, error) {
	if err := a.Header.Check(); err != nil {
		return nil, err
	}
	if len(a.Raw) > ask.MaxBody {
		return nil, fmt.Errorf("%w: ask of %d bytes", ErrMalformed, len(a.Raw))
	}
	b := make([]byte, 0, 256+len(a.Raw))
	return append(appendHeader(b, &a.Header), a.Raw...), nil
}

func appendHeader(b []byte, h *ask.Header) []byte {
	if h.RemainingMS == nil {
		b = append(b, '-')
	} else {
		b = strconv.AppendInt(b, *h.RemainingMS, 10)
	}
	for _, hop := range h.Path {
		b = append(append(append(append(b, ' '), hop.Session...), ' '), hop.Node...)
		if hop.Claimed {
			b = append(b, " ?"...)
		} else {
			b = append(b, " +"...)
		}
	}
	return append(b, '\n')
}

// decodeAsk reads what encodeAsk wrote, and nothing else.
func decodeAsk(b []byte) (*ask.Ask, error) {
	n := bytes.IndexByte(b[:min(len(b), maxHeader)], '\n')
	if n < 0 {
		return nil, errors.New("no header")
	}
	header, err := parseHeader(string(b[:n]))
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(appendHeader(nil, header), b[:n+1]) {
		return nil, errors.New("header is not in its one form")
	}
	if err := header.Check(); err != nil {
		return nil, err
	}
	a, err := ask.Open(b[n+1:])
	if err != nil {
		return nil, err
	}
	a.Header = *header
	return a, nil
}

func parseHeader(line string) (*ask.Header, error) {
	f := strings.Split(line, " ")
	if len(f)%3 != 1 {
		return nil, fmt.Errorf("header of %d fields", len(f))
	}
	h := &ask.Header{Path: make([]ask.Hop, 0, len(f)/3)}
	if f[0] != "-" {
		ms, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("remaining time %s", ask.Quote(f[0]))
		}
		h.RemainingMS = &ms
	}
	for f = f[1:]; len(f) > 0; f = f[3:] {
		if f[2] != "+" && f[2] != "?" {
			return nil, fmt.Errorf("proof %s", ask.Quote(f[2]))
		}
		h.Path = append(h.Path, ask.Hop{Session: f[0], Node: f[1], Claimed: f[2] == "?"})
	}
	return h, nil
}
