// Package house holds the rules of the house as tests: who may import whom, how long a file and a function may be,
// what a comment must say and what no text may contain.
//
// The rules are functions on the text of the repository and return what they found as complaints, each with its place
// and its reason; a test runs each of them over the whole repository and another one over an example that breaks it.
// The package is no part of the program: nothing imports it, and it imports nothing but the standard library.
//
// docs/ARCHITECTURE.md has the picture that doors.go is the twin of. Who changes one changes the other.
package house
