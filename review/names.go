package review

import "sort"

// Name is the name of an event: lower-case words, '_' within and '.' between
// them. docs/review-log.md has each with its fields.
type Name string

// What becomes of an ask, recorded by the node that decides. Whoever decided
// stands in By; only a By of kind user or device is a person.
const (
	// AskWaiting: recorded authority said ask; the ask is put to whoever can
	// answer here.
	AskWaiting Name = "permission_request.waiting"
	// AskApproved: an answerer allowed it, once.
	AskApproved Name = "permission_request.approved"
	// AskDenied: an answerer, a rule or the check at release said no.
	AskDenied Name = "permission_request.denied"
	// AskBlocked: it never came to a question: permd itself failed, or
	// self-protection refused it.
	AskBlocked Name = "permission_request.blocked"
	// AskSessionApproved: allowed, and remembered; grant and scope say how far.
	AskSessionApproved Name = "permission_request.session_approved"
	// AskAutoApproved: rules, grants, the baseline or a mode allowed it
	// without a question.
	AskAutoApproved Name = "permission_request.auto_approved"
	// AskObserved: what rules and grants would have said where permd decides
	// nothing; verdict is allow, ask or deny.
	AskObserved Name = "permission_request.observed"
	// AskExpired: nobody answered in time. Nobody denied it.
	AskExpired Name = "permission_request.expired"
	// AskWithdrawn: the asker went away or took it back.
	AskWithdrawn Name = "permission_request.withdrawn"
	// AskUnavailable: nobody could answer.
	AskUnavailable Name = "permission_request.unavailable"
	// AskDismissed: a person closed it without an answer, declined or stopped.
	AskDismissed Name = "permission_request.dismissed"
)

// Answers and what they let go.
const (
	// AnswerLate: an answer to an ask that was settled before; winner says by
	// whom. It changed nothing.
	AnswerLate Name = "answer.late"
	// AnswerInvalid: an answer that does not fit its ask. It changed nothing.
	AnswerInvalid Name = "answer.invalid"
	// AnswerForeign: an answer from somebody the ask was not offered to, or
	// who is not who it says. It changed nothing.
	AnswerForeign Name = "answer.foreign"
	// AnswerDelivered: the origin has acted on the decision; delivered says how.
	AnswerDelivered Name = "answer.delivered"
	// Released: the origin judged the action again and let it run.
	Released Name = "release.released"
	// ReleaseRefused: at the origin the allow no longer held.
	ReleaseRefused Name = "release.refused"
	// HandedToClientDialog: the client's own dialog is about to open; what it
	// allows runs without a release of ours.
	HandedToClientDialog Name = "handed_to_client_dialog"
	// WithdrawnByClient: the client ended the waiting hook.
	WithdrawnByClient Name = "withdrawn_by_client"
	// Effect closes an allow: effect is ran, failed or not_seen.
	Effect Name = "effect"
	// RanUngated: the client ran what permd never saw.
	RanUngated Name = "ran_ungated"
	// RanOther: the client ran something else than what was let go.
	RanOther Name = "ran_other"
)

