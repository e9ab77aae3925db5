package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// source is one Go file, read and parsed.
type source struct {
	name string // below the top of the repository, with slashes
	text string
	set  *token.FileSet
	file *ast.File
}

func parseSource(name, text string) (source, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, fmt.Errorf("house: %s: %w", name, err)
	}
	return source{name, text, set, file}, nil
}

func (s source) isTest() bool { return strings.HasSuffix(s.name, "_test.go") }

func (s source) line(p token.Pos) int { return s.set.Position(p).Line }

// complain writes a complaint about one place in the file.
func (s source) complain(p token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.name, s.line(p), fmt.Sprintf(format, args...))
}

// importName is the name by which the file knows a package; empty when it does not import it.
func (s source) importName(importPath string) string {
	for _, i := range s.file.Imports {
		if p, err := strconv.Unquote(i.Path.Value); err != nil || p != importPath {
			continue
		}
		if i.Name != nil {
			return i.Name.Name
		}
		return path.Base(importPath)
	}
	return ""
}

// isCall tells whether a node calls pkg.function of the given import path.
func (s source) isCall(n ast.Node, importPath string, functions ...string) bool {
	on, name := called(n)
	return on != "" && on == s.importName(importPath) && slices.Contains(functions, name)
}

// called gives x and f of a call x.f(), both empty for any other node.
func called(n ast.Node) (on, name string) {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return "", ""
	}
	selector, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return "", ""
	}
	x, ok := selector.X.(*ast.Ident)
	if !ok {
		return "", ""
	}
	return x.Name, selector.Sel.Name
}

// commentNear returns the text of a comment that stands on the line of p, or ends on one of the lines above it.
func (s source) commentNear(p token.Pos, above int) string {
	at := s.line(p)
	for _, group := range s.file.Comments {
		if end := s.line(group.End()); end >= at-above && end <= at {
			return strings.TrimSpace(group.Text())
		}
	}
	return ""
}

// files lists the regular files below root that belong to the repository's text, with slashes. Recorded bytes, what a
// build made and git's own files do not.
func files(root fs.FS) (names []string, err error) {
	err = fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			switch path.Base(name) {
			case ".git", "testdata", "bin", "dist", "tmp", "node_modules":
				return fs.SkipDir
			}
			return nil
		}
		// In a work tree beside the repository .git is a file that names a folder.
		if d.Type().IsRegular() && path.Base(name) != ".git" {
			names = append(names, filepath.ToSlash(name))
		}
		return nil
	})
	return names, err
}
