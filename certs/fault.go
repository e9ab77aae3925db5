package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"reflect"
	"strings"
	"syscall"
	"time"
)

// The words of a [Fault]: the endings that a TLS handshake can have.
const (
	FaultVersion      = "tls_version"
	FaultALPN         = "tls_alpn"
	FaultUnknownCA    = "tls_unknown_ca"
	FaultExpired      = "tls_expired"
	FaultNotYetValid  = "tls_not_yet_valid"
	FaultNameMismatch = "tls_name_mismatch"
	FaultTimeout      = "tls_timeout"
	FaultHelloTimeout = "hello_timeout" // as a server, silence after a whole ClientHello
	FaultPlaintext    = "tls_plaintext" // no TLS record at all: see Fault.Header
	FaultAlert        = "tls_alert"     // the other side ended it, or it broke otherwise
)

// The words of a [Fault] about a peer's certificate beyond its signature and its
// dates.
const (
	FaultNoClientCert = "tls_no_client_cert" // none came, and client_auth requires one
	FaultIdentity     = "identity_mismatch"  // it is another replica's, or nobody's where one is required
	FaultRevoked      = "peer_cert_revoked"  // it, or an intermediate, is in crl_file
)

// Fault is why a TLS handshake failed, or why the certificate of an established
// peer is refused, in one word of the vocabulary of endings
// and one sentence: what was expected, what was found, what to do.
type Fault struct {
	Word   string
	Detail string
	// Alert is the alert that the other side sent, 0 if it sent none.
	Alert uint8
	// Header is set with FaultPlaintext: the first five bytes, by which the
	// caller tells a plaintext replica from bytes that are nobody's frame.
	Header [5]byte
}

// The alerts of RFC 8446 §6 that have a word of their own.
const (
	alertHandshakeFailure   = 40
	alertCertificateExpired = 45
	alertUnknownCA          = 48
	alertProtocolVersion    = 70
	alertCertRequired       = 116
	alertNoApplication      = 120
)

// ClassifyClient explains the error of a handshake that we began. err is what
// HandshakeContext returned, now the local time. An end or a reset of the
// connection and a cancelled context are tls_alert here too; a caller that has
// better words for them asks before.
func ClassifyClient(err error, now time.Time) Fault {
	if alert, ok := remoteAlert(err); ok {
		return clientAlert(alert)
	}
	if fault, ok := transport(err, FaultTimeout); ok {
		return fault
	}
	if fault, ok := verification(err, now); ok {
		return fault
	}
	return broken(err)
}

// ClassifyServer explains the error of a handshake that the other side began.
// hello is the note of this connection, nil if none was taken. A client's alert
// is always tls_alert: it says what the client thinks of us, and not what is
// wrong with the client.
func ClassifyServer(err error, hello *Hello, now time.Time) Fault {
	if alert, ok := remoteAlert(err); ok {
		return serverAlert(alert)
	}
	timeout := FaultTimeout
	if hello.Seen() {
		timeout = FaultHelloTimeout
	}
	if fault, ok := transport(err, timeout); ok {
		return fault
	}
	// From here on the error is our own refusal. The version is judged before
	// the protocol, as crypto/tls does.
	if hello.refusedVersion() {
		return Fault{Word: FaultVersion, Detail: fmt.Sprintf(
			"expected TLS 1.3, found a client that offers only %s: allow TLS 1.3 on the dialing side", hello.offeredVersions())}
	}
	if hello.refusedALPN() {
		return Fault{Word: FaultALPN, Detail: fmt.Sprintf(
			"expected ALPN %q or none, found a client that offers only %s: something else than a replica dials this port", ALPN, hello.offeredProtocols())}
	}
	if fault, ok := verification(err, now); ok {
		return fault
	}
	return broken(err)
}

// remoteAlert finds the alert that the other side sent. Over TCP crypto/tls
// reports it as a net.OpError around an unexported type, and [tls.AlertError] is
// QUIC's alone; the kind of the value is the only thing to hold on to.
func remoteAlert(err error) (uint8, bool) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" || op.Err == nil {
		return 0, false
	}
	value := reflect.ValueOf(op.Err)
	if value.Kind() != reflect.Uint8 {
		return 0, false
	}
	return uint8(value.Uint()), true
}

// alertName gives an alert's number and its text.
func alertName(alert uint8) string {
	return fmt.Sprintf("alert %d (%s)", alert, strings.TrimPrefix(tls.AlertError(alert).Error(), "tls: "))
}

