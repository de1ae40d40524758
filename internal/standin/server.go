package standin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxBody bounds one request; a long session of a real client stays far below.
const maxBody = 64 << 20

// Request is one question for an answer that the stand-in got.
type Request struct {
	Scenario string   // "" when the conversation names none
	Step     int      // index of the step that was due
	Model    string   // as the client asked for it
	Tools    []string // names of the tools on offer; none: a side question
	Results  []Result // tool results since the assistant's last turn
	Answer   Step     // what was answered, "$CWD" replaced
	IDs      []string // the tool-use id of each call of Answer, in order
}

// Result is what a client told the model about one tool call.
type Result struct {
	ID      string // the tool-use id
	IsError bool
	Text    string
}

// Server is a running stand-in. Its methods may be called at any time from any
// goroutine, also after Close.
type Server struct {
	cfg    Config
	url    string
	http   *http.Server
	cancel context.CancelFunc
	unhook func() bool
	served chan struct{}
	once   sync.Once

	mu       sync.Mutex
	requests []Request
}

// Start serves cfg on a free port of 127.0.0.1 until Close or the end of ctx.
// It fails on a script that could not be played.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("standin: listen: %w", err)
	}
	base, cancel := context.WithCancel(ctx)
	s := &Server{cfg: cfg, url: "http://" + ln.Addr().String(), cancel: cancel, served: make(chan struct{})}
	s.http = &http.Server{
		Handler:           s.routes(),
		BaseContext:       func(net.Listener) context.Context { return base },
		ReadHeaderTimeout: 10 * time.Second,
	}
	go func() {
		defer close(s.served)
		_ = s.http.Serve(ln) // always ErrServerClosed once Close has run
	}()
	s.unhook = context.AfterFunc(ctx, s.stop)
	return s, nil
}

// URL is the base address that a client takes as ANTHROPIC_BASE_URL.
func (s *Server) URL() string { return s.url }

// Close ends the server and every answer still waiting in a delay. It may be
// called more than once.
func (s *Server) Close() {
	s.unhook()
	s.stop()
	<-s.served
}

func (s *Server) stop() {
	s.once.Do(func() {
		s.cancel()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if errors.Is(s.http.Shutdown(ctx), context.DeadlineExceeded) {
			_ = s.http.Close()
		}
	})
}

// Requests are the questions so far, in the order of their answers.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Told are the texts of the tool results that the client sent, in order of
// arrival, each tool call once though a client repeats its history.
func (s *Server) Told() []string {
	seen := map[string]bool{}
	var told []string
	for _, q := range s.Requests() {
		for _, r := range q.Results {
			if !seen[r.ID] {
				seen[r.ID] = true
				told = append(told, r.Text)
			}
		}
	}
	return told
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", s.messages)
	mux.HandleFunc("POST /v1/messages/count_tokens", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]int{"input_tokens": 100})
	})
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"data": []any{modelInfo("standin")}, "has_more": false, "first_id": "standin", "last_id": "standin"})
	})
	mux.HandleFunc("GET /v1/models/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply(w, http.StatusOK, modelInfo(r.PathValue("id")))
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead { // clients look whether the address answers
			return
		}
		refuse(w, http.StatusNotFound, "not_found_error", "the stand-in does not know this path")
	})
	return mux
}

func modelInfo(id string) map[string]string {
	return map[string]string{"type": "model", "id": id, "display_name": "stand-in for " + id, "created_at": "2026-01-01T00:00:00Z"}
}

func (s *Server) messages(w http.ResponseWriter, r *http.Request) {
	var c conversation
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&c); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request_error", "the request is not a Messages request")
		return
	}
	at := c.place()
	step := c.answer(s.cfg, at)
	if step.Delay > 0 {
		wait := time.NewTimer(step.Delay)
		defer wait.Stop()
		select {
		case <-wait.C:
		case <-r.Context().Done():
			return
		}
	}
	m := compose(c.Model, step)
	q := Request{Scenario: at.scenario, Step: at.step, Model: c.Model, Results: at.results, Answer: step}
	for _, t := range c.Tools {
		q.Tools = append(q.Tools, t.Name)
	}
	for _, b := range m.Content {
		if b.Type == "tool_use" {
			q.IDs = append(q.IDs, b.ID)
		}
	}
	s.mu.Lock()
	s.requests = append(s.requests, q)
	s.mu.Unlock()
	if c.Stream {
		stream(w, m)
		return
	}
	reply(w, http.StatusOK, m)
}

func reply(w http.ResponseWriter, code int, v any) {
	b, err := encode(v)
	if err != nil {
		code, b = http.StatusInternalServerError, []byte(`{}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(b)
}

func refuse(w http.ResponseWriter, code int, kind, text string) {
	reply(w, code, map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": strings.ToValidUTF8(text, "?")}})
}
