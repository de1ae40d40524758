package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"permd/ask"
	claudeset "permd/clients/claude/settings"
	"permd/internal/host"
	"permd/review"
	"permd/session"
)

func init() { commands = append(commands, setupCommand) }

// managedClaude is the root-owned file that survives what a user or a
// repository can switch off.
const managedClaude = "/etc/claude-code/managed-settings.d/50-permd.json"

type setupOptions struct {
	undo, system, yes, dry, temp, observe bool
	file                                  string
}

func setupCommand(a *app) *cobra.Command {
	var o setupOptions
	c := &cobra.Command{
		Use:   "setup claude",
		Short: "Put Claude Code under permd, or take it out again",
		Long: "setup adds permd's hooks to Claude Code's settings and sets Claude's own base to ask,\n" +
			"so that a dead hook falls back to a prompt and not to a run. It shows the change\n" +
			"first, changes nothing the second time, and --undo takes away only what it added and\n" +
			"puts back what it took, if that is still as it left it.\n\n" +
			"--observe installs hooks that decide nothing and say nothing to Claude: what permd would\n" +
			"have decided is recorded (permd review tail), Claude's own settings stay as they are. It is\n" +
			"for trying rules out; permd setup claude replaces it.\n\n" +
			"Exit codes: 0 done or nothing to do, 1 not confirmed or the file could not be changed,\n" +
			"2 used wrongly.",
		Args:      cobra.ExactArgs(1),
		ValidArgs: []string{"claude"},
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] != "claude" {
				return usage("setup knows claude; %q is not known", args[0])
			}
			if o.observe && o.undo {
				return usage("--undo takes out what --observe installed as well; leave --observe out")
			}
			return a.setup(o)
		},
	}
	c.Flags().BoolVar(&o.undo, "undo", false, "take permd out again")
	c.Flags().BoolVar(&o.observe, "observe", false, "record what would have been decided, and decide nothing")
	c.Flags().BoolVar(&o.system, "system", false, "write the root-owned file for all users ("+managedClaude+")")
	c.Flags().BoolVarP(&o.yes, "yes", "y", false, "do not ask before changing the file")
	c.Flags().BoolVar(&o.dry, "dry-run", false, "show the change and leave")
	c.Flags().BoolVar(&o.temp, "allow-temporary-path", false, "install hooks that point to a temporary directory")
	c.Flags().MarkHidden("allow-temporary-path")
	c.Flags().StringVar(&o.file, "file", "", "the settings file (default: ~/.claude/settings.json)")
	return c
}

