package watch

import (
	"path/filepath"
	"strings"
	"testing"
)

// The table of a container: a Secret mounted whole, one file and one folder of it
// mounted with subPath, a file of the runtime's, a mount point with a space.
const containerMounts = `1094 935 0:133 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/x:/y,upperdir=/z
1095 1094 0:135 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
1100 1094 0:121 / /etc/tls ro,relatime - tmpfs tmpfs rw,size=1048576k
1101 1094 0:122 /..2026_01_02_03_04_05.123456789/tls.crt /etc/frozen/tls.crt ro,relatime - tmpfs tmpfs rw
1102 1094 0:123 /..2026_01_02_03_04_05.123456789/sub /etc/folder ro,relatime - tmpfs tmpfs rw
1103 1094 254:1 /var/lib/kubelet/pods/1/etc-hosts /etc/hosts rw,relatime shared:3 master:2 - ext4 /dev/vda1 rw
1104 1094 254:1 /data /mnt/a\040b\134c/tls.key rw,relatime - ext4 /dev/vda1 rw
1105 1094 254:1 /..2026/x /mnt/volume rw - ext4 /dev/vda1 rw
`

// T7: what is held fast by a mount, from the text of a table.
func TestMountedInTable(t *testing.T) {
	for _, c := range []struct {
		file string
		want bool
	}{
		{"/etc/frozen/tls.crt", true},
		{"/etc/frozen/tls.key", false},
		{"/etc/frozen", false},
		{"/etc/tls/..2026_01_02_03_04_05.123456789/tls.crt", false},
		{"/etc/folder/tls.crt", true},
		{"/etc/folders/tls.crt", false},
		{"/etc/hosts", true},
		{`/mnt/a b\c/tls.key`, true},
		{`/mnt/a\040b\134c/tls.key`, false},
		{"/mnt/volume/deep/down/tls.crt", true},
		{"/home", false},
	} {
		if got, err := mounted(strings.NewReader(containerMounts), c.file); got != c.want || err != nil {
			t.Errorf("%s: got %v, %v, want %v", c.file, got, err, c.want)
		}
	}
	if _, err := mounted(strings.NewReader("1 2 3\n"), "/a"); err == nil || !strings.Contains(err.Error(), "got 3 fields") {
		t.Errorf("got %v for a line of three fields, want an error that says so", err)
	}
}

// A file that is there and one that is not are no mount points on this machine.
func TestNotMounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	for range 2 {
		if got, err := Mounted(path); got || err != nil {
			t.Errorf("got %v, %v, want no mount point", got, err)
		}
		write(t, path, "a")
	}
}
