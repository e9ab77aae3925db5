package main

import (
	"errors"
	"io/fs"
	"os"
	"slices"

	"github.com/replgate/replgate/configs"
	"github.com/replgate/replgate/watch"
)

// sources are sets of files that were read; the first that has a path counts.
type sources []watch.Snapshot

// Read returns a file's content.
func (s sources) Read(path string) (content []byte, err error) {
	for _, files := range s {
		if content, err = files.Read(path); !errors.Is(err, watch.ErrNotInSet) {
			break
		}
	}
	return content, err
}

// Mode returns a file's mode.
func (s sources) Mode(path string) (mode fs.FileMode, err error) {
	for _, files := range s {
		if mode, err = files.Mode(path); !errors.Is(err, watch.ErrNotInSet) {
			break
		}
	}
	return mode, err
}

// reading is one look at a configuration and at everything that it names, all of
// one moment: every file was read twice with the same bytes.
type reading struct {
	loaded *configs.Loaded
	files  sources
}

// rereadings bounds how often a configuration may name files that the reading
// before did not have: each hop to another file takes one.
const rereadings = 8

// read looks at a configuration for a gate that can wait for its secrets. A file
// that names others is read again together with those, until the set is whole: a
// secret of one moment never meets a configuration of another.
func read(path string) (reading, error) {
	paths := []string{path}
	for try := 1; ; try++ {
		files := sources{watch.New(watch.Options{Paths: paths}).Read()}
		r, asked, err := interpret(path, files)
		news := slices.DeleteFunc(asked, func(p string) bool { return slices.Contains(paths, p) })
		if len(news) == 0 || try == rereadings {
			return r, err
		}
		paths = append(paths, news...)
	}
}

// again is the same configuration with credentials that were read since.
func (r reading) again(path string, fresh watch.Snapshot) (reading, error) {
	next, _, err := interpret(path, sources{fresh, r.files[len(r.files)-1]})
	return next, err
}

// interpret is configs.Load of files that were read. It also returns the files that
// were asked for, there or not.
func interpret(path string, files sources) (r reading, asked []string, err error) {
	loaded, err := configs.Load(path, configs.Options{
		Env: os.Environ(), Rules: ruleSpecs(), Mode: files.Mode, Later: true,
		ReadFile: func(name string) ([]byte, error) {
			asked = append(asked, name)
			return files.Read(name)
		},
	})
	if err != nil {
		return reading{files: files}, asked, err
	}
	for _, f := range loaded.Config.CredentialFiles() {
		asked = append(asked, f.Path)
	}
	return reading{loaded, files}, asked, nil
}
