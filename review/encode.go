package review

import (
	"encoding/hex"
	"strconv"

	"permd/ask"
)

// limits are how many bytes each part of an event gets.
type limits struct {
	command, input, url, reason, path, text, value int
	id, word                                       int
	paths                                          int
}

// wide is the usual measure; narrow is for the event that does not fit in a
// line with it, and always does.
var (
	wide = limits{command: 5120, input: 2048, url: 1024, reason: 1024, path: 512, text: 256,
		value: 1024, id: 128, word: 64, paths: 16}
	narrow = limits{command: 512, input: 256, url: 96, reason: 256, path: 96, text: 64,
		value: 96, id: 64, word: 24, paths: 2}
)

// body appends everything of an event that does not depend on its place in
// the chain: from the comma before "event" to the closing brace.
func (k keys) body(b []byte, ev *Event) []byte {
	start := len(b)
	b = k.bodyIn(b, ev, &wide)
	if len(b)-start > MaxLine-1-prefixMax {
		b = k.bodyIn(b[:start], ev, &narrow)
	}
	return b
}

func (k keys) bodyIn(b []byte, ev *Event, lim *limits) []byte {
	b = appendString(append(b, `,"event":`...), string(ev.Name))
	b = k.text(b, `,"session":`, ev.Session, lim.id)
	if len(ev.Path) > 0 {
		b = k.hops(append(b, `,"path":[`...), ev.Path, lim)
	}
	b = k.text(b, `,"ask":`, ev.Ask, lim.id)
	b = appendDigest(b, `,"digest":"`, ev.Digest)
	b = appendDigest(b, `,"action_digest":"`, ev.ActionDigest)
	if ev.Verdict != nil {
		b = appendString(append(b, `,"verdict":`...), ev.Verdict.String())
	}
	b = k.text(b, `,"outcome":`, string(ev.Outcome), lim.word)
	if ev.By != nil {
		b = k.by(append(b, `,"by":`...), ev.By, lim)
	}
	b = k.text(b, `,"reason":`, ev.Reason, lim.reason)
	if ev.Action != nil {
		b = k.action(append(b, `,"action":`...), ev.Action, lim)
	}
	if len(ev.Fields) > 0 {
		b = k.fields(append(b, `,"fields":`...), ev.Fields, lim)
	}
	return append(b, '}')
}

// text appends a key and its value, nothing for an empty one.
func (k keys) text(b []byte, key, s string, most int) []byte {
	if s == "" {
		return b
	}
	return appendString(append(b, key...), k.clean(s, most))
}

// must appends also an empty value.
func (k keys) must(b []byte, key, s string, most int) []byte {
	return appendString(append(b, key...), k.clean(s, most))
}

func appendDigest(b []byte, key string, d *ask.Digest) []byte {
	if d == nil {
		return b
	}
	return append(hex.AppendEncode(append(b, key...), d[:]), '"')
}

func (k keys) hops(b []byte, path []ask.Hop, lim *limits) []byte {
	for i := range path {
		if i > 0 {
			b = append(b, ',')
		}
		b = k.must(b, `{"session":`, path[i].Session, lim.id)
		b = k.must(b, `,"node":`, path[i].Node, lim.id)
		if path[i].Claimed {
			b = append(b, `,"claimed":true`...)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

func (k keys) by(b []byte, by *ask.By, lim *limits) []byte {
	b = k.must(b, `{"kind":`, string(by.Kind), lim.word)
	b = k.text(b, `,"session":`, by.Session, lim.id)
	b = k.text(b, `,"surface":`, by.Surface, lim.id)
	if r := by.Rule; r != nil {
		b = k.must(b, `,"rule":{"layer":`, r.Layer, lim.word)
		b = k.text(b, `,"file":`, r.File, lim.text)
		if r.Line != 0 {
			b = strconv.AppendInt(append(b, `,"line":`...), int64(r.Line), 10)
		}
		b = append(b, '}')
	}
	b = k.text(b, `,"grant":`, by.Grant, lim.id)
	if by.Inferred {
		b = append(b, `,"inferred":true`...)
	}
	if by.Inner != nil {
		b = k.by(append(b, `,"inner":`...), by.Inner, lim)
	}
	return append(b, '}')
}

func (k keys) action(b []byte, a *Action, lim *limits) []byte {
	b = k.must(b, `{"client":`, a.Client, lim.text)
	b = k.must(b, `,"tool":`, string(a.Tool), lim.word)
	b = k.must(b, `,"client_tool":`, a.ClientTool, lim.text)
	b = k.text(b, `,"call":`, a.Call, lim.text)
	b = k.text(b, `,"cwd":`, a.Cwd, lim.path)
	b = k.text(b, `,"command":`, a.Command, lim.command)
	b = k.text(b, `,"input":`, a.Input, lim.input)
	paths, more := a.Paths, a.MorePaths
	if len(paths) > lim.paths {
		more += len(paths) - lim.paths
		paths = paths[:lim.paths]
	}
	for i := range paths {
		if i == 0 {
			b = append(b, `,"paths":[`...)
		} else {
			b = append(b, ',')
		}
		b = k.must(b, `{"given":`, paths[i].Given, lim.path)
		b = k.must(b, `,"real":`, paths[i].Real, lim.path)
		b = k.must(b, `,"access":`, string(paths[i].Access), lim.word)
		b = append(b, '}')
	}
	if len(paths) > 0 {
		b = append(b, ']')
	}
	if more != 0 {
		b = strconv.AppendInt(append(b, `,"more_paths":`...), int64(more), 10)
	}
	b = k.text(b, `,"url":`, a.URL, lim.url)
	b = k.text(b, `,"query":`, a.Query, lim.url)
	b = k.text(b, `,"server":`, a.Server, lim.text)
	b = k.text(b, `,"name":`, a.Name, lim.text)
	b = k.text(b, `,"source":`, a.Source, lim.text)
	b = k.text(b, `,"agent":`, a.Agent, lim.text)
	return append(b, '}')
}

// fields appends an object sorted by key. A key that is given twice keeps its
// first value; [Event.check] has refused that before.
func (k keys) fields(b []byte, fields []Field, lim *limits) []byte {
	var order [maxFields]uint8
	for i := range fields {
		j := i
		for ; j > 0 && fields[order[j-1]].Key > fields[i].Key; j-- {
			order[j] = order[j-1]
		}
		order[j] = uint8(i)
	}
	sep := byte('{')
	for _, i := range order[:len(fields)] {
		f := &fields[i]
		value := f.Value
		if ClassOf(f.Key) == Secret {
			value = k.redacted(value)
		}
		b = append(b, sep)
		b = appendString(b, string(f.Key))
		b = k.must(b, ":", value, lim.value)
		sep = ','
	}
	return append(b, '}')
}
