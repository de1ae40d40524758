// Package yardstick holds the bare programs that benchmarks compare permd
// with. Each does the least that the task takes on this machine, without
// permd's promises, so that a ratio to it says what the promises cost and does
// not move with the machine.
//
//	hello      a static Go hello-world and one durable append: the floor of a hook
//	hookbash   the same hook as people write it, in bash and jq
//	filerelay  an ask to another process through a directory and back, by events
//	poll250    the same, both sides looking every 250 ms
//	ticker     a process that writes a beat every 2 s and nothing else
//	spawn      runs programs in turn and says what each run took
//
// The rules: a benchmark builds its yardstick itself, runs both in turn in the
// same run and the same directory with the same number of syncs, and reports
// the ratio of the medians. A yardstick imports nothing of permd but package
// mailbox beside it, and is never made slower to look better.
package yardstick
