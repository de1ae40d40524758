package session

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"permd/internal/host"
)

// ManagedPolicy is where an administrator's rules lie.
const ManagedPolicy = "/etc/permd/policy.d"

// Dirs are the places permd keeps things. They come from the password
// database or from an absolute --root, never from HOME, XDG_*, PATH or
// PERMD_*: an agent or a repository can set those.
type Dirs struct {
	Root    string // the --root given, "" without one
	Config  string
	State   string
	Run     string
	Managed string
	Home    string // the user's home from the password database, for "~"
}

// Find returns the directories. root must be "" or absolute.
func Find(root string) (Dirs, error) {
	home, err := host.UserHome(os.Getuid())
	if err != nil {
		return Dirs{}, errors.New("home directory: " + err.Error())
	}
	if root != "" {
		if !filepath.IsAbs(root) {
			return Dirs{}, errors.New("--root must be an absolute path")
		}
		root = filepath.Clean(root)
		return Dirs{Root: root, Home: home, Managed: ManagedPolicy,
			Config: filepath.Join(root, "config"), State: filepath.Join(root, "state"), Run: filepath.Join(root, "run")}, nil
	}
	run, err := runDir(home)
	if err != nil {
		return Dirs{}, err
	}
	return Dirs{Home: home, Managed: ManagedPolicy, Run: run,
		Config: filepath.Join(home, ".config", "permd"), State: filepath.Join(home, ".local", "state", "permd")}, nil
}

// RunDir is the runtime directory alone: all a hook needs.
func RunDir(root string) (string, error) {
	if root != "" {
		if !filepath.IsAbs(root) {
			return "", errors.New("--root must be an absolute path")
		}
		return filepath.Join(root, "run"), nil
	}
	if d := userRun(); d != "" {
		return d, nil
	}
	home, err := host.UserHome(os.Getuid())
	if err != nil {
		return "", errors.New("home directory: " + err.Error())
	}
	return runDir(home)
}

func runDir(home string) (string, error) {
	if d := userRun(); d != "" {
		return d, nil
	}
	if home == "" || !filepath.IsAbs(home) {
		return "", errors.New("the password database names no home directory for this user; use --root DIR")
	}
	return filepath.Join(home, ".local", "state", "permd", "run"), nil
}

// userRun is /run/user/<uid>/permd if the login manager's directory is ours
// and private, else "".
func userRun() string {
	base := "/run/user/" + strconv.Itoa(os.Getuid())
	if host.CheckDir(base, 0o700) != nil {
		return ""
	}
	return base + "/permd"
}

// Make creates what is missing of the three directories and verifies owner,
// mode and kind of each. Its error names the directory and the remedy.
func (d Dirs) Make() error {
	for _, dir := range []string{d.Config, d.State, d.Run} {
		if err := host.MakeDir(dir); err != nil {
			return err
		}
	}
	for _, dir := range []string{d.Nodes(), d.Sessions()} {
		if err := host.MakeDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// Nodes is where node directories lie.
func (d Dirs) Nodes() string { return filepath.Join(d.Run, "nodes") }

// Sessions is where each session's node is named.
func (d Dirs) Sessions() string { return filepath.Join(d.Run, "sessions") }

// Desk is the desk process's directory: lock and sock.
func (d Dirs) Desk() string { return filepath.Join(d.Run, "desk") }

// Review is the review log's directory.
func (d Dirs) Review() string { return filepath.Join(d.State, "review") }

// Node is the directory of one node.
func (d Dirs) Node(id string) Node { return Node(filepath.Join(d.Nodes(), id)) }

// Node is a node's directory.
type Node string

// ID is the node's id.
func (n Node) ID() string { return filepath.Base(string(n)) }

// Facts, Lock, Beat, Sock and Mail are the entries of a node's directory.
func (n Node) Facts() string { return filepath.Join(string(n), "facts") }

// Lock is held with flock for the node's life.
func (n Node) Lock() string { return filepath.Join(string(n), "lock") }

// Beat is the heartbeat.
func (n Node) Beat() string { return filepath.Join(string(n), "beat") }

// Sock is the unix socket.
func (n Node) Sock() string { return filepath.Join(string(n), "sock") }

// Mail is the mailbox.
func (n Node) Mail() string { return filepath.Join(string(n), "mail") }
