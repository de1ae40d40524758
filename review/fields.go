package review

import "sort"

// Key names a field of an event. The names that come from other programs'
// logs keep their spelling.
type Key string

// Class says how a value is written and how far it may go.
type Class uint8

// The classes. The zero class is secret, and so is a key that is not known.
const (
	// Secret values are never written: "[redacted hmac:…]" stands in their
	// place, with a keyed digest, the same for equal values of this user.
	Secret Class = iota
	// Sensitive values are written here and masked in what leaves the machine.
	Sensitive
	// Public values name no content of the user's work.
	Public
)

// The keys. The table below has their classes.
const (
	KeyTargetSession     Key = "targetSessionId"
	KeyChannel           Key = "channel" // registry or env
	KeyFoundBy           Key = "found_by"
	KeyRequesterSession  Key = "requesterSessionId"
	KeyResponderSession  Key = "responderSessionId"
	KeyServingChannel    Key = "servingChannel"
	KeyServingState      Key = "servingState"
	KeyServingSessionIDs Key = "servingSessionIds"

	KeyParent        Key = "parent"
	KeyChild         Key = "child"
	KeyVerifiedBy    Key = "verified_by"
	KeyNode          Key = "node"
	KeyInstance      Key = "instance"
	KeyPID           Key = "pid"
	KeyVersion       Key = "version"
	KeyClient        Key = "client"
	KeyClientVersion Key = "client_version"
	KeyHookEvent     Key = "hook_event"
	KeyCall          Key = "call"
	KeyMode          Key = "mode"
	KeySurface       Key = "surface"
	KeySurfaceKind   Key = "surface_kind"
	KeyDevice        Key = "device"
	KeyWinner        Key = "winner"
	KeyDelivered     Key = "delivered"
	KeyEffect        Key = "effect"
	KeyExitCode      Key = "exit_code"
	KeyWaitedMS      Key = "waited_ms"
	KeyTimeoutMS     Key = "timeout_ms"
	KeyExpiresMS     Key = "expires_ms"
	KeyCount         Key = "count"
	KeyCode          Key = "code"
	KeyOperation     Key = "operation"
	KeyAttempts      Key = "attempts"
	KeyGrant         Key = "grant"
	KeyScope         Key = "scope"
	KeyLayer         Key = "layer"
	KeyLine          Key = "line"
	KeyPolicyDigest  Key = "policy_digest"
	KeyAuthenticated Key = "authenticated"
	KeyLinks         Key = "links"
	KeyOnBehalfOf    Key = "on_behalf_of"
	KeyRanDigest     Key = "ran_digest"
	KeyParts         Key = "parts"

	KeyRuleFile   Key = "rule_file"
	KeyRule       Key = "rule"
	KeyDifference Key = "difference"
	KeyMessage    Key = "message"
	KeyAgentName  Key = "agentName"
	KeyPath       Key = "path"
	KeyProject    Key = "project"
	KeyPattern    Key = "pattern"

	KeyInput  Key = "input"
	KeyAnswer Key = "answer"

	// Of the log's own records.
	KeyBootID     Key = "boot_id"
	KeyWriter     Key = "writer"
	KeyFile       Key = "file"
	KeyPrevious   Key = "previous"
	KeyUnclean    Key = "unclean"
	KeyClosing    Key = "closing"
	KeyCause      Key = "cause"
	KeyOffset     Key = "offset"
	KeyBytes      Key = "bytes"
	KeySHA256     Key = "sha256"
	KeySetAside   Key = "set_aside"
	KeyLost       Key = "lost"
	KeyHeadSeq    Key = "head_seq"
	KeyHeadHash   Key = "head_hash"
	KeyLedgerSeq  Key = "ledger_seq"
	KeyLedgerHash Key = "ledger_hash"
)

// classes has every key, sorted.
var classes = [...]struct {
	key   Key
	class Class
}{
	{KeyAgentName, Sensitive}, {KeyAnswer, Secret}, {KeyAttempts, Public}, {KeyAuthenticated, Public},
	{KeyBootID, Public}, {KeyBytes, Public}, {KeyCall, Public}, {KeyCause, Public}, {KeyChannel, Public},
	{KeyChild, Public}, {KeyClient, Public}, {KeyClientVersion, Public}, {KeyClosing, Public},
	{KeyCode, Public}, {KeyCount, Public}, {KeyDelivered, Public}, {KeyDevice, Public}, {KeyDifference, Sensitive},
	{KeyEffect, Public}, {KeyExitCode, Public}, {KeyExpiresMS, Public}, {KeyFile, Public}, {KeyFoundBy, Public},
	{KeyGrant, Public}, {KeyHeadHash, Public}, {KeyHeadSeq, Public}, {KeyHookEvent, Public},
	{KeyInput, Secret}, {KeyInstance, Public}, {KeyLayer, Public}, {KeyLedgerHash, Public}, {KeyLedgerSeq, Public},
	{KeyLine, Public}, {KeyLinks, Public}, {KeyLost, Public}, {KeyMessage, Sensitive}, {KeyMode, Public},
	{KeyNode, Public}, {KeyOffset, Public}, {KeyOnBehalfOf, Public}, {KeyOperation, Public}, {KeyParent, Public},
	{KeyParts, Public}, {KeyPath, Sensitive}, {KeyPattern, Sensitive}, {KeyPID, Public},
	{KeyPolicyDigest, Public}, {KeyPrevious, Public}, {KeyProject, Sensitive}, {KeyRanDigest, Public},
	{KeyRequesterSession, Public}, {KeyResponderSession, Public}, {KeyRule, Sensitive}, {KeyRuleFile, Sensitive},
	{KeyScope, Public}, {KeyServingChannel, Public}, {KeyServingSessionIDs, Public}, {KeyServingState, Public},
	{KeySetAside, Public}, {KeySHA256, Public}, {KeySurface, Public}, {KeySurfaceKind, Public},
	{KeyTargetSession, Public}, {KeyTimeoutMS, Public}, {KeyUnclean, Public}, {KeyVerifiedBy, Public},
	{KeyVersion, Public}, {KeyWaitedMS, Public}, {KeyWinner, Public}, {KeyWriter, Public},
}

// ClassOf returns the class of a key; a key it does not know is Secret.
func ClassOf(k Key) Class {
	i := sort.Search(len(classes), func(i int) bool { return classes[i].key >= k })
	if i < len(classes) && classes[i].key == k {
		return classes[i].class
	}
	return Secret
}

// Keys returns every known key, sorted.
func Keys() []Key {
	all := make([]Key, len(classes))
	for i := range classes {
		all[i] = classes[i].key
	}
	return all
}
