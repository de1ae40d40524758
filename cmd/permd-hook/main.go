// Command permd-hook is what agent clients start at every event; see package
// hook. It is a program of its own because it starts at every tool call: what
// the other commands of permd link would cost more than all that it does.
package main

import (
	"os"

	"permd/hook"
)

func main() { os.Exit(hook.Main(os.Args[1:], os.Environ(), 0, 1, 2)) }
