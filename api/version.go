package api

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"permd/ask"
)

// Agree returns the highest version both sides speak. With none, ok is false
// and nothing may be said on the connection but "refused".
func Agree(theirs []int) (version int, ok bool) { return agree(Versions, theirs) }

func agree(ours, theirs []int) (version int, ok bool) {
	for _, v := range ours {
		if v > version && slices.Contains(theirs, v) {
			version, ok = v, true
		}
	}
	return version, ok
}

// noCommonVersion names both sides and the remedy.
func noCommonVersion(ours, theirs []int, build, theirBuild string) string {
	older := "the older of the two"
	switch {
	case len(ours) == 0 || len(theirs) == 0:
	case slices.Max(ours) < slices.Max(theirs):
		older = "permd here"
	case slices.Max(ours) > slices.Max(theirs):
		older = "the caller"
	}
	return fmt.Sprintf("this permd (%s) speaks version %s of the socket protocol, the caller (%s) version %s; update %s and start it again",
		ask.VisibleLine(build), versionList(ours), ask.ExcerptLine(theirBuild, 64), versionList(theirs), older)
}

func versionList(v []int) string {
	if len(v) == 0 {
		return "none"
	}
	var s []string
	for _, n := range v {
		s = append(s, strconv.Itoa(n))
	}
	return strings.Join(s, ", ")
}

// buildName is what a program that names no build says of itself.
func buildName() string {
	if i, ok := debug.ReadBuildInfo(); ok && i.Main.Version != "" {
		return i.Main.Path + " " + i.Main.Version
	}
	return "unknown"
}
