//go:build race

package policy

// raceOn makes the long loops shorter: the race detector costs ten times.
const raceOn = true
