package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"permd/api"
	"permd/ask"
	"permd/desk"
	"permd/internal/host"
	"permd/policy"
	"permd/review"
	"permd/session"
)

// lookTime bounds one look at something that may hang.
const lookTime = 10 * time.Second

// enoughDisk is what the record should have left, in bytes. A full disk
// denies every call.
const enoughDisk = 64 << 20

const permdArea = "permd"

// lookAtPermd looks at permd's own places and processes. It changes nothing.
func (x *doctor) lookAtPermd(ctx context.Context) {
	x.lookAtPrograms()
	x.lookAtDirs()
	x.lookAtConfig()
	x.lookAtRules()
	x.lookAtRecord()
	x.lookAtDesk(ctx)
	x.lookAtNodes(ctx)
	x.lookAtSystem()
}

func (x *doctor) lookAtPrograms() {
	hook, err := hookBeside(true)
	if err != nil {
		x.add(permdArea, levelFix, err.Error(), "make install, then permd setup claude")
		return
	}
	if _, err := hookBeside(false); err != nil {
		x.add(permdArea, levelNote, "this permd lies in a temporary place: "+filepath.Dir(hook), "make install, and use the installed one")
		return
	}
	x.ok(permdArea, "%s is there and may be run", hook)
}

// lookAtDirs checks owner, mode and kind of each directory. A missing one is
// made at first use.
func (x *doctor) lookAtDirs() {
	d, bad := x.dirs, false
	for _, dir := range []string{d.Config, d.State, d.Run, d.Nodes(), d.Sessions(), d.Desk(), d.Review()} {
		err := host.CheckDir(dir, 0o700)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		text, remedy := err.Error(), "make it a directory of yours with mode 0700"
		var de *host.DirError
		if errors.As(err, &de) && de.Remedy != "" {
			text, remedy = ask.Quote(de.Path)+" "+de.Problem, de.Remedy
		}
		x.add(permdArea, levelFix, text, remedy)
		bad = true
	}
	if n := len(d.Node(session.NodeID(1<<22, ^uint64(0))).Sock()); n > host.MaxSocketPath {
		x.add(permdArea, levelFix, fmt.Sprintf("socket paths would have %d bytes; the system allows %d", n, host.MaxSocketPath), "use a shorter --root")
		bad = true
	}
	if bad {
		return
	}
	x.ok(permdArea, "directories are yours and private: %s, %s, %s", d.Config, d.State, d.Run)
}

func (x *doctor) lookAtConfig() {
	if _, err := settings(x.dirs); err != nil {
		x.add(permdArea, levelFix, err.Error(), "correct the file; until then no new session can start")
		return
	}
	x.ok(permdArea, "settings are readable")
}

