package wire

import "lukechampine.com/blake3"

// ClusterID is the sixteen bytes that every replica frame carries at 32..48: the
// first half of BLAKE3(cluster name), in digest order (§0).
type ClusterID [16]byte

// ClusterIDOf hashes a cluster's name.
func ClusterIDOf(name string) ClusterID {
	sum := blake3.Sum256([]byte(name))
	return ClusterID(sum[:16])
}
