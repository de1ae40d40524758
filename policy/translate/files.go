package translate

import (
	"path"
	"strings"

	"permd/ask"
)

// on gives matchers for tool of each path.
func on(tool string, paths []string) (out []ask.Rule) {
	for _, p := range paths {
		out = append(out, ask.Rule{Tool: tool, Path: p})
	}
	return out
}

// home turns the ways in which sources write the home directory into permd's.
func home(p string) (string, bool) {
	for _, h := range []string{"~/", "$HOME/", "${HOME}/"} {
		if rest, ok := strings.CutPrefix(p, h); ok {
			return "~/" + rest, true
		}
	}
	return p, false
}

// gitignored is a pattern as git's ignore files have them, in Claude's form:
// "//" is the root, "/" the directory of the settings, a name without a slash
// any depth. A directory stands for all in it.
func gitignored(p, settings, project string) (narrow, wide []string, why string) {
	p, anchored := strings.CutPrefix(p, "./")
	dir := strings.HasSuffix(p, "/")
	p = strings.TrimSuffix(p, "/")
	if strings.ContainsAny(p, "{}!") {
		why = "it has { } or !, which mean another thing there"
		p = strings.NewReplacer("{", "*", "}", "*", "!", "*").Replace(p)
	}
	at, isHome := home(p)
	var loose []string
	switch {
	case strings.HasPrefix(p, "//"):
		at = p[1:]
	case isHome:
	case p == "~":
		at, dir = "~", true
	case strings.HasPrefix(p, "/"):
		// Relative to the settings, which some take for the project's directory.
		why = "whether it begins at the settings or at the project is not certain"
		at = project + p
		loose = []string{path.Dir(settings) + p}
	case strings.Contains(p, "/"), anchored:
		at = "<project>/" + p
	default:
		at = "<project>/**/" + p
		wide = []string{"**/" + p}
	}
	if wide == nil {
		wide = append([]string{at}, loose...)
	}
	if why != "" {
		return nil, wide, why
	}
	if dir {
		at += "/**"
	}
	return []string{at}, wide, ""
}

// crossing is a pattern in which "*" stands for any text, slashes too, as
// opencode and pi have them. Relative names are the project's.
func crossing(p string) (narrow, wide []string, why string) {
	at, isHome := home(p)
	switch {
	case p == "*" || p == "**":
		return []string{"<project>/**"}, []string{"/**"}, ""
	case strings.ContainsAny(p, "?[]{}\\"):
		why = "it has ? [ ] { } or a backslash, which mean another thing there"
		at = strings.NewReplacer("?", "*", "[", "*", "]", "*", "{", "*", "}", "*", "\\", "*").Replace(at)
	}
	anchor := ""
	switch {
	case isHome:
		anchor, at = "~/", strings.TrimPrefix(at, "~/")
	case strings.HasPrefix(at, "/"):
		anchor, at = "/", strings.TrimPrefix(at, "/")
	default:
		anchor, at = "<project>/", strings.TrimPrefix(at, "./")
	}
	relative := anchor == "<project>/"
	n, w := crossed(at)
	for _, x := range w {
		wide = append(wide, anchor+x)
		if relative && strings.HasPrefix(x, "**/") {
			wide[len(wide)-1] = x // as the whole name of a file anywhere
		}
	}
	if why != "" {
		return nil, wide, why
	}
	for _, x := range n {
		narrow = append(narrow, anchor+x)
	}
	return narrow, wide, ""
}

// crossed gives patterns whose stars stay within a segment for one whose stars
// do not. A wide one stands for all that lies below it, too.
func crossed(p string) (narrow, wide []string) {
	segs := strings.Split(p, "/")
	var n, w []string
	join := func(list []string, more ...string) string {
		return strings.Join(append(list[:len(list):len(list)], more...), "/")
	}
	for i, seg := range segs {
		if strings.Trim(seg, "*") == "" && seg != "" {
			n, w = append(n, "*", "**"), append(w, "**") // one segment at least
			continue
		}
		if after, ok := strings.CutPrefix(seg, "*"); ok {
			n, w = append(n, "**"), append(w, "**") // any depth above
			seg = "*" + strings.TrimLeft(after, "*")
		}
		inner := strings.TrimLeft(seg, "*")
		k := strings.IndexByte(inner, '*')
		if k < 0 {
			n, w = append(n, seg), append(w, seg)
			continue
		}
		// From this star on, everything may be at any depth below.
		upTo := seg[:len(seg)-len(inner)+k+1]
		wide = []string{join(w, upTo)}
		if i == len(segs)-1 && upTo == seg {
			return []string{join(n, seg), join(n, seg, "**")}, wide
		}
		return []string{join(append(n, seg), segs[i+1:]...)}, wide
	}
	return []string{strings.Join(n, "/")}, []string{strings.Join(w, "/")}
}
