// Package floors holds the order of permd's packages as tests: nothing imports
// upward, configuration libraries stay in the commands, and the hook, which
// starts at every tool call, links nothing that is not on its list.
//
// A new package is entered in the table of floors_test.go; a test fails until
// it is.
package floors
