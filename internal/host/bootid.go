package host

import (
	"errors"
	"strings"
)

var errNoBootID = errors.New("boot id cannot be read")

// checkBootID keeps a strange system from giving a name that is empty or
// unfit for a record.
func checkBootID(s string) (string, error) {
	s = strings.ToLower(strings.TrimSpace(s))
	if len(s) != 36 || strings.Trim(s, "0123456789abcdef-") != "" {
		return "", errNoBootID
	}
	return s, nil
}