// clientAlert explains a server's alert to the client that we are.
func clientAlert(alert uint8) Fault {
	fault := Fault{Word: FaultAlert, Alert: alert}
	advice := "look at the log of the other side"
	expected := "the server to finish the handshake"
	switch alert {
	case alertProtocolVersion:
		fault.Word, expected = FaultVersion, "a server that speaks TLS 1.3"
		advice = "allow TLS 1.3 on the other side"
	case alertNoApplication:
		fault.Word, expected = FaultALPN, fmt.Sprintf("a server that knows ALPN %q", ALPN)
		advice = "check that the address is a replica port"
	case alertUnknownCA:
		fault.Word, expected = FaultUnknownCA, "a server that knows our CA"
		advice = "add our CA to the ca_file of the other side"
	case alertCertificateExpired:
		fault.Word, expected = FaultExpired, "a server that takes our certificate for valid"
		advice = "compare our certificate's dates and both clocks"
	case alertCertRequired:
		fault.Word, expected = FaultNoClientCert, "a server that takes us without a certificate"
		advice = "set cert_file and key_file here, which self_signed stands in the way of, or client_auth on the other side"
	case alertHandshakeFailure:
		// A server older than TLS 1.3 finds no suite it knows in our offer.
		advice = "look at the log of the other side; a server that knows only TLS 1.2 may answer so"
	}
	fault.Detail = fmt.Sprintf("expected %s, found its %s: %s", expected, alertName(alert), advice)
	return fault
}

// serverAlert explains a client's alert to the server that we are.
func serverAlert(alert uint8) Fault {
	advice := "look at the log of the other side"
	switch alert {
	case alertUnknownCA:
		advice = "check that our certificate is signed by a CA in the ca_file of the other side"
	case alertCertificateExpired:
		advice = "compare our certificate's dates and both clocks"
	}
	return Fault{Word: FaultAlert, Alert: alert, Detail: fmt.Sprintf(
		"expected the client to finish the handshake, found its %s: %s", alertName(alert), advice)}
}

// transport explains what happened below TLS: silence, an end, no TLS at all.
func transport(err error, timeout string) (Fault, bool) {
	var header tls.RecordHeaderError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return Fault{Word: timeout, Detail: "expected the TLS handshake to be finished in time, found silence: check that the other side runs and speaks TLS"}, true
	case errors.Is(err, context.Canceled), errors.Is(err, net.ErrClosed):
		return Fault{Word: FaultAlert, Detail: "expected the TLS handshake to be finished, found it given up on our side: nothing to do"}, true
	case errors.As(err, &header) && header.Conn != nil:
		// crypto/tls hands out Conn only when the very first record was none.
		return Fault{Word: FaultPlaintext, Header: header.RecordHeader, Detail: fmt.Sprintf(
			"expected a TLS record, found bytes that begin with % x: check the security setting of both sides", header.RecordHeader)}, true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return Fault{Word: FaultAlert, Detail: "expected the TLS handshake to be finished, found the connection closed by the other side without an alert: look at the log of the other side"}, true
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Fault{Word: FaultAlert, Detail: "expected the TLS handshake to be finished, found the connection reset by the other side: look at the log of the other side"}, true
	}
	return Fault{}, false
}

// broken is what is left: the other side broke the protocol, or shares no
// parameter with us. crypto/tls has only text for it, handed on as it is.
func broken(err error) Fault {
	return Fault{Word: FaultAlert, Detail: fmt.Sprintf(
		"expected a TLS 1.3 handshake, found it broken (%q): check what runs on the other side", clipTo(fmt.Sprint(err), maxText))}
}

// verification explains why the other side's certificate was refused.
func verification(err error, now time.Time) (Fault, bool) {
	var refused *tls.CertificateVerificationError
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var ours *refusedError
	switch {
	case errors.As(err, &ours):
		return ours.fault, true
	case errors.As(err, &host):
		return Fault{Word: FaultNameMismatch, Detail: fmt.Sprintf(
			"expected a certificate for %q, found one for %s: add the address to its SANs, or set server_name", host.Host, names(host.Certificate))}, true
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && invalid.Cert != nil:
		return dates(invalid.Cert, now), true
	case errors.As(err, &authority):
		return Fault{Word: FaultUnknownCA, Detail: fmt.Sprintf(
			"expected a certificate signed by a CA of ca_file, found %s: add its CA to ca_file", issued(authority.Cert))}, true
	case errors.As(err, &refused):
		return Fault{Word: FaultAlert, Detail: fmt.Sprintf(
			"expected an acceptable certificate, found one that is not (%q): replace it on the other side", clipTo(refused.Err.Error(), maxText))}, true
	}
	return Fault{}, false
}

// dates tells the two kinds of [x509.Expired] apart (T46). A certificate that was
// refused a moment ago and is valid by our reading has become valid in between:
// what has expired stays so.
func dates(cert *x509.Certificate, now time.Time) Fault {
	if validity(cert, now) > 0 {
		return Fault{Word: FaultExpired, Detail: fmt.Sprintf(
			"expected a certificate that is valid now, found %s %s: replace the certificate, or correct the local clock", subject(cert), outside(cert, now))}
	}
	return Fault{Word: FaultNotYetValid, Detail: fmt.Sprintf(
		"expected a certificate that is valid now, found %s %s: compare both clocks, or wait", subject(cert), outside(cert, now))}
}
