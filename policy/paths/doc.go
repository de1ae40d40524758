// Package paths says where a file name leads and whether it lies where a rule
// points.
//
// A name has two answers: what it says (absolute, lexically cleaned) and
// where it really is (every link followed, the longest existing prefix
// resolved, what does not exist yet appended). A rule that forbids must hit
// when either answer lies in its place; a rule that permits must see both
// there, and must be sure of them.
//
// It promises that a name it is not sure of says so: a process's own view of
// the file system under /proc, another user's home, a loop of links, a
// directory it may not look into. It opens no file and changes nothing; what
// it knows of the file system comes through a [View].
//
// It does not promise that a name still leads there a moment later. Who
// releases an action judges it again.
package paths
