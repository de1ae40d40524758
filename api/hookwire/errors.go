package hookwire

import "strconv"

// wireError has a text of its own and the sentinel that a caller tests for.
type wireError struct {
	text string
	kind error
}

func (e *wireError) Error() string { return e.text }

// Unwrap gives ErrMalformed or ErrTooLarge.
func (e *wireError) Unwrap() error { return e.kind }

func malformed(why string) error {
	return &wireError{"malformed hook message: " + why, ErrMalformed}
}

func tooLarge(what string, most int) error {
	return &wireError{what + " is over the limit of " + limit(most), ErrTooLarge}
}

func limit(n int) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return strconv.Itoa(n>>20) + " MiB"
	}
	return strconv.Itoa(n)
}

// quote shows text of a peer: quoted, and cut.
func quote(s string) string {
	const most = 64
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
