package policy

import (
	"strings"

	"permd/policy/shell"
)

// Tools with subcommands that only look: at the forge, at containers, at what
// is installed. Their subcommands are listed as one or two words.

var ghList = &reader{flags: "", values: "AalLsSBHqRtje", text: true, check: ghReads,
	longVal: "assignee author label limit state search base head jq repo template json milestone app mention branch user workflow commit event status created owner language topic visibility job attempt order sort",
	long:    "draft comments log log-failed verbose exit-status required patch name-only watch fork source archived no-archived exclude-drafts exclude-pre-releases"}

// ghReaders are what gh may be asked. To open a browser (--web) is not to read.
var ghReaders = map[string]*reader{
	"pr view": ghView, "pr list": ghList, "pr diff": ghView, "pr checks": ghView, "pr status": ghView,
	"issue view": ghView, "issue list": ghList, "issue status": ghView,
	"run list": ghList, "run view": ghView, "workflow list": ghList, "workflow view": ghView,
	"repo view": ghView, "repo list": ghList, "release list": ghList, "release view": ghView, "label list": ghList,
	"search prs": ghList, "search issues": ghList, "search repos": ghList, "search commits": ghList, "search code": ghList,
	"auth status": {text: true, flags: "a", values: "h", long: "active", longVal: "hostname"},
	"version":     {none: true}, "--version": {none: true},
}

var ghView = &reader{flags: "cv", values: "qRtbj", text: true, check: ghReads,
	longVal: "jq repo template json branch job attempt color interval", long: "comments log log-failed verbose exit-status required patch name-only yaml conflict-status fail-fast"}

// ghReads refuses a filter that shows the environment, which holds the token.
func ghReads(r *reading) bool {
	for _, f := range r.all("-q --jq -t --template") {
		if jqElsewhere().MatchString(f) || strings.Contains(f, "env") {
			return false
		}
	}
	return true
}

var (
	dockerList = &reader{flags: "aqls", values: "fn", text: true, long: "all quiet latest no-trunc size digests tree orphans services", longVal: "filter format last status"}
	dockerLogs = &reader{flags: "ft", values: "n", text: true, long: "follow timestamps details no-color no-log-prefix", longVal: "tail since until index"}
)

// dockerReaders are what docker and podman may be asked. What shows the
// environment of a container (inspect, compose config) is left out.
var dockerReaders = map[string]*reader{
	"ps": dockerList, "images": dockerList, "container ls": dockerList, "container list": dockerList, "image ls": dockerList, "volume ls": dockerList, "network ls": dockerList,
	"logs": dockerLogs, "container logs": dockerLogs, "compose logs": dockerLogs, "compose ps": dockerList, "compose ls": dockerList, "compose images": dockerList,
	"port": {text: true}, "top": {text: true, most: 1}, "stats": {text: true, flags: "a", long: "all no-stream no-trunc", longVal: "format"},
	"version": {none: true, values: "f", longVal: "format"}, "--version": {none: true}, "-v": {none: true}, "compose version": {none: true, long: "short", values: "f", longVal: "format"},
	"context ls": {none: true, flags: "q", long: "quiet", longVal: "format"}, "context show": {none: true},
}

var npmList = &reader{flags: "alg", text: true, long: "all long json parseable global prod dev production link", longVal: "depth omit include"}

// npmReaders look at what is installed.
var npmReaders = map[string]*reader{"ls": npmList, "list": npmList, "ll": npmList}

// toolReader finds the reader for the subcommand of gh or docker.
func toolReader(name string, args []shell.Word) (*reader, []shell.Word) {
	tools := dockerReaders
	if name == "gh" {
		tools = ghReaders
	}
	if len(args) > 1 {
		if d := tools[args[0].Text+" "+args[1].Text]; d != nil {
			return d, args[2:]
		}
	}
	if len(args) > 0 {
		return tools[args[0].Text], args[1:]
	}
	return nil, nil
}
