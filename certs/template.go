package certs

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
)

// The placeholders of a template.
const (
	holdTrustDomain = "{trust_domain}"
	holdCluster     = "{cluster}"
	holdReplica     = "{replica}"
)

// uriScheme begins a template for URI SANs, which are SPIFFE IDs.
const uriScheme = "spiffe://"

// Template says which name a replica's certificate carries: a URI SAN where it
// begins with spiffe://, a DNS SAN elsewhere. It is immutable.
type Template struct {
	uri bool
	// name has trust domain and cluster filled in and holdReplica left.
	name string
	// sibling matches the names of all replicas of this cluster, shape those of
	// any replica of any cluster in any trust domain.
	sibling, shape *regexp.Regexp
}

// The characters that a name of either kind may be made of. A SPIFFE ID has no
// percent encoding, so that what stands in a certificate is what is compared.
var (
	uriSegment = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)
	domainName = regexp.MustCompile(`^[a-z0-9._-]+$`)
	dnsLabel   = regexp.MustCompile(`^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?$`)
	anyHold    = regexp.MustCompile(`\{[^{}]*\}`)
)

// NewTemplate reads a template. It must hold {replica}, so that two replicas
// never share a name, and may hold {cluster} and {trust_domain}, which are filled
// in from the arguments. The result must be a name that a CA can put into a
// certificate: a SPIFFE ID, or a DNS name without a wildcard. DNS names know no
// case, a SPIFFE ID's path does.
func NewTemplate(text, trustDomain, cluster string) (*Template, error) {
	values := map[string]string{holdTrustDomain: trustDomain, holdCluster: cluster}
	for _, hold := range anyHold.FindAllString(text, -1) {
		value, known := values[hold]
		switch {
		case hold == holdReplica:
		case !known:
			return nil, fmt.Errorf("certs: got placeholder %q in the identity %q, want %s, %s or %s",
				clip(hold), clip(text), holdTrustDomain, holdCluster, holdReplica)
		case !uriSegment.MatchString(value):
			return nil, fmt.Errorf("certs: got %q for %s of the identity %q, want letters, digits, dots, dashes, or an identity without it",
				clip(value), hold, clip(text))
		}
	}
	if !strings.Contains(text, holdReplica) {
		return nil, fmt.Errorf("certs: got the identity %q, want %s in it: two replicas must not share a name", clip(text), holdReplica)
	}
	t := &Template{uri: strings.HasPrefix(text, uriScheme)}
	if !t.uri {
		text, values[holdTrustDomain], values[holdCluster] = strings.ToLower(text), strings.ToLower(trustDomain), strings.ToLower(cluster)
	}
	t.name = strings.NewReplacer(holdTrustDomain, values[holdTrustDomain], holdCluster, values[holdCluster]).Replace(text)
	// Checked with the longest id, because DNS limits the length.
	if err := t.check(t.Name(255)); err != nil {
		return nil, fmt.Errorf("certs: the identity %q makes names like %q: %w", clip(text), clip(t.Name(255)), err)
	}
	// A cluster's name may hold dots, and in a URI no slash.
	filler := `.+`
	if t.uri {
		filler = `[^/]+`
	}
	t.sibling = pattern(t.name, filler)
	t.shape = pattern(text, filler)
	return t, nil
}

// pattern is a template as an expression: {replica} is a number, what else is
// not filled in is any text.
func pattern(text, filler string) *regexp.Regexp {
	expression := strings.NewReplacer(
		regexp.QuoteMeta(holdReplica), `[0-9]+`,
		regexp.QuoteMeta(holdCluster), filler,
		regexp.QuoteMeta(holdTrustDomain), filler,
	).Replace(regexp.QuoteMeta(text))
	return regexp.MustCompile(`^` + expression + `$`)
}

// check refuses what no certificate could carry.
func (t *Template) check(name string) error {
	if t.uri {
		return checkURI(name)
	}
	if len(name) > 253 {
		return fmt.Errorf("got %d bytes, want a DNS name of at most 253", len(name))
	}
	for label := range strings.SplitSeq(name, ".") {
		if len(label) > 63 || !dnsLabel.MatchString(label) {
			return fmt.Errorf("got the label %q, want %s… or a DNS name: letters, digits and dashes between dots", clip(label), uriScheme)
		}
	}
	return nil
}

// checkURI holds a name against the rules for SPIFFE IDs.
func checkURI(name string) error {
	domain, path, found := strings.Cut(strings.TrimPrefix(name, uriScheme), "/")
	switch {
	case len(name) > 2048:
		return fmt.Errorf("got %d bytes, want a SPIFFE ID of at most 2048", len(name))
	case !domainName.MatchString(domain) || len(domain) > 255:
		return fmt.Errorf("got the trust domain %q, want lower-case letters, digits, dots, dashes", clip(domain))
	case !found:
		return errors.New("got no path, want one behind the trust domain")
	}
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "." || segment == ".." || !uriSegment.MatchString(segment) {
			return fmt.Errorf("got the path segment %q, want letters, digits, dots, dashes", clip(segment))
		}
	}
	return nil
}

// Name returns the name that a replica's certificate has to carry.
func (t *Template) Name(replica uint8) string {
	return strings.ReplaceAll(t.name, holdReplica, strconv.Itoa(int(replica)))
}

// bearing is what a certificate says about which replica it is for.
type bearing uint8

const (
	bearsNone   bearing = iota // no name of the template's shape
	bearsOwn                   // the replica's name, and no other of its cluster
	bearsShared                // the replica's name beside others of its cluster: any of them may hold the key
	bearsOther                 // only names of other replicas, clusters or trust domains
)

// bearing looks for a replica's name among the SANs of a leaf, and gives a name
// that explains the verdict. What has another shape, as a pod's service name or
// a wildcard, says nothing about replicas and is passed over.
func (t *Template) bearing(leaf *x509.Certificate, replica uint8) (bearing, string) {
	own, sibling, foreign := false, "", ""
	for _, name := range t.names(leaf) {
		switch {
		case name == t.Name(replica):
			own = true
		case t.sibling.MatchString(name):
			sibling = name
		case t.shape.MatchString(name):
			foreign = name
		}
	}
	switch {
	case own && sibling != "":
		return bearsShared, sibling
	case own:
		return bearsOwn, t.Name(replica)
	case sibling != "":
		return bearsOther, sibling
	case foreign != "":
		return bearsOther, foreign
	}
	return bearsNone, ""
}

// names lists a leaf's SANs of the template's kind, written as templates are.
func (t *Template) names(leaf *x509.Certificate) []string {
	var list []string
	if !t.uri {
		for _, name := range leaf.DNSNames {
			list = append(list, strings.ToLower(strings.TrimSuffix(name, ".")))
		}
		return list
	}
	for _, uri := range leaf.URIs {
		if uri.Scheme == "spiffe" && *uri == (url.URL{Scheme: uri.Scheme, Host: uri.Host, Path: uri.Path, RawPath: uri.RawPath}) {
			list = append(list, uriScheme+strings.ToLower(uri.Host)+uri.EscapedPath())
		}
	}
	return list
}
