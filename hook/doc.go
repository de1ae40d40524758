// Package hook is the process that an agent client starts at every event: it
// carries its arguments, a few variables and its standard input to the node of
// that agent, waits, and does what the node says: exit code, standard output
// and standard error, byte for byte.
//
//	permd-hook [--root DIR] [--gate] [--no-start] CLIENT
//
// It promises:
//
//   - Failing closed. With --gate whatever goes wrong (no node and none to be
//     started, a node that is stuck, dies, or talks nonsense, input over the
//     limit, an output that cannot be written) ends with code 2 and a reason
//     on standard error, which is how clients are told to refuse. Without
//     --gate it ends with 0 and the reason on standard error: the event was
//     none that a failure must stop. A command line it cannot read may have
//     been meant as a gate, so it ends with 2.
//   - Not hanging. A node that says nothing for hookwire.Silence is given up;
//     one that says "still at it" is waited for without a limit, because a
//     person may be asked.
//   - One node. When there is none it starts one, and of any number of calls
//     at once, some of them killed in the middle, one starts one. With
//     --no-start a call without --gate that finds no node ends silently with 0:
//     setup gives it to events that end something, for which a new node would
//     know nothing. Every other event proves that an agent is at work, and
//     starts one.
//   - Being withdrawn by its death: it handles no signal; the kernel closes
//     its connection, and that is how the node learns of it.
//   - HOME, XDG_*, PATH and PERMD_* locate nothing. The directories come from
//     --root or the password database, the program to start from beside this
//     one, and the agent from the process tree: a variable that names its
//     process counts only if that process is an ancestor of this one.
//
// It knows no client's dialect: it reads neither the input nor the output. It
// says nothing about whether a call is allowed. It is linked lean, and a test
// holds the list of what it imports: it runs at every tool call.
//
// # How a node is started
//
// The caller takes start.lock in the runtime directory, waiting for it, looks
// again, and runs the permd beside its own program:
//
//	permd node --client CLIENT --pid N --start S [--root DIR]
//
// in a session of its own, in the directory "/", with no environment but PATH,
// standard input and output at /dev/null, standard error appended to
// node-start.log, descriptor 3 the locked start.lock and descriptor 4 the
// writing end of a pipe. The node writes "ok\n" to 4 when its socket takes
// connections, or the reason why it cannot, and then closes 3 and 4. It must
// not mind that nobody reads. The lock goes with the node's descriptor and not
// with the caller, who may be killed. The caller ends soon, so a node is not
// below the agent in the process tree, nor is what it starts.
package hook
