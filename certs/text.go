package certs

import (
	"crypto/x509"
	"fmt"
	"strings"
	"unicode/utf8"
)

// What a certificate or a ClientHello says of itself is a stranger's bytes: all
// of it is quoted and clipped before it gets into a log line.
const (
	maxName = 100
	maxText = 300
)

// clip shortens one name.
func clip(text string) string { return clipTo(text, maxName) }

// clipTo shortens a text to at most limit bytes and the mark of the cut, never
// inside a character.
func clipTo(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit] + "…"
}

// subject names a certificate.
func subject(cert *x509.Certificate) string {
	return fmt.Sprintf("certificate %q", clip(cert.Subject.String()))
}

// issued names a certificate with its issuer.
func issued(cert *x509.Certificate) string {
	if cert == nil {
		return "none"
	}
	return fmt.Sprintf("%s issued by %q", subject(cert), clip(cert.Issuer.String()))
}

// names lists the SANs a certificate can be matched by, at most eight.
func names(cert *x509.Certificate) string {
	if cert == nil {
		return "nothing"
	}
	var list []string
	for _, ip := range cert.IPAddresses {
		list = append(list, ip.String())
	}
	for _, name := range cert.DNSNames {
		list = append(list, fmt.Sprintf("%q", clip(name)))
	}
	switch {
	case len(list) == 0:
		return "no IP address and no DNS name (" + subject(cert) + ")"
	case len(list) > maxNoted:
		return strings.Join(list[:maxNoted], ", ") + fmt.Sprintf(" and %d more", len(list)-maxNoted)
	}
	return strings.Join(list, ", ")
}
