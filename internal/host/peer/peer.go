// Package peer tells who is at the other end of a connection of package net.
// It stands apart from package host because the hook links that one and is to
// stay without net.
package peer

import (
	"net"

	"permd/internal/host"
)

// Peer is host.Peer.
type Peer = host.Peer

// Of tells who connected c, as host.PeerOf does. The caller closes the Peer.
func Of(c *net.UnixConn) (*Peer, error) { return host.PeerOf(c) }