// Asks that travel between sessions.
const (
	// RequestCreated: this session relays an ask to targetSessionId.
	RequestCreated Name = "forwarded_permission.request_created"
	// ResponseReceived: the parent decided.
	ResponseReceived Name = "forwarded_permission.response_received"
	// ResponseTimedOut: the parent did not decide in time.
	ResponseTimedOut Name = "forwarded_permission.response_timed_out"
	// NoServingSession: the target is definitely not serving; what was seen is
	// in servingChannel, servingState and servingSessionIds.
	NoServingSession Name = "forwarded_permission.no_serving_session"
	// ForwardedPrompted: an ask of a child is put to whoever can answer here.
	ForwardedPrompted Name = "forwarded_permission.prompted"
	// ForwardedAutoApproved and ForwardedAutoDenied: recorded authority here
	// answered a child's ask.
	ForwardedAutoApproved Name = "forwarded_permission.auto_approved"
	ForwardedAutoDenied   Name = "forwarded_permission.auto_denied"
	// ForwardedApproved and ForwardedDenied: an answerer here decided a child's
	// ask.
	ForwardedApproved Name = "forwarded_permission.approved"
	ForwardedDenied   Name = "forwarded_permission.denied"
	// ForwardedEnded: a child's ask ended without a decision; see outcome.
	ForwardedEnded Name = "forwarded_permission.ended"
	// SessionRecorded: a grant given with a child's ask was kept here.
	SessionRecorded Name = "forwarded_permission.session_recorded"
	// ServingStarted and ServingStopped: this session takes asks of children.
	ServingStarted Name = "forwarded_permission.serving_started"
	ServingStopped Name = "forwarded_permission.serving_stopped"
	// RelayStarted: from now on this session relays its asks to
	// targetSessionId. Put beside the target's ServingStarted it shows a
	// misdirected relay.
	RelayStarted Name = "forwarded_permission.relay_started"
	// RelayStopped ends it. A redirect is a stop and a start.
	RelayStopped Name = "forwarded_permission.relay_stopped"
	// ParentLost: the parent ended or fell silent while an ask was with it.
	ParentLost Name = "forwarded_permission.parent_lost"
	// MailRefused: a message that is forged, replayed, torn or not for us.
	MailRefused Name = "forwarded_permission.mail_refused"
	// ForwardingWarning and ForwardingError: the mailbox did not work as it
	// should.
	ForwardingWarning Name = "permission_forwarding.warning"
	ForwardingError   Name = "permission_forwarding.error"
	// ChannelMode: how a parent or child is reached and whether its messages
	// carry a MAC.
	ChannelMode Name = "channel.mode"
	// ChildRegistered and ChildGone: a child's node holds, lost its
	// registration here.
	ChildRegistered Name = "child.registered"
	ChildGone       Name = "child.gone"
	// ChildNodeAbsent: a subagent runs without permd.
	ChildNodeAbsent Name = "child_node_absent"
	// ParentConfirmed: a person confirmed a claimed parent, for this session.
	ParentConfirmed Name = "parent.confirmed"
	// ParentClaimed: a parent was named and not verified.
	ParentClaimed Name = "parent.claimed"
)

// The chain of external deciders.
const (
	// ChainResolved: the links that judge asks here.
	ChainResolved Name = "authorizer_chain_resolved"
	// ChainDelegated: this session relays, its chain is not asked.
	ChainDelegated Name = "authorizer_chain_delegated"
	// ChainConsulted: a link was asked; code is what it said (allow, deny,
	// defer) or that it failed, By is the link.
	ChainConsulted Name = "authorizer_link_consulted"
	// ChainUnregisteredLink: a link is configured and not there.
	ChainUnregisteredLink Name = "authorizer_chain_unregistered_link"
	// LinkVacant: a link was registered where no chain runs.
	LinkVacant Name = "authorizer_link_vacant"
	// LinkNote is a link's own words.
	LinkNote Name = "authorizer_link_note"
)

// Rules, grants and modes.
const (
	// PolicyLoaded: the user's rules stand from now on as the file of applied
	// rules with this digest has them; PolicyChanged: rules differ from those
	// before; PolicyRejected: they could not be read and the last good ones
	// stay.
	PolicyLoaded   Name = "policy.loaded"
	PolicyChanged  Name = "policy.changed"
	PolicyRejected Name = "policy.rejected"
	// PolicyLoosenPending: an edit that loosens waits for a person;
	// PolicyApplied: a person applied it.
	PolicyLoosenPending Name = "policy.loosen_pending"
	PolicyApplied       Name = "policy.applied"
	// ProjectSkipped: a project's rules were not used to loosen anything.
	ProjectSkipped Name = "project_trust.skipped"
	// TrustGiven and TrustRevoked: a person trusted a project's rule file by
	// its content (policy_digest), and no longer.
	TrustGiven   Name = "project_trust.given"
	TrustRevoked Name = "project_trust.revoked"
	// GrantGiven, GrantRevoked and GrantExpired: the life of a grant. A grant
	// counts only if its giving is on the record.
	GrantGiven   Name = "grant.given"
	GrantRevoked Name = "grant.revoked"
	GrantExpired Name = "grant.expired"
	// GrantRefused: a grant is kept whose giving is not on the record; it
	// counts for nothing.
	GrantRefused Name = "grant.refused"
	// PolicyMode: a person switched a mode on or off, or its time is over; mode
	// says which holds from then on.
	PolicyMode Name = "policy.mode"
	// PauseStarted and PauseEnded: a person switched asking off for a while.
	PauseStarted Name = "pause.started"
	PauseEnded   Name = "pause.ended"
	PauseRefused Name = "pause.refused"
	// SessionStrict: after a tripwire the session asks for everything.
	SessionStrict Name = "session.strict"
)

