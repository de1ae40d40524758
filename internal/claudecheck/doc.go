// Package claudecheck proves permd with the real Claude Code: each test puts
// the pinned client under permd with the real setup command, lets a stand-in
// model call tools, and looks at what ran, what the model was told, what the
// screen showed and what stands on the record.
//
// It promises that what permd's own documents say of Claude Code is what that
// release does. It does not promise anything for another release, and it does
// not test what agents that stand in for a client can show as well: for that
// see internal/e2e.
package claudecheck
