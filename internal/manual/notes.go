package manual

import "strings"

// notes are the comments of an annotated TOML file: by the path of a table, and by
// the path of a key.
type notes struct{ tables, keys map[string]string }

// readNotes takes the comments out of the example. A comment above a key or behind
// it belongs to it; one above a group of lines without a gap belongs also to those
// of them that have none of their own. A comment that is followed by an empty line
// belongs to nobody. The first mention of a key counts.
func readNotes(example []byte) notes {
	n := notes{map[string]string{}, map[string]string{}}
	var lead []string // the comment lines above
	table, inComment := "", false
	for line := range strings.Lines(string(example)) {
		line = strings.TrimSpace(line)
		text, remark, _ := strings.Cut(line, "#")
		text, remark = strings.TrimSpace(text), strings.TrimSpace(remark)
		wasComment := inComment
		inComment = text == "" && line != ""
		switch {
		case line == "":
			lead = nil
		case inComment:
			if !wasComment {
				lead = nil
			}
			lead = append(lead, remark)
		case strings.HasPrefix(text, "["):
			table = strings.Trim(text, "[]")
			keep(n.tables, table, sentence(lead, remark))
			lead = nil
		default:
			key, value, _ := strings.Cut(text, "=")
			path := join(table, strings.TrimSpace(key))
			above := lead
			if !wasComment && remark != "" {
				above = nil // it has one of its own
			}
			keep(n.keys, path, sentence(above, remark))
			if inner, ok := strings.CutPrefix(strings.TrimSpace(value), "{"); ok { // ports = { tcp_replica = 9090 }
				name, _, _ := strings.Cut(inner, "=")
				keep(n.keys, join(path, strings.TrimSpace(name)), sentence(above, remark))
			}
		}
	}
	return n
}

func keep(in map[string]string, key, text string) {
	if _, ok := in[key]; !ok {
		in[key] = text
	}
}

// sentence joins the comment above a line with the one behind it.
func sentence(above []string, behind string) string {
	text := strings.Join(above, " ")
	switch {
	case text == "":
		return behind
	case behind == "":
		return text
	case !strings.HasSuffix(text, "."):
		text += "."
	}
	return text + " " + capital(behind)
}

func join(table, key string) string {
	if table == "" {
		return key
	}
	return table + "." + key
}
