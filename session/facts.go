package session

import (
	"errors"
	"os"
	"strconv"
	"strings"

	"permd/internal/host"
)

// FactsVersion is the version of the facts file.
const FactsVersion = 1

// MaxFacts is the most bytes of a facts file: some 500 sessions.
const MaxFacts = 128 << 10

// ErrFacts is wrapped by every error about a facts file that must not be used.
var ErrFacts = errors.New("facts")

// Hosted is one session a node hosts.
type Hosted struct {
	ID string
	// Parent is the session named as parent, "" for none.
	Parent string
	// FoundBy is where that name was found.
	FoundBy string
}

// Facts is what a node says of itself on disk. Sessions are in the order they
// came; the first is the root.
type Facts struct {
	Node     string
	Instance string
	Client   string
	PID      int    // the client's
	Start    uint64 // the client's start time
	NodePID  int
	Boot     string
	Build    string
	API      int // newest api version
	Sessions []Hosted
}

// Encode returns the one encoding: a line a fact, "key value", sessions last.
func (f Facts) Encode() []byte {
	var b strings.Builder
	line := func(k string, v ...string) { b.WriteString(k + " " + strings.Join(v, " ") + "\n") }
	line("permd-facts", strconv.Itoa(FactsVersion))
	line("node", f.Node)
	line("instance", f.Instance)
	line("client", f.Client)
	line("pid", strconv.Itoa(f.PID))
	line("start", strconv.FormatUint(f.Start, 10))
	line("node-pid", strconv.Itoa(f.NodePID))
	line("boot", f.Boot)
	line("build", f.Build)
	line("api", strconv.Itoa(f.API))
	for _, s := range f.Sessions {
		line("session", s.ID, dash(s.Parent), dash(s.FoundBy))
	}
	return []byte(b.String())
}

// DecodeFacts reads what Encode wrote, and nothing else: it encodes again and
// compares.
func DecodeFacts(b []byte) (Facts, error) {
	bad := func(why string) (Facts, error) { return Facts{}, errors.Join(ErrFacts, errors.New(why)) }
	if len(b) > MaxFacts {
		return bad("file is larger than " + strconv.Itoa(MaxFacts) + " bytes")
	}
	lines := strings.Split(string(b), "\n")
	if lines[0] != "permd-facts "+strconv.Itoa(FactsVersion) {
		return bad("unknown version; the node was started by another permd, restart that agent")
	}
	var f Facts
	for _, l := range lines[1:] {
		k, v, _ := strings.Cut(l, " ")
		switch k {
		case "node":
			f.Node = v
		case "instance":
			f.Instance = v
		case "client":
			f.Client = v
		case "pid":
			f.PID, _ = strconv.Atoi(v)
		case "start":
			f.Start, _ = strconv.ParseUint(v, 10, 64)
		case "node-pid":
			f.NodePID, _ = strconv.Atoi(v)
		case "boot":
			f.Boot = v
		case "build":
			f.Build = v
		case "api":
			f.API, _ = strconv.Atoi(v)
		case "session":
			w := strings.Split(v, " ")
			if len(w) != 3 || !Valid(w[0]) {
				return bad("malformed session line")
			}
			f.Sessions = append(f.Sessions, Hosted{w[0], undash(w[1]), undash(w[2])})
		}
	}
	if !Valid(f.Node) || f.PID <= 0 || f.NodePID <= 0 {
		return bad("node id or pid is missing")
	}
	if string(f.Encode()) != string(b) {
		return bad("not in its one form")
	}
	return f, nil
}

// ReadFacts reads the facts of the node in dir and checks that they name that
// directory.
func ReadFacts(dir Node) (Facts, error) {
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return Facts{}, err
	}
	defer root.Close()
	b, err := host.OpenPrivate(root, "facts", MaxFacts)
	if err != nil {
		return Facts{}, err
	}
	f, err := DecodeFacts(b)
	if err == nil && f.Node != dir.ID() {
		return Facts{}, errors.Join(ErrFacts, errors.New("names another node than its directory"))
	}
	return f, err
}

// WriteFacts replaces the facts of the node in dir atomically.
func WriteFacts(dir Node, f Facts) error {
	root, err := os.OpenRoot(string(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	return host.WriteAtomic(root, "facts", f.Encode(), 0o600, false)
}

// Bind names node as the home of session. It is a hint for finding the node;
// the node's own facts decide.
func Bind(d Dirs, session, node string) error {
	if !Valid(session) || !Valid(node) {
		return errors.New("session or node id is not valid")
	}
	root, err := os.OpenRoot(d.Sessions())
	if err != nil {
		return err
	}
	defer root.Close()
	return host.WriteAtomic(root, session, []byte(node+"\n"), 0o600, false)
}

// Unbind removes the binding of session if it still names node.
func Unbind(d Dirs, session, node string) {
	unbind(d, session, func(n string) bool { return n == node })
}

// unbind removes a binding that names a node which has gone. Somebody may bind
// the session anew at the same time, so the file is moved aside first and looked
// at there: what was not meant goes back, unless there is a newer one already.
func unbind(d Dirs, session string, gone func(node string) bool) {
	if n, err := Home(d, session); err != nil || !gone(n) {
		return
	}
	root, err := os.OpenRoot(d.Sessions())
	if err != nil {
		return
	}
	defer root.Close()
	aside := host.TempName()
	if root.Rename(session, aside) != nil {
		return
	}
	if n, err := home(root, aside); err == nil && !gone(n) {
		_ = root.Link(aside, session) // fails where a newer one is
	}
	_ = root.Remove(aside)
}

// Home returns the node that session was last bound to. The error is
// os.ErrNotExist when it was never bound.
func Home(d Dirs, session string) (string, error) {
	if !Valid(session) {
		return "", errors.New("session id is not valid")
	}
	root, err := os.OpenRoot(d.Sessions())
	if err != nil {
		return "", err
	}
	defer root.Close()
	return home(root, session)
}

func home(root *os.Root, name string) (string, error) {
	b, err := host.OpenPrivate(root, name, MaxID+1)
	if err != nil {
		return "", err
	}
	node, ok := strings.CutSuffix(string(b), "\n")
	if !ok || !Valid(node) {
		return "", errors.Join(ErrFacts, errors.New("binding of a session is malformed"))
	}
	return node, nil
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func undash(s string) string {
	if s == "-" {
		return ""
	}
	return s
}
