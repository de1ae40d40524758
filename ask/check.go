package ask

import (
	"encoding/json"
	"errors"
	"fmt"
)

// ErrInvalid is wrapped by every error about a value that decodes but must
// not be used.
var ErrInvalid = errors.New("invalid ask")

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

func (b *Body) check() error {
	if b.V != Version {
		return invalid("body version %d, this permd speaks %d; update the older side", b.V, Version)
	}
	if !ValidID(b.ID) {
		return invalid("id %s", Quote(b.ID))
	}
	if !ValidID(b.From.Session) {
		return invalid("session id %s", Quote(b.From.Session))
	}
	switch b.Origin {
	case OriginGate, OriginPlan, OriginAsk, OriginMemory:
	default:
		return invalid("origin %s", Quote(string(b.Origin)))
	}
	switch b.Risk {
	case "", RiskLow, RiskMedium, RiskHigh:
	default:
		return invalid("risk %s", Quote(string(b.Risk)))
	}
	if b.Origin == OriginGate && b.Action == nil {
		return invalid("a gate ask needs an action")
	}
	if b.Action != nil {
		if err := b.Action.check(); err != nil {
			return err
		}
	}
	if len(b.Items) == 0 || len(b.Items) > MaxItems {
		return invalid("%d items, want 1 to %d", len(b.Items), MaxItems)
	}
	seen := map[string]bool{}
	for i := range b.Items {
		it := &b.Items[i]
		if it.ID == "" || seen[it.ID] {
			return invalid("item id %s is empty or used twice", Quote(it.ID))
		}
		seen[it.ID] = true
		if err := it.check(); err != nil {
			return err
		}
	}
	return nil
}

func (a *Action) check() error {
	switch a.Tool {
	case ToolBash, ToolRead, ToolWrite, ToolEdit, ToolMCP, ToolWebFetch, ToolWebSearch, ToolTask, ToolOther:
	default:
		return invalid("tool %s", Quote(string(a.Tool)))
	}
	if a.Client == "" || a.ClientTool == "" {
		return invalid("an action names its client and the client's tool")
	}
	if !json.Valid(a.Input) {
		return invalid("the tool input is not JSON")
	}
	if a.Cwd == "" || a.Cwd[0] != '/' {
		return invalid("working directory %s is not absolute", Quote(a.Cwd))
	}
	if a.Tool == ToolMCP && a.MCP == nil {
		return invalid("an mcp action names its server and tool")
	}
	for _, p := range a.Paths {
		if p.Access != AccessRead && p.Access != AccessWrite {
			return invalid("access %s", Quote(string(p.Access)))
		}
	}
	return nil
}

func (it *Item) check() error {
	switch it.Type {
	case ItemChoice:
		if len(it.Options) == 0 && it.Free == nil || len(it.Options) > MaxOptions {
			return invalid("item %s has %d options, want 1 to %d", Quote(it.ID), len(it.Options), MaxOptions)
		}
	case ItemText, ItemBool, ItemNumber, ItemInt:
	default:
		return invalid("item type %s", Quote(string(it.Type)))
	}
	seen := map[string]bool{}
	for _, o := range it.Options {
		if o.ID == "" || seen[o.ID] {
			return invalid("option id %s of item %s is empty or used twice", Quote(o.ID), Quote(it.ID))
		}
		seen[o.ID] = true
		if o.Effect != "" && o.Effect != EffectAllow && o.Effect != EffectDeny {
			return invalid("effect %s", Quote(string(o.Effect)))
		}
	}
	return nil
}
