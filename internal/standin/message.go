package standin

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
)

// message is a Messages answer; as the start of a stream it has no content and
// no stop reason yet.
type message struct {
	ID         string     `json:"id"`
	Type       string     `json:"type"`
	Role       string     `json:"role"`
	Model      string     `json:"model"`
	Content    []outBlock `json:"content"`
	StopReason *string    `json:"stop_reason"`
	StopSeq    *string    `json:"stop_sequence"`
	Usage      usage      `json:"usage"`
}

type usage struct {
	Input       int `json:"input_tokens"`
	Output      int `json:"output_tokens"`
	CacheCreate int `json:"cache_creation_input_tokens"`
	CacheRead   int `json:"cache_read_input_tokens"`
}

type outBlock struct {
	Type  string          `json:"type"`
	Text  *string         `json:"text,omitempty"`
	ID    string          `json:"id,omitempty"`
	Name  string          `json:"name,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

func compose(model string, s Step) message {
	m := message{ID: "msg_" + rand.Text(), Type: "message", Role: "assistant", Model: model, Usage: usage{Input: 10, Output: 5}}
	stop := "end_turn"
	for _, c := range s.Calls {
		stop = "tool_use"
		m.Content = append(m.Content, outBlock{Type: "tool_use", ID: "toolu_" + rand.Text(), Name: c.Tool, Input: c.Input})
	}
	if len(s.Calls) == 0 {
		m.Content = []outBlock{{Type: "text", Text: &s.Text}}
	}
	m.StopReason = &stop
	return m
}

// stream sends m as server-sent events in the order that the real service uses.
// A client that hangs up in the middle simply gets no more.
func stream(w http.ResponseWriter, m message) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	start := m
	start.Content, start.StopReason = []outBlock{}, nil
	event(w, "message_start", map[string]any{"message": start})
	for i, b := range m.Content {
		opening, delta := b, map[string]any{}
		if b.Type == "text" {
			empty := ""
			opening.Text = &empty
			delta["type"], delta["text"] = "text_delta", *b.Text
		} else {
			opening.Input = json.RawMessage(`{}`)
			delta["type"], delta["partial_json"] = "input_json_delta", string(b.Input)
		}
		event(w, "content_block_start", map[string]any{"index": i, "content_block": opening})
		event(w, "content_block_delta", map[string]any{"index": i, "delta": delta})
		event(w, "content_block_stop", map[string]any{"index": i})
	}
	event(w, "message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": m.StopReason, "stop_sequence": nil},
		"usage": map[string]int{"output_tokens": m.Usage.Output},
	})
	event(w, "message_stop", map[string]any{})
}

func event(w http.ResponseWriter, kind string, fields map[string]any) {
	fields["type"] = kind
	b, err := encode(fields)
	if err != nil {
		return
	}
	_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, b)
	_ = http.NewResponseController(w).Flush()
}

// encode keeps '<', '>' and '&' as they are: a script's bytes are what is sent.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
