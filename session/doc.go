// Package session knows what a session is called, where its node lives, and
// who its parent is said to be.
//
// It promises checked ids, directories that are ours and private, facts that
// parse to themselves, one ordered parent lookup, and a reaper that never
// touches the living. A parent it finds is a claim: whether the claim is true
// is proved at registration, and whether the parent serves is the judge's
// business (package liveness).
//
// The hook links this package at every tool call, so it imports neither fmt
// nor encoding/json and does nothing at start-up.
package session