// Processes, surfaces and settings.
const (
	NodeStarted    Name = "node.started"
	NodeEnded      Name = "node.ended"
	SessionStarted Name = "session.started"
	SessionEnded   Name = "session.ended"
	DeskStarted    Name = "desk.started"
	DeskEnded      Name = "desk.ended"
	// SurfaceAttached, SurfaceDetached: something a person answers on came or
	// went. SurfaceAnnounced: the others were told. SurfaceRefused: it descends
	// from a governed agent or is not who it says.
	SurfaceAttached  Name = "surface.attached"
	SurfaceDetached  Name = "surface.detached"
	SurfaceAnnounced Name = "surface.announced"
	SurfaceRefused   Name = "surface.refused"
	// HookRefused: a hook's caller is not the client it speaks for.
	HookRefused Name = "hook.refused"
	// SetupChanged and SetupUndone: a client's settings were changed by us.
	SetupChanged Name = "setup.changed"
	SetupUndone  Name = "setup.undone"
	// ConfigResolved: which settings were found where.
	ConfigResolved Name = "config.resolved"
	// Reaped: leftovers of a dead node were removed.
	Reaped Name = "leftovers.reaped"
)

// What the log says of itself.
const (
	// Gap: records are missing here, or a part of the file was set aside.
	Gap Name = "gap"
	// LogHeader begins a file and continues the one before it.
	LogHeader Name = "log.header"
	// LogResumed: another process goes on in this file.
	LogResumed Name = "log.resumed"
	// LogLedger names the ledger's record of this file's start or resumption.
	LogLedger Name = "log.ledger"
	// LogHead marks a head that the ledger holds, too; with closing=true the
	// writer ended properly.
	LogHead Name = "log.head"
	// LedgerStarted: a writer began or resumed a file, with that record's
	// place and hash.
	LedgerStarted Name = "ledger.started"
	// LedgerHead: a writer's head.
	LedgerHead Name = "ledger.head"
)

// names has every name, sorted.
var names = [...]Name{
	AnswerDelivered, AnswerForeign, AnswerInvalid, AnswerLate,
	ChainDelegated, ChainResolved, ChainUnregisteredLink, ChainConsulted, LinkNote, LinkVacant,
	ChannelMode, ChildGone, ChildRegistered, ChildNodeAbsent, ConfigResolved,
	DeskEnded, DeskStarted, Effect,
	ForwardedApproved, ForwardedAutoApproved, ForwardedAutoDenied, ForwardedDenied, ForwardedEnded,
	MailRefused, NoServingSession, ParentLost, ForwardedPrompted, RelayStarted, RelayStopped,
	RequestCreated, ResponseReceived, ResponseTimedOut, ServingStarted, ServingStopped, SessionRecorded,
	Gap, GrantExpired, GrantGiven, GrantRefused, GrantRevoked, HandedToClientDialog, HookRefused,
	LedgerHead, LedgerStarted, Reaped, LogHead, LogHeader, LogLedger, LogResumed,
	NodeEnded, NodeStarted, ParentClaimed, ParentConfirmed, PauseEnded, PauseRefused, PauseStarted,
	ForwardingError, ForwardingWarning,
	AskApproved, AskAutoApproved, AskBlocked, AskDenied, AskDismissed, AskExpired, AskObserved,
	AskSessionApproved, AskUnavailable, AskWaiting, AskWithdrawn,
	PolicyApplied, PolicyChanged, PolicyLoaded, PolicyLoosenPending, PolicyMode, PolicyRejected, TrustGiven, TrustRevoked, ProjectSkipped,
	RanOther, RanUngated, ReleaseRefused, Released,
	SessionEnded, SessionStarted, SessionStrict, SetupChanged, SetupUndone,
	SurfaceAnnounced, SurfaceAttached, SurfaceDetached, SurfaceRefused, WithdrawnByClient,
}

// Names returns every name this version writes, sorted.
func Names() []Name { return append([]Name(nil), names[:]...) }

func known(n Name) bool {
	i := sort.Search(len(names), func(i int) bool { return names[i] >= n })
	return i < len(names) && names[i] == n
}

// own reports whether only the log itself writes events of this name.
func (n Name) own() bool {
	switch n {
	case Gap, LogHeader, LogResumed, LogLedger, LogHead, LedgerStarted, LedgerHead:
		return true
	}
	return false
}

// shaped reports whether n could be the name of an event, of this version or a
// later one.
func (n Name) shaped() bool {
	if len(n) == 0 || len(n) > 64 || n[0] == '.' || n[len(n)-1] == '.' {
		return false
	}
	for i := range len(n) {
		c := n[i]
		if (c < 'a' || c > 'z') && c != '_' && c != '.' {
			return false
		}
	}
	return true
}
