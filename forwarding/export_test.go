package forwarding

import "time"

// SetUptime replaces the boot-time clock of a server to be.
func SetUptime(c *Config, uptime func() (time.Duration, error)) { c.uptime = uptime }

// Do runs f in the server's loop.
func (s *Server) Do(f func()) { _ = s.call(s.ctx, f) }
