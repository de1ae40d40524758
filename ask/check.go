package ask

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// ErrInvalid is wrapped by every error about a value that decodes but must
// not be used.
var ErrInvalid = errors.New("invalid")

func invalid(format string, a ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, a...)...)
}

// ValidID reports whether s is safe as a file name and as an id on every
// wire: 1 to 64 of [A-Za-z0-9._-], no leading dot.
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > 64 || s[0] == '.' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// MaxName is the most bytes of an item or option id and of other names that
// are compared, not read.
const MaxName = 128

// validName is for ids that clients bring: any letters, nothing hidden.
func validName(s string) bool {
	return s != "" && len(s) <= MaxName && utf8.ValidString(s) && !strings.ContainsFunc(s, unseen)
}

func unseen(r rune) bool { return Hidden(r) || r == '\n' || r == '\t' }

// Check refuses a body that must not be shown, judged or answered. [Seal],
// [Open] and [Decode] apply it.
func (b *Body) Check() error {
	if b.V != Version {
		return invalid("body version %d, this permd speaks %d; update the older side", b.V, Version)
	}
	if !ValidID(b.ID) {
		return invalid("ask id %s", Quote(b.ID))
	}
	if !ValidID(b.From.Session) {
		return invalid("session id %s", Quote(b.From.Session))
	}
	if b.From.Client != "" && !ValidID(b.From.Client) {
		return invalid("client %s", Quote(b.From.Client))
	}
	switch b.Origin {
	case OriginGate, OriginPlan, OriginAsk, OriginMemory:
	default:
		return invalid("origin %s", Quote(string(b.Origin)))
	}
	if strings.TrimSpace(b.Title) == "" {
		return invalid("an ask needs a title: it is the least a surface shows")
	}
	if !b.Risk.valid() {
		return invalid("risk %s", Quote(string(b.Risk)))
	}
	if b.Origin == OriginGate && b.Action == nil {
		return invalid("a gate ask needs an action")
	}
	if b.Action != nil {
		if err := b.Action.check(b.Origin); err != nil {
			return err
		}
	}
	if b.URL != nil && (strings.TrimSpace(b.URL.Address) == "" || !ValidID(b.URL.ID) && b.URL.ID != "") {
		return invalid("address %s with id %s", Quote(b.URL.Address), Quote(b.URL.ID))
	}
	if b.Raw != nil {
		if err := checkRaw(b.Raw); err != nil {
			return fmt.Errorf("native request: %w", err)
		}
	}
	return b.checkItems()
}

func (r Risk) valid() bool {
	switch r {
	case "", RiskLow, RiskMedium, RiskHigh:
		return true
	}
	return false
}

func (a *Action) check(origin Origin) error {
	switch a.Tool {
	case ToolBash, ToolRead, ToolWrite, ToolEdit, ToolMCP, ToolWebFetch, ToolWebSearch, ToolTask, ToolOther:
	default:
		return invalid("tool %s", Quote(string(a.Tool)))
	}
	if !ValidID(a.Client) || a.ClientTool == "" {
		return invalid("an action names its client and the client's tool, not %s and %s", Quote(a.Client), Quote(a.ClientTool))
	}
	if err := checkRaw(a.Input); err != nil {
		return fmt.Errorf("tool input: %w", err)
	}
	if !absolute(a.Cwd) {
		return invalid("working directory %s is not absolute", Quote(a.Cwd))
	}
	if a.Project != "" && !absolute(a.Project) || a.Home != "" && !absolute(a.Home) {
		return invalid("project %s or home %s is not absolute", Quote(a.Project), Quote(a.Home))
	}
	if a.Tool == ToolBash && strings.TrimSpace(a.Command) == "" {
		return invalid("an empty command cannot be approved")
	}
	if a.Tool == ToolMCP && a.MCP == nil {
		return invalid("an mcp action names its server and tool")
	}
	if m := a.MCP; m != nil {
		// A server may ask something without a tool of its own at work.
		if m.Server == "" || m.Name == "" && origin == OriginGate {
			return invalid("mcp server %s, tool %s", Quote(m.Server), Quote(m.Name))
		}
		switch m.Source {
		case "", "user", "managed", "project":
		default:
			return invalid("mcp source %s", Quote(m.Source))
		}
	}
	for _, p := range a.Paths {
		if p.Access != AccessRead && p.Access != AccessWrite {
			return invalid("access %s", Quote(string(p.Access)))
		}
		if p.Given == "" || !absolute(p.Real) {
			return invalid("path %s is really %s, want a name and an absolute place", Quote(p.Given), Quote(p.Real))
		}
	}
	return nil
}

func absolute(p string) bool { return path.IsAbs(p) && !strings.ContainsRune(p, 0) }

// Check refuses a header that no node would have written.
func (h *Header) Check() error {
	if len(h.Path) > MaxHops {
		return invalid("the ask travelled %d hops, at most %d are allowed", len(h.Path), MaxHops)
	}
	for _, p := range h.Path {
		if !ValidID(p.Session) || !ValidID(p.Node) {
			return invalid("hop over session %s of node %s", Quote(p.Session), Quote(p.Node))
		}
	}
	if h.RemainingMS != nil && *h.RemainingMS < 0 {
		return invalid("%d ms remaining; time that is over is 0", *h.RemainingMS)
	}
	return nil
}
