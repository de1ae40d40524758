package main

// bound is what one metric must keep. The figures are the project's numbers;
// every one is a ratio to a yardstick measured in the same run, or a size or a
// time that is itself part of the promise.
type bound struct {
	what   string
	metric string // the unit that a benchmark reports with b.ReportMetric
	limit  float64
	least  bool // limit is a minimum, not a maximum
	extra  bool // shown when measured, not missed when not
}

var bounds = []bound{
	{what: "hook, wall time", metric: "hook-x-hello-sync", limit: 1.3},
	{what: "hook, CPU time", metric: "hook-cpu-x-hello-sync", limit: 1.3},
	{what: "hook, faster than bash + jq", metric: "hook-x-bashjq", limit: 8, least: true},
	{what: "hook, memory", metric: "hook-rss-MiB", limit: 8},
	{what: "decide, 50 rules, to parsing alone", metric: "decide-x-parse-50", limit: 2.5},
	{what: "decide, 1,000 rules, to parsing alone", metric: "decide-x-parse-1000", limit: 2.5},
	{what: "decide, 1,000 rules to 50", metric: "rules-1000-x-50", limit: 1.3},
	{what: "decide, allocations", metric: "allocs", limit: 60},
	{what: "worst 64 KiB command", metric: "hostile-64KiB-ms", limit: 50},
	{what: "relay, p50", metric: "relay-p50-x-floor", limit: 2},
	{what: "relay, p99", metric: "relay-p99-x-floor", limit: 3},
	{what: "relay, faster than polling", metric: "relay-x-poll250", limit: 200, least: true},
	{what: "1,000 children or stale files", metric: "flat-1000-x-1", limit: 1.3},
	{what: "asks/s of 100 children to 10", metric: "load-100-x-10", limit: 0.8, least: true},
	{what: "wrong, lost or doubled asks", metric: "load-faults", limit: 0, extra: true},
	{what: "one waiting ask slows others", metric: "headofline-x", limit: 1.2},
	{what: "death of a parent seen", metric: "parent-death-ms", limit: 50},
	{what: "idle node, CPU", metric: "idle-cpu-ms/min", limit: 1},
	{what: "idle node with children, CPU", metric: "idle-beat-x-ticker", limit: 2},
	{what: "idle node, memory", metric: "idle-rss-MiB", limit: 12},
	{what: "one session more, memory", metric: "idle-session-KiB", limit: 16},
	{what: "chained append", metric: "append-x-bare", limit: 1.5},
	{what: "durable append", metric: "durable-x-fsync", limit: 1.3},
	{what: "100 writers, faster than an fsync each", metric: "group-x-fsync-each", limit: 10, least: true},
	{what: "filter of a large log, faster than jq", metric: "filter-x-jq", limit: 5, least: true, extra: true},
	{what: "filter's memory, a log 8 times as large", metric: "filter-rss-x-size", limit: 1.2, extra: true},
	{what: "scan time, exponent over the size", metric: "scan-exponent", limit: 1.15, extra: true},
}

// holds says whether v keeps the bound; what is not a number does not.
func (b bound) holds(v float64) bool {
	if b.least {
		return v >= b.limit
	}
	return v <= b.limit
}

// worse says whether a keeps the bound less well than c.
func (b bound) worse(a, c float64) bool {
	switch {
	case a != a:
		return true
	case c != c:
		return false
	case b.least:
		return a < c
	}
	return a > c
}
