package host

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestParseStat(t *testing.T) {
	rest := " 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 9999 1"
	for _, c := range []struct {
		text string
		want procStat
		ok   bool
	}{
		{"42 (sh) S" + rest, procStat{7, 12345, false}, true},
		{"42 (a) S 1 (b) R" + rest, procStat{7, 12345, false}, true},
		{"42 (\n) Z" + rest + "\n", procStat{7, 12345, true}, true},
		{"42 () X" + rest, procStat{7, 12345, true}, true},
		{"", procStat{}, false},
		{"42 (sh", procStat{}, false},
		{"42 sh S" + rest, procStat{}, false},
		{"42 (sh) S 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0", procStat{}, false},
		{"42 (sh) S" + strings.Replace(rest, " 7 ", " x ", 1), procStat{}, false},
		{"42 (sh) S" + strings.Replace(rest, " 7 ", " -7 ", 1), procStat{}, false},
		{"42 (sh) S" + strings.Replace(rest, "12345", "-1", 1), procStat{}, false},
		{"42 (sh) S" + strings.Replace(rest, "12345", "99999999999999999999", 1), procStat{}, false},
	} {
		got, err := parseStat(c.text)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add("42 (a) S 1 (b) R 7 8 9 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 12345 9999 1")
	f.Add("42 (sh")
	f.Fuzz(func(t *testing.T, text string) {
		st, err := parseStat(text)
		if err != nil && st != (procStat{}) || st.parent < 0 {
			t.Errorf("%q: %+v, %v", text, st, err)
		}
	})
}

// A kernel without SO_PEERPIDFD leaves only the number.
func TestPeerByNumber(t *testing.T) {
	uid := uint32(os.Geteuid())
	cmd := child(t)
	pid := cmd.Process.Pid
	p, err := peerByNumber(pid, uid)
	if err != nil || p.PID() != pid || !p.Alive() {
		t.Fatalf("%v, %v", p, err)
	}
	defer p.Close()
	if p, err := peerByNumber(pid, uid+1); p != nil || !errors.Is(err, ErrNoProcess) {
		t.Errorf("another user's process took the number: %v, %v", p, err)
	}
	_ = cmd.Process.Kill()
	if err := p.Wait(soon(t)); err != nil {
		t.Fatal(err)
	}
	if p, err := peerByNumber(pid, uid); p != nil || !errors.Is(err, ErrNoProcess) {
		t.Errorf("zombie: %v, %v", p, err)
	}
	_ = cmd.Wait()
	if p, err := peerByNumber(pid, uid); p != nil || !errors.Is(err, ErrNoProcess) {
		t.Errorf("reaped: %v, %v", p, err)
	}
}

func TestReadLimits(t *testing.T) {
	if _, err := readProc(os.Getpid(), "/status", 10); !errors.Is(err, errTooLarge) {
		t.Errorf("a longer entry: %v", err)
	}
	b, err := readProc(os.Getpid(), "/smaps", 8<<20)
	if err != nil || len(b) < 4096 {
		t.Errorf("an entry of several reads: %d bytes, %v", len(b), err)
	}
}

func TestHomeIn(t *testing.T) {
	for _, c := range []struct {
		name, passwd string
		uid          int
		want         string
		err          error
	}{
		{"plain", "a:x:7:7::/home/a:/bin/sh\n", 7, "/home/a", nil},
		{"no line end", "a:x:7:7::/home/a:/bin/sh", 7, "/home/a", nil},
		{"first of two", "a:x:7:7::/home/a:\nb:x:7:7::/home/b:\n", 7, "/home/a", nil},
		{"cleaned", "a:x:7:7::/home//a/:\n", 7, "/home/a", nil},
		{"number inside another", "a:x:77:7::/home/a:\n", 7, "", errNoUser},
		{"group is not user", "a:x:8:7::/home/a:\n", 7, "", errNoUser},
		{"empty file", "", 7, "", errNoUser},
		{"comment", "#a:x:7:7::/home/a:\n", 7, "", errNoUser},
		{"directory service", "+a:x:7:7::/home/a:\n", 7, "", errNoUser},
		{"nameless", ":x:7:7::/home/a:\n", 7, "", errNoUser},
		{"too short", "a:x:7:7:/home/a:/bin/sh\n", 7, "", errNoUser},
		{"too long", "a:x:7:7::/home/a:/bin/sh:\n", 7, "", errNoUser},
		{"no home", "a:x:7:7:::/bin/sh\n", 7, "", errNoHome},
		{"relative home", "a:x:7:7::home/a:/bin/sh\n", 7, "", errNoHome},
	} {
		got, err := homeIn(c.passwd, c.uid)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func TestGetentGivesTheSameHome(t *testing.T) {
	if _, err := os.Stat("/usr/bin/getent"); err != nil {
		t.Skip(err)
	}
	b, err := getent(0)
	if err != nil {
		t.Fatal(err)
	}
	got, err := homeIn(string(b), 0)
	if want, wantErr := UserHome(0); err != nil || wantErr != nil || got != want {
		t.Errorf("%q, %v; want %q, %v", got, err, want, wantErr)
	}
}

// What HideMemory promises about /proc, seen by a process of the same user.
func TestHiddenProcess(t *testing.T) {
	path := socketPath(t)
	l := listen(t, path)
	hidden, _ := dialer(t, "dial hidden", path)
	accept(t, l)
	shown, _ := dialer(t, "dial", path)
	accept(t, l)
	for _, entry := range []string{"environ", "exe", "fd", "cwd", "mem"} {
		for _, c := range []struct {
			pid     int
			refused bool
		}{{hidden.Process.Pid, true}, {shown.Process.Pid, false}} {
			name := "/proc/" + strconv.Itoa(c.pid) + "/" + entry
			f, err := os.Open(name)
			if err == nil {
				_ = f.Close()
			}
			if os.Geteuid() == 0 {
				continue // root reads everything
			}
			if entry == "mem" && !c.refused {
				continue // a security module may refuse this one to anybody
			}
			if refused := errors.Is(err, os.ErrPermission); refused != c.refused {
				t.Errorf("%s: %v, want refused %v", name, err, c.refused)
			}
		}
	}
	pid := hidden.Process.Pid
	if args, err := Args(pid); err != nil || len(args) == 0 {
		t.Errorf("arguments %q, %v", args, err)
	}
	if parent, err := ParentPID(pid); err != nil || parent != os.Getpid() {
		t.Errorf("parent %d, %v", parent, err)
	}
	if uid, err := effectiveUID(pid); err != nil || int(uid) != os.Geteuid() {
		t.Errorf("user %d, %v", uid, err)
	}
	if _, err := Exe(pid); os.Geteuid() != 0 && !errors.Is(err, os.ErrPermission) {
		t.Errorf("program: %v", err)
	}
	p := open(t, pid)
	_ = hidden.Process.Kill()
	if err := p.Wait(soon(t)); err != nil {
		t.Error(err)
	}
}
