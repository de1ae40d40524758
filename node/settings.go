package node

import "time"

// Settings are the scalar settings of a node.
type Settings struct {
	// AskTimeout bounds a wait where no person is present; zero or less
	// denies at once. It never means consent.
	AskTimeout time.Duration
	// RefuseOnParentLoss refuses an ask whose parent went away instead of
	// asking here.
	RefuseOnParentLoss bool
	// NoClientDialog keeps a call waiting in the gate instead of letting the
	// client's own dialog open.
	NoClientDialog bool
	// AsksAMinute is the most asks a session may raise within a minute; past
	// it they are refused without a prompt.
	AsksAMinute int
}

// Defaults are the settings without a configuration file.
func Defaults() Settings {
	return Settings{AskTimeout: 10 * time.Minute, AsksAMinute: 60}
}
