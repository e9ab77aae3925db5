package house

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// A file is one role and a function one step; these are the lengths beyond which experience says that they are not.
const (
	maxFileLines     = 400
	maxFunctionLines = 60
)

// checkLengths finds files and functions that are too long. Tests may be long: a table is. So may what a machine wrote.
func checkLengths(s source) (complaints []string) {
	if s.isTest() || ast.IsGenerated(s.file) {
		return nil
	}
	if n := strings.Count(s.text, "\n"); n > maxFileLines {
		complaints = append(complaints, fmt.Sprintf("%s: %d lines, at most %d: one role per file", s.name, n, maxFileLines))
	}
	for _, d := range s.file.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		if n := s.line(f.End()) - s.line(f.Pos()) + 1; n > maxFunctionLines {
			complaints = append(complaints,
				s.complain(f.Pos(), "%s has %d lines, at most %d: one step per function", f.Name.Name, n, maxFunctionLines))
		}
	}
	return complaints
}

// checkInit finds init functions: what runs before main cannot be ordered, tested or given options.
func checkInit(s source) (complaints []string) {
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			complaints = append(complaints, s.complain(f.Pos(), "init: nothing happens before main"))
		}
	}
	return complaints
}

// checkPackageComment finds packages that do not say what they are. Given are the files of one folder.
func checkPackageComment(folder string, in []source) []string {
	if i := slices.IndexFunc(in, func(s source) bool { return !s.isTest() }); i >= 0 {
		in = slices.DeleteFunc(slices.Clone(in), source.isTest)
	}
	for _, s := range in {
		// A comment that only carries a build constraint or a licence does not count.
		if text := s.file.Doc.Text(); strings.HasPrefix(text, "Package "+s.file.Name.Name+" ") ||
			(s.file.Name.Name == "main" && text != "") {
			return nil
		}
	}
	return []string{folder + ": no package comment: it says what the package does, what it never does, and where it stands"}
}
