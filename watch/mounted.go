package watch

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// mountTable lists the mounts that this process sees, one a line (proc(5)).
const mountTable = "/proc/self/mountinfo"

// Mounted reports whether a mount holds the file at a path fast, so that it never
// rotates: the file that the path leads to is a mount point itself, or it lies in a
// mounted folder of one generation of a kubelet's volume. Both are what subPath
// makes: the kubelet follows the volume's links once, when the container begins. A
// file of a volume that is mounted whole is free. Where the system has no such table,
// there is no such mount.
func Mounted(path string) (bool, error) {
	table, err := os.Open(mountTable)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("watch: got no table of mounts: %w", err)
	}
	defer func() { _ = table.Close() }()
	chain := follow(path)
	return mounted(table, chain[len(chain)-1])
}

// mounted looks for the mounts that hold a file fast; its path has no links.
func mounted(table io.Reader, file string) (bool, error) {
	lines := bufio.NewScanner(table)
	// A line holds paths and options of a mount, an overlay's can be long.
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// Fields four and five are the folder of the file system that is mounted, and
		// the mount point. A kubelet names generations ..2006_01_02_15_04_05.000000000.
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			return false, fmt.Errorf("watch: got %d fields in a line of %s, want 5 or more", len(fields), mountTable)
		}
		root, point := unescape.Replace(fields[3]), unescape.Replace(fields[4])
		if point == file || strings.HasPrefix(file, point+"/") && strings.Contains(root, "/..2") {
			return true, nil
		}
	}
	return false, lines.Err()
}

// unescape gives back the bytes that the kernel writes as octal numbers.
var unescape = strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
