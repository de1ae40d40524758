//go:build !race

package forwarding

const raceOn = false
