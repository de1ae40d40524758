package hook

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
)

// usage is also the text of every error about the command line.
const usage = "usage: permd-hook [--root DIR] [--gate | --observe] [--no-start] CLIENT"

// ensureOption is followed by PID:START.
const ensureOption = "--ensure="

type options struct {
	root    string // "" or absolute
	gate    bool
	noStart bool
	// observe only has the node record what it would have decided; the node
	// sees it among the arguments.
	observe bool
	client  string
	// ensure is an agent that is to have a node, and nothing else is to be
	// done; not in the usage, it is for Ensure.
	ensure Agent
}

func parseArgs(args []string) (options, error) {
	var o options
	for len(args) > 0 {
		arg := args[0]
		args = args[1:]
		switch {
		case arg == "--gate":
			o.gate = true
		case arg == "--no-start":
			o.noStart = true
		case arg == "--observe":
			o.observe = true
		case arg == "--root":
			if len(args) == 0 {
				return options{}, errors.New("--root needs a directory; " + usage)
			}
			o.root, args = args[0], args[1:]
			if err := checkRoot(o.root); err != nil {
				return options{}, err
			}
		case strings.HasPrefix(arg, "--root="):
			o.root = strings.TrimPrefix(arg, "--root=")
			if err := checkRoot(o.root); err != nil {
				return options{}, err
			}
		case strings.HasPrefix(arg, ensureOption):
			pid, start, _ := strings.Cut(strings.TrimPrefix(arg, ensureOption), ":")
			var err1, err2 error
			o.ensure.PID, err1 = strconv.Atoi(pid)
			o.ensure.Start, err2 = strconv.ParseUint(start, 10, 64)
			if err1 != nil || err2 != nil || o.ensure.PID <= 0 {
				return options{}, errors.New(quote(arg) + " is no process; " + usage)
			}
		case strings.HasPrefix(arg, "-"):
			return options{}, errors.New("unknown option " + quote(arg) + "; " + usage)
		case o.client != "":
			return options{}, errors.New("more than one client; " + usage)
		default:
			o.client = arg
		}
	}
	switch {
	case o.client == "":
		return options{}, errors.New("no client named; " + usage)
	case o.gate && o.observe:
		return options{}, errors.New("--observe decides nothing, so it is no gate; " + usage)
	case o.gate && o.noStart:
		return options{}, errors.New("--no-start is not for gates: a gate without a node could only refuse; " + usage)
	case o.ensure.PID != 0 && (o.gate || o.noStart || o.observe):
		return options{}, errors.New(ensureOption + " stands alone; " + usage)
	}
	o.ensure.Client = o.client
	return o, nil
}

// checkRoot refuses the empty root too: a script that lost its variable must
// not fall back to the user's own directories.
func checkRoot(root string) error {
	if !filepath.IsAbs(root) {
		return errors.New("--root " + quote(root) + " is not an absolute path; " + usage)
	}
	return nil
}

// quote shows text from outside: quoted, and cut.
func quote(s string) string {
	const most = 200
	if len(s) > most {
		return strconv.Quote(s[:most]) + "…"
	}
	return strconv.Quote(s)
}
