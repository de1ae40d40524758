//go:build race

package forwarding

const raceOn = true
