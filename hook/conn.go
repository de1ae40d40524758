package hook

import (
	"errors"
	"io/fs"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"permd/api/hookwire"
	"permd/internal/host"
	"permd/session"
)

// errNoNode says that nothing listens: the node was never started, or ended.
var errNoNode = errors.New("no node is running")

// conn is a connection to a node. It is made of plain calls: package net would
// double what it costs to start this program.
type conn struct {
	fd   int
	node session.Node
}

// dial connects to the node in dir. The error is errNoNode when nothing
// listens there.
func dial(dir session.Node) (*conn, error) {
	// Whoever can write there could put a socket in the node's place.
	if err := host.CheckDir(string(dir), 0o700); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, errNoNode
		}
		return nil, err
	}
	path := dir.Sock()
	if len(path) > host.MaxSocketPath {
		return nil, errors.New("the socket path " + quote(path) + " is longer than " + strconv.Itoa(host.MaxSocketPath) + " bytes; choose a shorter --root DIR")
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return nil, errors.New("no socket: " + err.Error())
	}
	unix.CloseOnExec(fd)
	c := &conn{fd, dir}
	// A stopped node lets connections and bytes pile up; then both calls wait.
	silence := unix.NsecToTimeval(int64(hookwire.Silence))
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &silence); err != nil {
		c.close()
		return nil, errors.New("no socket: " + err.Error())
	}
	for {
		err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		switch err {
		case nil, unix.EISCONN:
			return c, nil
		case unix.EINTR:
			continue
		case unix.ENOENT, unix.ECONNREFUSED:
			err = errNoNode
		case unix.EAGAIN, unix.ETIMEDOUT, unix.EINPROGRESS:
			err = c.stuck()
		default:
			err = errors.New("the node's socket " + quote(path) + ": " + err.Error())
		}
		c.close()
		return nil, err
	}
}

func (c *conn) close() { _ = unix.Close(c.fd) }

// send writes the request. A node that refuses may do so before it has read
// all, and then hangs up: its answer is still there to be read.
func (c *conn) send(head, input []byte) error {
	if len(input) <= 64<<10 {
		head, input = append(head, input...), nil
	}
	for _, b := range [...][]byte{head, input} {
		switch err := writeAll(c.fd, b); err {
		case nil:
		case unix.EPIPE, unix.ECONNRESET:
			return nil
		case unix.EAGAIN:
			return c.stuck()
		default:
			return errors.New("the call could not be sent to the node: " + err.Error())
		}
	}
	return nil
}

// await reads frames until there is a result. Only a whole frame is a sign of
// life.
func (c *conn) await() (hookwire.Result, error) {
	buf := make([]byte, 0, 4096)
	until := time.Now().Add(hookwire.Silence)
	for {
		left := max(0, time.Until(until))
		ready, err := poll(c.fd, unix.POLLIN, left)
		if err != nil {
			return hookwire.Result{}, errors.New("the node's answer could not be read: " + err.Error())
		}
		if !ready {
			return hookwire.Result{}, c.stuck()
		}
		if len(buf) == cap(buf) {
			buf = append(make([]byte, 0, 2*cap(buf)), buf...)
		}
		n, err := unix.Read(c.fd, buf[len(buf):cap(buf)])
		switch {
		case err == unix.EINTR || err == unix.EAGAIN:
			continue
		case err != nil && err != unix.ECONNRESET:
			return hookwire.Result{}, errors.New("the node's answer could not be read: " + err.Error())
		case n <= 0:
			return hookwire.Result{}, errors.New("the node ended, or hung up, before it answered; the next call starts another")
		}
		buf = buf[:len(buf)+n]
		heard := false
		for {
			f, n, err := hookwire.NextFrame(buf)
			if err != nil {
				return hookwire.Result{}, errors.New("the node's answer makes no sense (" + err.Error() + "); is another program at its socket, or another version of permd? Restart the agent")
			}
			if n == 0 {
				break
			}
			switch f.Kind {
			case hookwire.Done:
				return f.Result, nil
			case hookwire.Refused:
				return hookwire.Result{}, errors.New(f.Text)
			}
			heard = true
			buf = append(buf[:0], buf[n:]...)
		}
		switch {
		case heard:
			until = time.Now().Add(hookwire.Silence)
		case left == 0:
			// This process may have been stopped past the deadline, and what
			// came meanwhile counts. Pieces of a frame do not.
			return hookwire.Result{}, c.stuck()
		}
	}
}

// stuck is the error about a node that is there and says nothing.
func (c *conn) stuck() error {
	who, cont, end := "", "kill -CONT", "kill -KILL"
	if facts, err := session.ReadFacts(c.node); err == nil {
		pid := strconv.Itoa(facts.NodePID)
		who = " (process " + pid + ")"
		cont += " " + pid
		end += " " + pid
	}
	return errors.New("the node of this agent" + who + " has said nothing for " + hookwire.Silence.String() +
		": it is stopped or stuck. Continue it (" + cont + ") or end it (" + end + "); then the next call starts another")
}
