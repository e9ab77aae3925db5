//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a program under measurement.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string
}

// start runs argv with its output in a file below dir, on one processor only when
// pinned.
func start(dir, name string, pinned bool, argv ...string) (*process, error) {
	if pinned {
		argv = append([]string{"taskset", "-c", pinnedTo}, argv...)
	}
	p := &process{name: name, log: filepath.Join(dir, name+".log"), cmd: exec.Command(argv[0], argv[1:]...)}
	out, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	p.cmd.Stdout, p.cmd.Stderr = out, out
	// Not SIGKILL: a master that is killed leaves its workers.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return p, nil
}

// pinnedTo is the processor of every process of a pinned cell.
const pinnedTo = "1"

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop ends it; what it says about that is of no interest.
func (p *process) stop() {
	p.cmd.Process.Signal(syscall.SIGTERM)
	done := time.AfterFunc(3*time.Second, func() { p.cmd.Process.Kill() })
	defer done.Stop()
	p.cmd.Wait()
}

// listens waits until something accepts at address.
func listens(address string) error {
	var err error
	for range 100 {
		var c net.Conn
		if c, err = net.DialTimeout("tcp", address, time.Second); err == nil {
			return c.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	return err
}

// tree is the pids and all their descendants: nginx and HAProxy have workers.
func tree(roots []int) []int {
	children := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		if fields, err := statFields(path); err == nil {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			parent, _ := strconv.Atoi(fields[statParent])
			children[parent] = append(children[parent], pid)
		}
	}
	var all []int
	for next := roots; len(next) > 0; {
		pid := next[0]
		all, next = append(all, pid), append(next[1:len(next):len(next)], children[pid]...)
	}
	return all
}

// Fields of /proc/PID/stat, counted from the one behind the name.
const (
	statParent = 1
	statUser   = 11
	statSystem = 12
	clockTick  = 10 * time.Millisecond
)

func statFields(path string) ([]string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(fields) <= statSystem {
		return nil, errors.New("short " + path)
	}
	return fields, nil
}

// cpu is what the pids and their descendants have used. schedstat is exact and
// forgets threads that have ended; utime and stime keep them in steps of 10 ms:
// the larger one counts.
func cpu(roots []int) (total time.Duration) {
	for _, pid := range tree(roots) {
		var exact time.Duration
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
		for _, path := range tasks {
			b, err := os.ReadFile(path)
			if fields := strings.Fields(string(b)); err == nil && len(fields) > 0 {
				ns, _ := strconv.ParseInt(fields[0], 10, 64)
				exact += time.Duration(ns)
			}
		}
		var coarse time.Duration
		if fields, err := statFields(fmt.Sprintf("/proc/%d/stat", pid)); err == nil {
			user, _ := strconv.ParseInt(fields[statUser], 10, 64)
			system, _ := strconv.ParseInt(fields[statSystem], 10, 64)
			coarse = time.Duration(user+system) * clockTick
		}
		total += max(exact, coarse)
	}
	return total
}

// memory is the proportional set size of the pids and their descendants, in bytes.
func memory(roots []int) (total int64) {
	for _, pid := range tree(roots) {
		f, err := os.Open(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if err != nil {
			continue
		}
		total += pss(f)
		f.Close()
	}
	return total
}

func pss(r io.Reader) int64 {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); len(fields) > 1 && fields[0] == "Pss:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

// busy is all that the machine has done, in steps of 10 ms.
func busy() (total time.Duration) {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	const idle, iowait, guest = 3, 4, 8
	for i, field := range strings.Fields(line)[1:] {
		if i != idle && i != iowait && i < guest {
			ticks, _ := strconv.ParseInt(field, 10, 64)
			total += time.Duration(ticks) * clockTick
		}
	}
	return total
}

// quiet waits, for two seconds at most, until others leave the machine alone.
func quiet() {
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		b, t := busy(), time.Now()
		time.Sleep(100 * time.Millisecond)
		if (busy()-b).Seconds()/time.Since(t).Seconds() < 0.2 {
			return
		}
	}
}
