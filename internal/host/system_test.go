package host

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

func init() {
	// hide reports what a process that hides its memory can still learn about
	// itself.
	helpers["hide"] = func([]string) int {
		if err := HideMemory(); err != nil {
			os.Stdout.WriteString(err.Error())
			return 1
		}
		exe, exeErr := Exe(os.Getpid())
		_, startErr := StartTime(os.Getpid())
		_, idErr := BootID()
		self, _ := os.Executable()
		if exeErr != nil || startErr != nil || idErr != nil || exe != self {
			return 2
		}
		if list, err := os.ReadDir("/dev/fd"); err != nil || len(list) < 3 {
			return 3
		}
		return 0
	}
}

func TestUptime(t *testing.T) {
	before, err := Uptime()
	if err != nil || before <= 0 {
		t.Fatalf("%v, %v", before, err)
	}
	start := time.Now()
	time.Sleep(20 * time.Millisecond)
	after, err := Uptime()
	if err != nil || after-before < 20*time.Millisecond {
		t.Errorf("20 ms took %v, %v", after-before, err)
	}
	// It runs with the monotonic clock while nothing sleeps.
	if late := time.Since(start) + time.Second; after-before > late {
		t.Errorf("advanced %v in %v", after-before, late)
	}
}

func TestUptimeCountsFromBoot(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("/proc/uptime")
	}
	b, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Skip(err)
	}
	seconds, err := strconv.ParseFloat(strings.Fields(string(b))[0], 64)
	if err != nil {
		t.Fatal(err)
	}
	up, err := Uptime()
	if d := up.Seconds() - seconds; err != nil || d < -1 || d > 10 {
		t.Errorf("uptime %v, /proc/uptime %v s", up, seconds)
	}
}

func TestBootID(t *testing.T) {
	first, err := BootID()
	if err != nil || len(first) != 36 {
		t.Fatalf("%q, %v", first, err)
	}
	if second, err := BootID(); err != nil || second != first {
		t.Errorf("%q, then %q, %v", first, second, err)
	}
	good := "0b7e2f0c-9d0c-4c5a-8a53-0e6c3d6f1a22"
	for in, want := range map[string]string{
		good + "\n": good, strings.ToUpper(good): good,
		"": "", good[1:]: "", good + "0": "", strings.Replace(good, "f", "g", 1): "", strings.Replace(good, "-", "\n", 1): "",
	} {
		if got, err := checkBootID(in); got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
}

func TestHideMemory(t *testing.T) {
	if out, err := helper(t, "hide").Output(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestUserHomeIgnoresTheEnvironment(t *testing.T) {
	want, err := UserHome(0)
	if err != nil || !filepath.IsAbs(want) {
		t.Fatalf("%q, %v", want, err)
	}
	for _, name := range []string{"HOME", "USER", "LOGNAME", "PATH", "XDG_CONFIG_HOME", "LD_PRELOAD"} {
		t.Setenv(name, t.TempDir())
	}
	if got, err := UserHome(0); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	home, err := UserHome(1987654321)
	if home != "" || err == nil || !strings.Contains(err.Error(), "--root DIR") {
		t.Errorf("unknown user: %q, %v", home, err)
	}
}

func TestDetachAttr(t *testing.T) {
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = DetachAttr()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	if sid, err := getsid(cmd.Process.Pid); err != nil || sid != cmd.Process.Pid {
		t.Errorf("session %d of %d, %v", sid, cmd.Process.Pid, err)
	}
}

// The hook links this package; each of these would cost every tool call.
func TestImportsStayLean(t *testing.T) {
	if plain() {
		t.Skip("the build cache is root's")
	}
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Skipf("go list: %v", err)
	}
	deps := strings.Fields(string(out))
	if len(deps) < 10 {
		t.Fatalf("only %q", deps)
	}
	for _, dep := range deps {
		switch dep {
		case "fmt", "net", "os/exec", "os/user", "log", "encoding/json", "text/template", "regexp", "crypto/sha256":
			if runtime.GOOS == "linux" {
				t.Errorf("links %s", dep)
			}
		}
	}
}

// Good and bad ways through everything that opens something leave no
// descriptor open.
func TestNoDescriptorStaysOpen(t *testing.T) {
	base := t.TempDir()
	root := openRoot(t, base)
	touch(t, 0o600, base, "file")
	touch(t, 0o644, base, "wide lock")
	mkdir(t, 0o700, base, "dir")
	cmd := child(t)
	ended := child(t, "true")
	_ = ended.Wait()
	round := func() {
		for _, pid := range []int{cmd.Process.Pid, ended.Process.Pid} {
			if p, err := OpenProcess(pid); err == nil {
				ctx, cancel := shortContext()
				_ = p.Wait(ctx)
				cancel()
				_ = p.Close()
			}
			_, _ = Args(pid)
			_, _ = Ancestors(pid)
		}
		for _, name := range []string{"lock", "wide lock", "dir", "missing/lock"} {
			path := filepath.Join(base, name)
			l, err := TryLock(path)
			if err == nil {
				_, _ = TryLock(path)
				_, _ = Held(path)
				_ = l.Close()
			}
			_, _ = Held(path)
		}
		for _, name := range []string{"file", "dir", "missing", "wide lock"} {
			_, _ = OpenPrivate(root, name, 3)
			_ = WriteAtomic(root, name, []byte("content"), 0o600, true)
		}
		_, _ = BootID()
		_, _ = UserHome(1987654321)
		for _, end := range []bool{true, false} {
			a, b := socketPair(t)
			if p, err := PeerOf(a); end && err == nil {
				_ = p.Close()
			} else if err == nil {
				_ = p.Process().Close()
			}
			_ = a.Close()
			_ = b.Close()
		}
	}
	round()
	before := descriptors(t)
	for range 5 {
		round()
	}
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors open, %d before", after, before)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}
