//go:build race

package review

// raceEnabled makes the long loops take larger steps: the race detector costs
// ten times, and every step is taken without it.
const raceEnabled = true