// lookAtRules reads the rule files as they are now. It applies nothing, so an
// edit that waits for a person goes on waiting.
func (x *doctor) lookAtRules() {
	files, n, bad := map[string]policy.Layer{
		filepath.Join(x.dirs.Config, "policy.toml"):    policy.LayerUser,
		filepath.Join(x.project, ".permd/policy.toml"): policy.LayerProject,
	}, 0, false
	for dir, layer := range map[string]policy.Layer{x.dirs.Managed: policy.LayerManaged, filepath.Join(x.dirs.Config, "policy.d"): policy.LayerUser} {
		names, _ := filepath.Glob(filepath.Join(dir, "*.toml"))
		for _, name := range names {
			files[name] = layer
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		b, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var problems policy.Problems
		if err == nil {
			_, err = policy.Decode(name, b, files[name])
		}
		switch {
		case err == nil:
			n++
		case errors.As(err, &problems):
			for _, p := range problems {
				x.add(permdArea, levelFix, "rules: "+p.Error(), "correct it; until then the last good rules stay, and with none everything asks")
			}
			bad = true
		default:
			x.add(permdArea, levelFix, "rules: "+err.Error(), "make the file readable")
			bad = true
		}
	}
	if !bad {
		x.ok(permdArea, "rules are without fault (%d files)", n)
	}
}

func (x *doctor) lookAtRecord() {
	dir := x.dirs.Review()
	r, err := review.Verify(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		x.ok(permdArea, "there is no record yet; the first decision begins it in %s", dir)
	case err != nil:
		x.add(permdArea, levelBlind, "the record cannot be read: "+err.Error(), "look at owner and mode of "+dir)
	case r.Status == review.Tampered:
		x.add(permdArea, levelFix, "the record was tampered with: "+r.Problems[0].String(), "permd review verify shows every place; find out who wrote there")
	case r.Status == review.Incomplete:
		x.add(permdArea, levelNote, "the record has gaps that an accident explains", "permd review verify shows each; nothing can put them back")
	default:
		x.ok(permdArea, "the record is intact: %s", count(len(r.Logs), "log"))
	}
	x.lookAtRecordDisk()
}

// lookAtRecordDisk asks whether the next decision can be recorded: without a
// record nothing is allowed.
func (x *doctor) lookAtRecordDisk() {
	dir := x.dirs.Review()
	for {
		if _, err := os.Stat(dir); err == nil || dir == "/" {
			break
		}
		dir = filepath.Dir(dir)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		x.add(permdArea, levelFix, "the record cannot be written below "+dir+": "+err.Error(), "without a record every call is refused; make it writable")
		return
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		x.add(permdArea, levelBlind, dir+": "+err.Error(), "look whether the disk is well")
		return
	}
	if free := uint64(st.Bavail) * uint64(st.Bsize); free < enoughDisk {
		x.add(permdArea, levelFix, fmt.Sprintf("%d MiB are left for the record below %s", free>>20, dir), "free space: when the disk is full every call is refused")
		return
	}
	x.ok(permdArea, "the record can be written")
}

func (x *doctor) lookAtDesk(ctx context.Context) {
	held, err := host.Held(desk.LockFile(x.dirs))
	switch {
	case errors.Is(err, fs.ErrNotExist) || err == nil && !held:
		x.ok(permdArea, "no desk is running; permd desk opens one")
		return
	case err != nil:
		x.add(permdArea, levelBlind, "desk: "+err.Error(), "look at owner and mode of "+x.dirs.Desk())
		return
	}
	ctx, cancel := bounded(ctx)
	defer cancel()
	w, err := api.Probe(ctx, desk.Sock(x.dirs), version)
	if err != nil {
		x.add(permdArea, levelFix, "the desk process runs but does not answer: "+err.Error(), "permd stop, then permd desk")
		return
	}
	x.sameBuild("the desk", w.Build, "permd stop, then permd desk")
}

// lookAtNodes asks every living node how it is. Each also says what it cannot
// use of the policy files.
func (x *doctor) lookAtNodes(ctx context.Context) {
	nodes, err := livingNodes(x.dirs)
	if err != nil {
		x.add(permdArea, levelBlind, "nodes: "+err.Error(), "look at owner and mode of "+x.dirs.Nodes())
		return
	}
	problems := map[string]bool{}
	for _, n := range nodes {
		ctx, cancel := bounded(ctx)
		var st api.Status
		err := callNode(ctx, x.dirs, n, api.OpStatus, nil, &st)
		cancel()
		if err != nil {
			pid := "unknown"
			if f, ferr := session.ReadFacts(x.dirs.Node(n)); ferr == nil {
				pid = strconv.Itoa(f.PID)
			}
			x.add(permdArea, levelFix, "node "+n+" of process "+pid+" lives but does not answer: "+err.Error(), "its calls are refused meanwhile; restart that agent")
			continue
		}
		if st.Policy != "" {
			problems[st.Policy] = true
		}
		x.sameBuild("node "+n, st.Build, "it goes on with the older program until its agent ends")
	}
	for p := range problems {
		x.add(permdArea, levelFix, "rules as the nodes see them: "+p, "correct it; until then the last good rules stay")
	}
}

func (x *doctor) sameBuild(who, build, remedy string) {
	if build != version {
		x.add(permdArea, levelNote, who+" runs permd "+build+", this is "+version, remedy)
		return
	}
	x.ok(permdArea, "%s answers", who)
}

// lookAtSystem looks at what the system must give.
func (x *doctor) lookAtSystem() {
	p, err := host.OpenProcess(os.Getpid())
	if err != nil {
		x.add(permdArea, levelFix, "this system cannot watch a process: "+err.Error(), "permd needs Linux 5.3 or later, or macOS")
		return
	}
	p.Close()
	b, err := os.ReadFile(filepath.Join(x.proc, "sys/fs/inotify/max_user_instances"))
	if err != nil {
		return // not Linux: there is no such limit
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		x.add(permdArea, levelBlind, "inotify limit: "+err.Error(), "look at "+x.proc)
		return
	}
	if nodes, _ := livingNodes(x.dirs); len(nodes) > limit/2 {
		x.add(permdArea, levelNote, fmt.Sprintf("%d nodes share %d inotify instances with everything else you run", len(nodes), limit),
			"beyond the limit an ask between sessions may take a second longer; sysctl fs.inotify.max_user_instances=1024")
		return
	}
	x.ok(permdArea, "the system has what permd needs (%d inotify instances a user)", limit)
}
