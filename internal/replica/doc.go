// Package replica is a stand-in for an Iggy replica: it performs the handshake
// honestly in both roles and all three securities, and plays recordings of a real
// cluster frame for frame, holding what arrives against what was recorded. It is
// test equipment, also for the demo, and never claims to be Iggy.
//
// It imports the rooms it needs to speak (wire, mac) and none of those it tests.
package replica