func (a *app) setup(o setupOptions) error {
	d, err := a.dirs()
	if err != nil {
		return err
	}
	file := o.file
	switch {
	case o.system:
		if os.Getuid() != 0 {
			return &exitError{1, errors.New("--system writes a file of root; run it with sudo")}
		}
		file = managedClaude
	case file == "":
		file = filepath.Join(d.Home, ".claude", "settings.json")
	}
	if !filepath.IsAbs(file) {
		return usage("--file must be an absolute path")
	}
	before, err := readSettings(file)
	if err != nil {
		return err
	}
	memo := filepath.Join(d.State, "setup", memoName(file))
	var change *claudeset.Change
	if o.undo {
		taken, err := readTaken(memo)
		if err != nil {
			return err
		}
		change, err = claudeset.Undo(before, taken)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	} else {
		hook, err := hookBeside(o.temp)
		if err != nil {
			return &exitError{1, err}
		}
		install := claudeset.Install
		if o.observe {
			install = claudeset.Observe
		}
		change, err = install(before, hook, a.root)
		if errors.Is(err, claudeset.ErrGoverned) {
			return &exitError{1, fmt.Errorf("%s: %w", file, err)}
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	if !change.Changes() {
		fmt.Fprintf(a.out, "%s: nothing to change\n", file)
		return nil
	}
	fmt.Fprintf(a.out, "%s\n", file)
	for _, l := range change.Lines {
		fmt.Fprintf(a.out, "  %s\n", ask.Visible(l))
	}
	if o.dry {
		return nil
	}
	if !o.yes {
		ok, err := a.confirm("Change this file?")
		if err != nil || !ok {
			return &exitError{1, errors.Join(errors.New("nothing was changed"), err)}
		}
	}
	if err := a.applySetup(d, file, memo, before, change, o.undo); err != nil {
		return err
	}
	if o.observe {
		fmt.Fprintln(a.out, "observing only: permd decides nothing; put Claude under it with: permd setup claude")
	}
	return nil
}

// applySetup writes the memory of what was taken first, so that a crash in
// between never loses it.
func (a *app) applySetup(d session.Dirs, file, memo string, before []byte, c *claudeset.Change, undo bool) error {
	now, err := readSettings(file)
	if err != nil {
		return err
	}
	if !bytes.Equal(now, before) {
		return &exitError{1, fmt.Errorf("%s changed meanwhile; run the command again", file)}
	}
	if !undo {
		old, err := readTaken(memo)
		if err != nil {
			return err
		}
		taken, err := withFile(append(old, c.Taken...), file)
		if err != nil {
			return err
		}
		b, err := json.MarshalIndent(taken, "", "  ")
		if err != nil {
			return err
		}
		if err := host.MakeDir(filepath.Dir(memo)); err != nil {
			return err
		}
		if err := replaceFile(memo, append(b, '\n'), 0o600); err != nil {
			return err
		}
	}
	mode := os.FileMode(0o600)
	if fi, err := os.Stat(file); err == nil {
		mode = fi.Mode().Perm()
	} else if file == managedClaude {
		mode = 0o644
	}
	if err := os.MkdirAll(filepath.Dir(file), dirMode(file)); err != nil {
		return err
	}
	if err := replaceFile(file, c.After, mode); err != nil {
		return err
	}
	if undo {
		os.Remove(memo)
	}
	name := review.SetupChanged
	if undo {
		name = review.SetupUndone
	}
	if err := a.note(d, review.Event{Name: name, Fields: []review.Field{{Key: review.KeyPath, Value: file},
		{Key: review.KeyDifference, Value: strings.Join(c.Lines, "; ")}}}); err != nil {
		fmt.Fprintln(a.err, "permd: the file was changed, but not the record: "+err.Error())
	}
	fmt.Fprintln(a.out, "done; sessions that run already keep their old hooks until they are restarted")
	return nil
}

func dirMode(file string) os.FileMode {
	if file == managedClaude {
		return 0o755
	}
	return 0o700
}

// readSettings reads a settings file; a missing one is empty. A symlink is
// followed, since people keep their settings in a repository.
func readSettings(file string) ([]byte, error) {
	fi, err := os.Stat(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > claudeset.MaxFile {
		return nil, &exitError{1, fmt.Errorf("%s is no regular file of at most %d bytes; nothing was changed", file, claudeset.MaxFile)}
	}
	return os.ReadFile(file)
}

func readTaken(memo string) ([]claudeset.Taken, error) {
	b, err := os.ReadFile(memo)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var t []claudeset.Taken
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fmt.Errorf("%s: %w; move it away to go on without putting anything back", memo, err)
	}
	return t, nil
}

// replaceFile writes file through a temporary sibling. A symlink keeps
// pointing to the file it names.
func replaceFile(file string, b []byte, mode os.FileMode) error {
	if real, err := filepath.EvalSymlinks(file); err == nil {
		file = real
	}
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return err
	}
	defer root.Close()
	return host.WriteAtomic(root, filepath.Base(file), b, mode, true)
}

// hookBeside is the absolute path of permd-hook beside this binary. A
// temporary path is refused: the client would lose its gate without a word.
func hookBeside(temp bool) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	self, err = filepath.EvalSymlinks(self)
	if err != nil {
		return "", err
	}
	dir := filepath.Dir(self)
	hook := filepath.Join(dir, "permd-hook")
	if fi, err := os.Stat(hook); err != nil || !fi.Mode().IsRegular() || fi.Mode()&0o111 == 0 {
		return "", fmt.Errorf("%s is missing: permd and permd-hook belong side by side; run: make install", hook)
	}
	if !temp && (strings.Contains(dir, "/go-build") || underTemp(dir)) {
		return "", fmt.Errorf("%s is a temporary place; run: make install, then setup with the installed permd", dir)
	}
	return hook, nil
}

func underTemp(dir string) bool {
	for _, t := range []string{"/tmp", "/var/tmp", "/dev/shm", filepath.Clean(os.TempDir())} {
		if dir == t || strings.HasPrefix(dir, t+"/") {
			return true
		}
	}
	return false
}

// shortName makes a file name of a path.
func shortName(path string) string { return ask.BodyDigest([]byte(path)).String()[:12] }
