package ask

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Tool is a client-neutral kind of action.
type Tool string

// The neutral tools. A client's tool that is none of them is ToolOther and is
// known by its own name.
const (
	ToolBash      Tool = "bash"
	ToolRead      Tool = "read"
	ToolWrite     Tool = "write"
	ToolEdit      Tool = "edit"
	ToolMCP       Tool = "mcp"
	ToolWebFetch  Tool = "webfetch"
	ToolWebSearch Tool = "websearch"
	ToolTask      Tool = "task"
	ToolOther     Tool = "other"
)

// Access is what is done to a path.
type Access string

// The two accesses; an edit is a write.
const (
	AccessRead  Access = "read"
	AccessWrite Access = "write"
)

// Path is one file or directory an action names: as given, and where it
// really is as the origin saw it (longest existing prefix resolved).
type Path struct {
	Given  string `json:"given"`
	Real   string `json:"real"`
	Access Access `json:"access"`
}

// MCP names a tool of an MCP server. Server and Name are exact identities and
// are never folded or split. Source is where the server was declared: "user",
// "managed", "project", or "" when the client does not say.
type MCP struct {
	Server string `json:"server"`
	Name   string `json:"name"`
	Source string `json:"source,omitempty"`
}

// Action is what an agent wants to do, with the facts of its origin.
type Action struct {
	Client     string `json:"client"`
	Tool       Tool   `json:"tool"`
	ClientTool string `json:"client_tool"`
	// Call is the client's own id of this call, "" when it has none.
	Call string `json:"call,omitempty"`
	// Input is the tool input as sent by the client, compact JSON.
	Input json.RawMessage `json:"input"`
	// Cwd, Project and Home are the origin's, absolute.
	Cwd     string `json:"cwd"`
	Project string `json:"project,omitempty"`
	Home    string `json:"home,omitempty"`

	Command string `json:"command,omitempty"` // ToolBash
	Paths   []Path `json:"paths,omitempty"`
	URL     string `json:"url,omitempty"`   // ToolWebFetch
	Query   string `json:"query,omitempty"` // ToolWebSearch
	MCP     *MCP   `json:"mcp,omitempty"`
	Agent   string `json:"agent,omitempty"` // ToolTask: the kind of subagent
}

// Digest is a SHA-256 over a version byte and canonical bytes.
type Digest [sha256.Size]byte

// String returns lower-case hex, 64 digits.
func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// IsZero reports whether d was never set.
func (d Digest) IsZero() bool { return d == Digest{} }

// MarshalText writes 64 hex digits.
func (d Digest) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, d[:]), nil }

// UnmarshalText accepts exactly 64 lower-case hex digits.
func (d *Digest) UnmarshalText(b []byte) error {
	if len(b) != 2*len(d) {
		return fmt.Errorf("digest has %d characters, want %d", len(b), 2*len(d))
	}
	for i := range d {
		hi, lo := nibble(b[2*i]), nibble(b[2*i+1])
		if hi > 15 || lo > 15 {
			return fmt.Errorf("digest %s is not lower-case hex", Quote(string(b)))
		}
		d[i] = hi<<4 | lo
	}
	return nil
}

func nibble(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}

// ActionDigest is the identity of an action for the tripwire, for joining
// equal asks and for asking again: SHA-256(version ‖ client ‖ tool ‖ input as
// sent ‖ cwd), each part preceded by its length.
func (a *Action) ActionDigest() Digest {
	h := sha256.New()
	h.Write([]byte{Version})
	for _, s := range [][]byte{[]byte(a.Client), []byte(a.ClientTool), Compact(a.Input), []byte(a.Cwd)} {
		writePart(h, s)
	}
	return Digest(h.Sum(nil))
}

// Compact returns raw without insignificant white space, or raw itself when
// it is not JSON.
func Compact(raw []byte) []byte {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return raw
	}
	return b.Bytes()
}
