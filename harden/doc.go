// Package harden makes the plan that takes a running plaintext cluster behind
// gates, node by node, to strict, and the way back. A plan is data: steps in
// order, each with the files it writes, the commands it runs, what must hold
// before it and what shows that it worked. A program can carry it out as it
// stands, and Text prints the same steps for people.
//
// It never touches a file, a process or a socket, and knows no other room: the
// roster comes in as values, and edits of Iggy's own file from a function. The
// configurations that it writes are held against the schema by its tests.
//
// Every step but the first asks for what the step before it has done. A step that
// was left out, or whose turn it is not, is refused before it changes anything.
package harden
