package review

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"permd/ask"
	"permd/internal/host"
)

// Masker masks what names the content of the user's work in a record that
// leaves the machine: equal values get equal marks, and nobody without the
// key of this record can try values out. Its zero value masks without telling
// equal ones.
type Masker struct{ key keys }

// OpenMasker reads the key below a review directory. It makes none: a record
// without one is masked with marks that are all alike.
func OpenMasker(dir string) (*Masker, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return &Masker{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("review log: %w", err)
	}
	defer root.Close()
	text, err := host.OpenPrivate(root, keyName, 2*keySize)
	if errors.Is(err, fs.ErrNotExist) {
		return &Masker{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("review log: key: %w", err)
	}
	key, err := hex.DecodeString(string(text))
	if err != nil || len(key) != keySize {
		return nil, fmt.Errorf("review log: key in %q is not %d hex digits; move it away and a new one is made", dir, 2*keySize)
	}
	return &Masker{key}, nil
}

// Text masks a value; an empty one stays empty.
func (m *Masker) Text(s string) string {
	switch {
	case s == "":
		return ""
	case m.key == nil:
		return "[masked]"
	}
	return "[masked hmac:" + m.key.sum(s) + "]"
}

// Line masks a line: the reason, the files of rules, the fields that are not
// public, and of the action all but its client, its tool and its call's id. l
// stays as it is.
func (m *Masker) Line(l *Line) Line {
	out := *l
	out.Reason = m.Text(l.Reason)
	out.By = m.by(l.By)
	if a := l.Action; a != nil {
		out.Action = &Action{Client: a.Client, Tool: a.Tool, ClientTool: m.Text(a.ClientTool), Call: a.Call, Cwd: m.Text(a.Cwd),
			Command: m.Text(a.Command), Input: m.Text(a.Input), MorePaths: a.MorePaths, URL: m.Text(a.URL), Query: m.Text(a.Query),
			Server: m.Text(a.Server), Name: m.Text(a.Name), Source: m.Text(a.Source), Agent: m.Text(a.Agent)}
		for _, p := range a.Paths {
			out.Action.Paths = append(out.Action.Paths, ask.Path{Given: m.Text(p.Given), Real: m.Text(p.Real), Access: p.Access})
		}
	}
	if l.Fields != nil {
		out.Fields = make(map[string]string, len(l.Fields))
		for k, v := range l.Fields {
			if ClassOf(Key(k)) != Public {
				v = m.Text(v)
			}
			out.Fields[k] = v
		}
	}
	return out
}

func (m *Masker) by(b *ask.By) *ask.By {
	if b == nil {
		return nil
	}
	out := *b
	if b.Rule != nil {
		r := *b.Rule
		r.File = m.Text(r.File)
		out.Rule = &r
	}
	out.Inner = m.by(b.Inner)
	return &out
}
