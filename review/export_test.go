package review

// For the tests in review_test, which use reviewtest.
var (
	Allowed    = allowed
	Denied     = denied
	MemoryDir  = memoryDir
	MustVerify = mustVerify
	IDs        = ids
	Dump       = dump
)

const (
	RepairWait   = repairWait
	ReserveAhead = reserveAhead
	RaceEnabled  = raceEnabled
)
