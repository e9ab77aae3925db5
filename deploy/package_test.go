package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestPackage holds the list of files against the repository and the unit.
func TestPackage(t *testing.T) {
	text := read(t, "package/nfpm.yaml")
	for _, m := range regexp.MustCompile(`(?m)(?:src|postinstall|preremove|postremove): (\S+)`).FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[1], "dist/") {
			continue // made by dist.sh
		}
		if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
			t.Errorf("got %v, want every file of the package", err)
		}
	}
	var places []string
	for _, m := range regexp.MustCompile(`(?m)dst: (\S+)`).FindAllStringSubmatch(text, -1) {
		places = append(places, m[1])
	}
	keys := unit(t)
	for _, want := range []string{strings.Fields(one(t, keys, "ExecStart"))[0], "/etc/" + one(t, keys, "ConfigurationDirectory"),
		"/usr/lib/systemd/system/" + filepath.Base(unitFile), "/usr/lib/sysusers.d/replgate.conf"} {
		if !slices.Contains(places, want) {
			t.Errorf("got no %s in the package: %q", want, places)
		}
	}
	// A configuration that is there starts a gate that nobody has configured.
	if slices.Contains(places, "/etc/replgate/replgate.toml") {
		t.Error("got a configuration in the package, want an example")
	}
}

// TestPackageUser: one user, made twice over, runs the service and reads its files.
func TestPackageUser(t *testing.T) {
	user := one(t, unit(t), "User")
	for name, want := range map[string]string{
		"package/sysusers.conf":  "u " + user + " - ",
		"package/postinstall.sh": "chown root:" + user + " /etc/replgate",
	} {
		if !strings.Contains(read(t, name), want) {
			t.Errorf("%s: got no %q", name, want)
		}
	}
}
