//go:build linux

package main

import (
	"fmt"
	"io"
	"net"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// buffers reads back from every process of a target how large its batch buffer
// is, in bytes; 0 stands for a maker that cannot be asked.
func (t *target) buffers(f *field) ([]int, error) {
	var sizes []int
	for _, g := range t.gates {
		path, err := g.write(f.dir, f.pki)
		if err != nil {
			return nil, err
		}
		out, err := exec.Command(f.binary, "check", "--config", path).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("check: %w: %s", err, out)
		}
		sizes = append(sizes, found(`\(buffer (\d+) `, string(out)))
	}
	for _, r := range t.relays {
		switch r.maker {
		case "haproxy":
			pools, err := ask(r.stats(f.dir), "show pools\n")
			if err != nil {
				return nil, err
			}
			sizes = append(sizes, found(`Pool buffer \((\d+) bytes\)`, pools))
		case "nginx":
			argv, err := r.argv(f.dir, f.pki)
			if err != nil {
				return nil, err
			}
			out, err := exec.Command(argv[0], append([]string{"-T"}, argv[1:]...)...).CombinedOutput()
			if err != nil {
				return nil, fmt.Errorf("nginx -T: %w: %s", err, out)
			}
			sizes = append(sizes, found(`proxy_buffer_size (\d+);`, string(out)))
		default:
			sizes = append(sizes, 0)
		}
	}
	return sizes, nil
}

func found(pattern, text string) int {
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		return -1
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// ask says one line to a unix socket and returns the answer.
func ask(path, line string) (string, error) {
	c, err := net.Dial("unix", path)
	if err != nil {
		return "", err
	}
	defer c.Close()
	if _, err := io.WriteString(c, line); err != nil {
		return "", err
	}
	all, err := io.ReadAll(c)
	return string(all), err
}

// congestion reads back the congestion control of every open socket of the
// namespace, and returns the different ones.
func congestion() ([]string, error) {
	out, err := exec.Command("ss", "-tinHO", "state", "established").Output()
	if err != nil {
		return nil, fmt.Errorf("ss: %w", err)
	}
	var seen []string
	for line := range strings.Lines(string(out)) {
		name := "unknown"
		if m := controlPattern.FindStringSubmatch(line); m != nil {
			name = m[1]
		}
		if !slices.Contains(seen, name) {
			seen = append(seen, name)
		}
	}
	return seen, nil
}

// controlPattern finds the algorithm in a line of ss: it stands before the window
// scales.
var controlPattern = regexp.MustCompile(`([a-z0-9_]+) wscale:`)
