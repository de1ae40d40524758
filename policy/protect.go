package policy

import (
	"strings"

	"permd/ask"
	"permd/policy/paths"
)

// NewSelf adds to s where its directories and programs really are, so that
// another name for them is known too.
func NewSelf(s Self, view paths.View) *Self {
	r := paths.NewResolver(view, "/", "")
	add := func(name string) string {
		if name == "" {
			return ""
		}
		if p := r.Place(name); p.Sure() && p.Real != name {
			s.real = append(s.real, p.Real)
		}
		return name
	}
	for _, dir := range []string{s.Config, s.State, s.Run, s.Managed, s.Root} {
		add(dir)
	}
	for _, b := range s.Binaries {
		add(b)
	}
	return &s
}

const protected = "it would change what permd or an agent's client is held by"

// protect denies what would switch permd off or change what holds the
// clients. It stands above every rule and grant.
func (j *judge) protect() {
	self := j.in.Self
	if self == nil {
		self = &Self{}
	}
	home := j.in.Action.Home
	for i := range j.subjects {
		s := &j.subjects[i]
		if s.kind != kindPath {
			continue
		}
		if why := j.protectedPlace(self, s, home); why != "" {
			j.deny(s.unit, s.place.Given, why)
		}
	}
	if j.script == nil {
		return
	}
	for i := range j.script.Units {
		if why := j.protectedCommand(self, i); why != "" {
			j.deny(i, "", why)
		} else if why := j.protectStarted(self, i); why != "" {
			j.deny(i, "", why)
		}
	}
	if why := movedConfig(j.script); why != "" {
		j.deny(-1, "", why)
	}
}

func (j *judge) deny(unit int, path, why string) {
	r := Reason{Verdict: ask.Deny, Kind: ask.KindProtection, Path: path, Text: why}
	if unit >= 0 {
		r.Unit = j.script.Units[unit].Text
	}
	j.reason(r)
}

// protectedPlace says why the file of s must not be touched so.
func (j *judge) protectedPlace(self *Self, s *subject, home string) string {
	names := []string{s.place.Given, s.place.Real}
	if names[0] == names[1] {
		names = names[:1]
	}
	how := s.how
	if s.unit >= 0 && renames(j.unit(s)) {
		how |= accessWrite
	}
	for _, name := range names {
		if j.fold {
			name = strings.ToLower(name)
		}
		if why := j.ownFile(self, name, how); why != "" {
			return why
		}
		if how&accessWrite == 0 {
			if strings.Contains(name, "/app-server-control/") {
				return "a control socket of an agent's client"
			}
			continue
		}
		if why := clientFile(name, home, j.fold); why != "" {
			return why
		}
		if s.unit >= 0 && removes(j.unit(s)) {
			if why := j.holdsProtected(self, name, home); why != "" {
				return why
			}
		}
	}
	return ""
}

// ownFile says whether name, in lower case when names are folded, is permd's.
func (j *judge) ownFile(self *Self, name string, how access) string {
	under := func(dir string) bool {
		if dir == "" {
			return false
		}
		if j.fold {
			dir = strings.ToLower(dir)
		}
		return paths.Under(dir, name)
	}
	for _, dir := range []string{self.State, self.Run} {
		if under(dir) {
			return "permd's own state, which only permd reads and writes"
		}
	}
	if how&accessWrite == 0 {
		return ""
	}
	for _, dir := range []string{self.Config, self.Managed, self.Root} {
		if under(dir) {
			return "permd's own settings and rules, which only a person changes"
		}
	}
	for _, b := range self.Binaries {
		if under(b) {
			return "permd's own program"
		}
	}
	for _, r := range self.real {
		if under(r) {
			return "permd's own files by another name"
		}
	}
	if strings.Contains(name+"/", "/.permd/") {
		return "a project's rules, which only a person changes"
	}
	return ""
}

// holdsProtected says whether removing or moving the directory name takes
// something protected with it.
func (j *judge) holdsProtected(self *Self, name, home string) string {
	var held []string
	held = append(held, self.Config, self.State, self.Run, self.Managed, self.Root)
	held = append(held, self.Binaries...)
	held = append(held, self.real...)
	if home != "" {
		for _, n := range []string{"/.claude", "/.codex", "/.gemini", "/.pi", "/.config/opencode", "/.bashrc"} {
			held = append(held, home+n)
		}
	}
	for _, h := range held {
		if h == "" {
			continue
		}
		if j.fold {
			h = strings.ToLower(h)
		}
		if paths.Under(name, h) {
			return protected
		}
	}
	return ""
}
