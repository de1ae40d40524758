package session

import (
	"crypto/sha256"
	"strconv"
	"strings"
)

// MaxID is the most bytes of a session id and of a node id.
const MaxID = 64

// Valid reports whether id may be used as a file name and on a wire: 1 to 64
// of [A-Za-z0-9._-] without a leading dot. "." and ".." are therefore no ids.
func Valid(id string) bool {
	if len(id) == 0 || len(id) > MaxID || id[0] == '.' {
		return false
	}
	for i := range len(id) {
		c := id[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// Blank reports whether a client's id names nothing: empty, white space, or
// the literal "unknown" in any case, which clients write when they have none.
func Blank(id string) bool {
	t := strings.TrimSpace(id)
	return t == "" || strings.EqualFold(t, "unknown")
}

// ID maps a client's own session id to permd's: "claude-<id>". An id that
// does not fit is hashed, so two different ids never fold into one. It
// returns "" for a blank id.
func ID(client, id string) string {
	if Blank(id) {
		return ""
	}
	id = strings.TrimSpace(id)
	s := client + "-" + id
	if Valid(s) {
		return s
	}
	return client + "-x" + shortHash(id, 16)
}

// Sub maps an in-process subagent of root to its session id:
// "<root>.<short hash>". The hash covers root and agent, so it is the same at
// every event of that subagent.
func Sub(root, agent string) string {
	h := shortHash(root+"\x00"+agent, 5)
	if len(root)+1+len(h) <= MaxID {
		return root + "." + h
	}
	return "s" + shortHash(root, 12) + "." + h
}

// Canonical reads a session named by a person, a flag or a variable:
// permd's own form, or "client:id" as some launchers write it. It returns ""
// when the name is blank or cannot be a session.
func Canonical(name string) string {
	name = strings.TrimSpace(name)
	if Blank(name) {
		return ""
	}
	if client, id, ok := strings.Cut(name, ":"); ok && Valid(client) {
		return ID(client, id)
	}
	if Valid(name) {
		return name
	}
	return ""
}

// NodeID names the node of one agent process by pid and start time, short
// enough that socket paths stay under the limit of every system. A pid that
// is used again has another start time, so it is another node.
func NodeID(pid int, start uint64) string {
	return "n" + strconv.FormatInt(int64(pid), 36) + "-" + strconv.FormatUint(start, 36)
}

// shortHash is the first n bytes of the SHA-256 of s in hex, by hand because
// encoding/hex brings fmt into the hook.
func shortHash(s string, n int) string {
	const digits = "0123456789abcdef"
	d := sha256.Sum256([]byte(s))
	b := make([]byte, 0, 2*n)
	for _, c := range d[:n] {
		b = append(b, digits[c>>4], digits[c&15])
	}
	return string(b)
}
