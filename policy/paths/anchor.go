package paths

import (
	"errors"
	"fmt"
)

// ErrAnchor is wrapped by every refusal of a project directory.
var ErrAnchor = errors.New("not a project directory")

// Anchors are the directories that rules are written relative to.
type Anchors struct {
	// Project is the project of the session, zero when there is none.
	Project Place
	Home    Place
	Cwd     Place
}

// Project checks dir as the anchor of "inside the project". The home
// directory, its parents and the root are refused: everything would be
// inside. So is a link to one of them.
func (r *Resolver) Project(dir string) (Place, error) {
	if dir == "" {
		return Place{}, fmt.Errorf("%w: none is known", ErrAnchor)
	}
	if clean(dir) == "" {
		return Place{}, fmt.Errorf("%w: %q is not absolute", ErrAnchor, dir)
	}
	p := r.Dir(dir)
	if !p.Sure() {
		return Place{}, fmt.Errorf("%w: %q: %s", ErrAnchor, dir, p.Doubt)
	}
	homes := []string{r.home}
	if r.home != "" {
		homes = append(homes, r.Place(r.home).Real)
	}
	for _, at := range []string{p.Given, p.Real} {
		if at == "/" {
			return Place{}, fmt.Errorf("%w: %q is the root directory", ErrAnchor, dir)
		}
		for _, home := range homes {
			if home != "" && Under(at, home) {
				return Place{}, fmt.Errorf("%w: %q holds the home directory; start the agent in a directory of its own", ErrAnchor, dir)
			}
		}
	}
	return p, nil
}

// Inside reports whether p certainly lies in the directory at.
func Inside(at, p Place) bool {
	return at.Sure() && p.Sure() &&
		(Under(at.Given, p.Given) || Under(at.Real, p.Given)) && Under(at.Real, p.Real)
}

// MayBeOutside reports whether p, by what it says or by where it is, lies
// outside the directory at. Without a directory everything does.
func MayBeOutside(at, p Place) bool {
	return !at.Sure() ||
		!Under(at.Given, p.Given) && !Under(at.Real, p.Given) || !Under(at.Real, p.Real)
}

// Outside reports whether p certainly lies outside the directory at, by what
// it says and by where it is.
func Outside(at, p Place) bool {
	return at.Sure() && p.Sure() &&
		!Under(at.Given, p.Given) && !Under(at.Real, p.Given) && !Under(at.Given, p.Real) && !Under(at.Real, p.Real)
}
