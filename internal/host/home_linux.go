package host

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxPasswd bounds the password file; a thousand users take 100 KiB.
const maxPasswd = 16 << 20

// getentLimit is how long a directory service may take to name a user.
const getentLimit = 5 * time.Second

// UserHome gives a user's home directory from the password database alone:
// HOME is the caller's to set, and so decides nothing. A user who is not in
// /etc/passwd is asked for through getent, which knows directory services.
func UserHome(uid int) (string, error) {
	b, err := readPasswd("/etc/passwd")
	if err != nil {
		return "", homeError(uid, err)
	}
	home, err := homeIn(string(b), uid)
	if !errors.Is(err, errNoUser) {
		return home, homeError(uid, err)
	}
	b, err = getent(uid)
	if err != nil {
		return "", homeError(uid, errNoUser)
	}
	home, err = homeIn(string(b), uid)
	return home, homeError(uid, err)
}

func readPasswd(path string) ([]byte, error) {
	fd, err := openFD(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readFD(fd, maxPasswd)
}

// homeIn finds the first entry name:password:uid:gid:comment:home:shell of
// uid, as the C library does; lines of another form are none of ours.
func homeIn(passwd string, uid int) (string, error) {
	want := strconv.Itoa(uid)
	for line := range strings.Lines(passwd) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) != 7 || f[2] != want || f[0] == "" || strings.ContainsAny(f[0][:1], "#+-") {
			continue
		}
		return checkHome(f[5])
	}
	return "", errNoUser
}

// getent asks the system's name services, with nothing of our environment.
func getent(uid int) ([]byte, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	child, err := os.StartProcess("/usr/bin/getent",
		[]string{"getent", "passwd", strconv.Itoa(uid)},
		&os.ProcAttr{Env: []string{}, Dir: "/", Files: []*os.File{nil, w, nil}})
	w.Close()
	if err != nil {
		return nil, err
	}
	_ = r.SetReadDeadline(time.Now().Add(getentLimit))
	buf := make([]byte, 4096)
	n := 0
	for n < len(buf) {
		got, err := r.Read(buf[n:])
		n += got
		if err != nil {
			break
		}
	}
	// It has closed its output, or has had its time.
	_ = child.Kill()
	_, err = child.Wait()
	return buf[:n], err
}
