package host

import (
	"errors"
	"os/user"
	"strconv"
)

// UserHome gives a user's home directory from the password database alone:
// HOME is the caller's to set, and so decides nothing.
func UserHome(uid int) (string, error) {
	u, err := user.LookupId(strconv.Itoa(uid))
	var unknown user.UnknownUserIdError
	if errors.As(err, &unknown) {
		err = errNoUser
	}
	if err != nil {
		return "", homeError(uid, err)
	}
	home, err := checkHome(u.HomeDir)
	return home, homeError(uid, err)
}
