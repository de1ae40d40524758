// Command hookbash prints the hook as people write it, a script for bash and
// jq. A benchmark writes it to a file and times
//
//	bash FILE DIR <event
//
// where the script keeps its record in DIR with one sync of its data.
package main

import (
	_ "embed"
	"os"
)

//go:embed hook.sh
var script string

func main() {
	if _, err := os.Stdout.WriteString(script); err != nil {
		os.Exit(1)
	}
}
