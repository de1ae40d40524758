package ask

import "math/big"

// maxDigits bounds a number's text; a JSON number of any client fits.
const maxDigits = 64

// parseNumber reads a decimal string exactly: an optional minus, digits
// without a leading zero, an optional fraction. There is no exponent, so a
// short text cannot stand for a number that fills memory.
func parseNumber(s string, whole bool) (*big.Rat, error) {
	if len(s) > maxDigits || !decimal(s, whole) {
		kind := "a decimal number"
		if whole {
			kind = "a whole decimal number"
		}
		return nil, invalid("%s is not %s of at most %d characters", Quote(s), kind, maxDigits)
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, invalid("%s is not a number", Quote(s))
	}
	return r, nil
}

func decimal(s string, whole bool) bool {
	if s != "" && s[0] == '-' {
		s = s[1:]
	}
	n := digits(s)
	if n == 0 || n > 1 && s[0] == '0' {
		return false
	}
	s = s[n:]
	if s == "" {
		return true
	}
	return !whole && s[0] == '.' && len(s) > 1 && digits(s[1:]) == len(s)-1
}

// digits is how many decimal digits s starts with.
func digits(s string) int {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return i
		}
	}
	return len(s)
}
