package claude

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"permd/ask"
	"permd/clients"
)

// fileTools are the tools that name one file: the input member that names it,
// the neutral tool and the access.
var fileTools = map[string]struct {
	member string
	tool   ask.Tool
	access ask.Access
}{
	"Read":         {"file_path", ask.ToolRead, ask.AccessRead},
	"NotebookRead": {"notebook_path", ask.ToolRead, ask.AccessRead},
	"Write":        {"file_path", ask.ToolWrite, ask.AccessWrite},
	"Edit":         {"file_path", ask.ToolEdit, ask.AccessWrite},
	"MultiEdit":    {"file_path", ask.ToolEdit, ask.AccessWrite},
	"NotebookEdit": {"notebook_path", ask.ToolEdit, ask.AccessWrite},
}

// fill sets the neutral fields of a from the tool input. Real places are the
// node's to find: a codec looks at no file system.
func fill(a *ask.Action, tool string, in, event clients.Object) error {
	text := func(name string) (string, error) { return in.Text(name) }
	if f, ok := fileTools[tool]; ok {
		p, err := need(in, tool, f.member)
		a.Tool = f.tool
		a.Paths = []ask.Path{{Given: p, Access: f.access}}
		return err
	}
	var err error
	switch tool {
	case "Bash":
		a.Tool = ask.ToolBash
		a.Command, err = need(in, tool, "command")
		return err
	case "Glob", "Grep", "LS":
		a.Tool = ask.ToolRead
		p, err := text("path")
		if err != nil {
			return err
		}
		if p == "" {
			p = a.Cwd
		}
		a.Paths = []ask.Path{{Given: p, Access: ask.AccessRead}}
		return globPaths(a, tool, in)
	case "WebFetch":
		a.Tool = ask.ToolWebFetch
		a.URL, err = need(in, tool, "url")
		return err
	case "WebSearch":
		a.Tool = ask.ToolWebSearch
		a.Query, err = text("query")
		return err
	case "Task", "Agent":
		a.Tool = ask.ToolTask
		a.Agent, err = text("subagent_type")
		return err
	}
	if strings.HasPrefix(tool, "mcp__") {
		a.Tool = ask.ToolMCP
		a.MCP, err = mcp(tool, event)
		return err
	}
	a.Tool = ask.ToolOther
	return nil
}

// globPaths adds the place a pattern of Glob, or the glob of Grep, starts at
// when the pattern leaves the path it is searched in.
func globPaths(a *ask.Action, tool string, in clients.Object) error {
	member := "pattern"
	if tool == "Grep" {
		member = "glob"
	}
	pat, err := in.Text(member)
	if err != nil {
		return err
	}
	if strings.HasPrefix(pat, "/") || strings.HasPrefix(pat, "~") || strings.Contains("/"+pat+"/", "/../") {
		head := pat
		if i := strings.IndexAny(pat, "*?[{"); i >= 0 {
			head = pat[:i]
			head = head[:strings.LastIndexByte(head, '/')+1]
		}
		if head == "" {
			head = "."
		}
		a.Paths = append(a.Paths, ask.Path{Given: head, Access: ask.AccessRead})
	}
	return nil
}

// mcp names server and tool. Claude joins them with "__" and folds other
// characters, which cannot be undone, so the server's own name is taken from
// the event when it is there.
func mcp(tool string, event clients.Object) (*ask.MCP, error) {
	server, name, ok := strings.Cut(strings.TrimPrefix(tool, "mcp__"), "__")
	if !ok || server == "" || name == "" {
		return nil, fmt.Errorf("%w: MCP tool %s has no server", clients.ErrNative, ask.Quote(tool))
	}
	m := &ask.MCP{Server: server, Name: name}
	raw, ok := event["mcp_server"]
	if !ok {
		return m, nil
	}
	if o, err := clients.ParseObject(raw); err == nil {
		real, err := o.Text("name")
		if err != nil {
			return nil, err
		}
		if m.Source, err = o.Text("source"); err != nil {
			return nil, err
		}
		if real != "" {
			rest, ok := strings.CutPrefix(tool, "mcp__"+folded(real)+"__")
			if !ok {
				return nil, fmt.Errorf("%w: MCP tool %s does not belong to server %s", clients.ErrNative, ask.Quote(tool), ask.Quote(real))
			}
			m.Server, m.Name = real, rest
		}
	}
	return m, nil
}

// folded is a server name as Claude writes it into a tool name: every
// character but letters, digits, "_" and "-" becomes "_".
func folded(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, s)
}

func need(in clients.Object, tool, member string) (string, error) {
	s, err := in.Text(member)
	if err == nil && s == "" {
		err = fmt.Errorf("%w: %s of %s is missing", clients.ErrNative, member, ask.Quote(tool))
	}
	return s, err
}

// Question returns the title and the whole of what would happen.
func (Codec) Question(ev clients.Event) (title, prompt string) {
	a := ev.Action
	if a == nil {
		return "Claude asks", ""
	}
	in, _ := clients.ParseObject(a.Input)
	text := func(name string) string { s, _ := in.Text(name); return s }
	path := ""
	if len(a.Paths) > 0 {
		path = a.Paths[0].Given
	}
	switch a.Tool {
	case ask.ToolBash:
		return "Run a command", a.Command
	case ask.ToolRead:
		if p := text("pattern"); p != "" {
			return "Search files", a.ClientTool + " " + p + "\nin " + path
		}
		return "Read a file", path
	case ask.ToolWrite:
		return "Write a file", path + "\n\n" + text("content")
	case ask.ToolEdit:
		if o, n := text("old_string"), text("new_string"); o != "" || n != "" {
			return "Edit a file", path + "\n\n" + prefixed("- ", o) + prefixed("+ ", n)
		}
		return "Edit a file", path + "\n\n" + pretty(a.Input)
	case ask.ToolWebFetch:
		return "Fetch a page", a.URL
	case ask.ToolWebSearch:
		return "Search the web", a.Query
	case ask.ToolTask:
		return "Start a subagent", a.Agent + "\n\n" + text("prompt")
	case ask.ToolMCP:
		return "Use a tool of " + a.MCP.Server, a.MCP.Name + "\n\n" + pretty(a.Input)
	}
	return "Use " + a.ClientTool, pretty(a.Input)
}

func prefixed(mark, s string) string {
	if s == "" {
		return ""
	}
	return mark + strings.ReplaceAll(strings.TrimSuffix(s, "\n"), "\n", "\n"+mark) + "\n"
}

// pretty indents raw for reading; numbers stay as sent.
func pretty(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}
