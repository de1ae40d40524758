package host

import (
	"errors"
	"path"
	"strconv"
)

var (
	errNoUser = errors.New("the user is not in the password database")
	errNoHome = errors.New("the password database names no absolute home directory")
)

func checkHome(home string) (string, error) {
	if !path.IsAbs(home) {
		return "", errNoHome
	}
	return path.Clean(home), nil
}

// homeFailure is the error of UserHome, which has one remedy.
type homeFailure struct {
	uid int
	err error
}

func (e *homeFailure) Error() string {
	return "home directory of uid " + strconv.Itoa(e.uid) + ": " + e.err.Error() + "; name the directories with --root DIR"
}

func (e *homeFailure) Unwrap() error { return e.err }

func homeError(uid int, err error) error {
	if err == nil {
		return nil
	}
	return &homeFailure{uid, err}
}
