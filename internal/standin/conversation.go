package standin

import (
	"encoding/json"
	"regexp"
	"strings"
)

// The parts of a Messages request that choose an answer. Everything else a
// client sends is left alone, so a newer client does not break a script.
type conversation struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role    string  `json:"role"`
		Content content `json:"content"`
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

// content is a list of blocks on the wire, or a bare string for one text block.
type content []block

type block struct {
	Type      string  `json:"type"`
	Text      string  `json:"text"`
	ToolUseID string  `json:"tool_use_id"`
	IsError   bool    `json:"is_error"`
	Content   content `json:"content"`
}

func (c *content) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) == nil {
		*c = content{{Type: "text", Text: s}}
		return nil
	}
	return json.Unmarshal(b, (*[]block)(c))
}

func (c content) text() string {
	var parts []string
	for _, b := range c {
		if b.Type == "text" {
			parts = append(parts, b.Text)
		}
	}
	return strings.Join(parts, "\n")
}

var mark = regexp.MustCompile(`SCENARIO:([A-Za-z0-9_.-]+)`)

// where is the place of a conversation in the scripts.
type where struct {
	scenario string   // "" when no user text names one
	step     int      // tool-use turns of the assistant since the marker
	results  []Result // what the client sent since the last assistant turn
}

// place reads where a conversation stands. The count starts again at each
// marker, so a person may run one scenario after another in one session.
func (c *conversation) place() where {
	var w where
	for _, m := range c.Messages {
		if m.Role == "assistant" {
			for _, b := range m.Content {
				if b.Type == "tool_use" {
					w.step++
					break
				}
			}
			w.results = nil
			continue
		}
		for _, b := range m.Content {
			switch b.Type {
			case "text":
				if all := mark.FindAllStringSubmatch(b.Text, -1); all != nil {
					w.scenario, w.step = all[len(all)-1][1], 0
				}
			case "tool_result":
				w.results = append(w.results, Result{ID: b.ToolUseID, IsError: b.IsError, Text: b.Content.text()})
			}
		}
	}
	return w
}

// answer is the script's next step for a conversation at w. A request that
// offers no tools is a side question of the client (a title, a summary).
func (c *conversation) answer(cfg Config, w where) Step {
	if len(c.Tools) == 0 {
		return Say("title")
	}
	steps, known := cfg.Scenarios[w.scenario]
	switch {
	case !known:
		return Say("no scenario")
	case w.step >= len(steps):
		return Say(Done)
	}
	return steps[w.step].in(cfg.Cwd)
}
