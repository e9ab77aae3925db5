package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/replgate/replgate/wire"
)

// decodeMax is the largest frame decode reads: Iggy's default limit and then some.
const decodeMax = 1 << 30

func newDecode() *cobra.Command {
	return &cobra.Command{
		Use:   "decode FILE|-",
		Short: "Print recorded frames as people read them, with what is wrong in each",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := cmd.InOrStdin()
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return failure(err)
				}
				defer f.Close()
				in = f
			}
			return failure(decode(cmd.OutOrStdout(), in))
		},
	}
}

// decode prints the frames of a stream until its end.
func decode(out io.Writer, in io.Reader) error {
	w, r := bufio.NewWriter(out), bufio.NewReader(in)
	defer w.Flush()
	body := new(wire.BodyVerifier)
	for at := int64(0); ; {
		h := new(wire.Header)
		switch n, err := io.ReadFull(r, h[:]); {
		case err == io.EOF:
			return w.Flush()
		case errors.Is(err, io.ErrUnexpectedEOF):
			return fmt.Errorf("got %d bytes at offset %d, want a header of %d", n, at, wire.HeaderSize)
		case err != nil:
			return fmt.Errorf("offset %d: %w", at, err)
		}
		size := wire.Size.Get(h)
		if size < wire.HeaderSize || size > decodeMax {
			return fmt.Errorf("offset %d: %w", at, &wire.SizeError{Size: size, Max: decodeMax})
		}
		var rest bytes.Buffer // grows with what is there, not with what a header claims
		switch n, err := io.CopyN(&rest, r, int64(size)-wire.HeaderSize); {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("got %d bytes of body at offset %d, want %d", n, at, int64(size)-wire.HeaderSize)
		case err != nil:
			return fmt.Errorf("offset %d: %w", at, err)
		}
		printFrame(w, at, h, rest.Bytes(), body)
		at += int64(size)
	}
}

// printFrame prints one frame on one line, and its entries below it.
func printFrame(w io.Writer, at int64, h *wire.Header, body []byte, verifier *wire.BodyVerifier) {
	c := h.Command()
	cluster := h.ClusterID()
	fmt.Fprintf(w, "%8d %-21s cluster=%x size=%d view=%d replica=%d", at, c, cluster[:4], wire.Size.Get(h), wire.View.Get(h), wire.Replica.Get(h))
	if release := wire.Release.Get(h); release != 0 {
		fmt.Fprintf(w, " release=%d", release)
	}
	for _, f := range wire.Layout(c) {
		printField(w, h, f)
	}
	if found := faults(h, body, verifier); found != nil {
		fmt.Fprintf(w, "  FAULT %v", found)
	}
	fmt.Fprintln(w)
	printBody(w, h, body)
}

func printField(w io.Writer, h *wire.Header, f wire.Field) {
	b := h[f.At : f.At+f.Len]
	switch {
	case f.Name == "operation":
		fmt.Fprintf(w, " operation=%v", wire.Operation(b[0]))
	case f.Name == "reason":
		fmt.Fprintf(w, " reason=%v", wire.EvictionReason(b[0]))
	case f.Name == "status" && f.Len == 1:
		fmt.Fprintf(w, " status=%v", wire.Status(b[0]))
	case f.Name == "group":
		fmt.Fprintf(w, " group=%s", group(wire.U64(f.At).Get(h)))
	case f.Len == 1:
		fmt.Fprintf(w, " %s=%d", f.Name, b[0])
	case f.Len == 4:
		fmt.Fprintf(w, " %s=%d", f.Name, wire.U32(f.At).Get(h))
	case f.Len == 8:
		fmt.Fprintf(w, " %s=%d", f.Name, wire.U64(f.At).Get(h))
	case isZero(b):
		fmt.Fprintf(w, " %s=0", f.Name)
	default:
		fmt.Fprintf(w, " %s=%s", f.Name, hex.EncodeToString(b))
	}
}

// group prints a consensus group: metadata, or stream/topic/partition.
func group(g uint64) string {
	if g == wire.MetadataGroup {
		return "metadata"
	}
	return fmt.Sprintf("%d/%d/%d", g>>32, g>>20&0xfff, g&0xfffff)
}

func isZero(b []byte) bool { return strings.Trim(string(b), "\x00") == "" }

// faults are what a receiver would find wrong, without knowing the cluster.
func faults(h *wire.Header, body []byte, verifier *wire.BodyVerifier) error {
	c := h.Command()
	switch {
	case !c.Valid():
		return &wire.CommandError{Command: c}
	case c.Sealed() && !wire.SealOK(h):
		return errors.New("the frame seal does not match")
	case c.IsPrepare() && !wire.Checksum.Get(h).IsZero() && wire.Checksum.Get(h) != wire.Identity(h):
		return errors.New("the prepare identity does not match")
	}
	if err := wire.Validate(h); err != nil {
		return err
	}
	if err := verifier.Verify(h, body); err != nil {
		return err
	}
	if c == wire.DoViewChange || c == wire.StartView {
		return wire.CheckSuffix(wire.ViewOp.Get(h), body)
	}
	return nil
}

// printBody prints what a body is made of, a line for each part.
func printBody(w io.Writer, h *wire.Header, body []byte) {
	switch c := h.Command(); {
	case c == wire.DoViewChange || c == wire.StartView:
		suffix := wire.Suffix(body)
		for i := range suffix.Len() {
			e := suffix.Entry(i)
			op := wire.PrepareOp.Get(e)
			if wire.Blank(e, op) {
				fmt.Fprintf(w, "%10s op=%d blank\n", "", op)
				continue
			}
			fmt.Fprintf(w, "%10s op=%d view=%d operation=%v timestamp=%d\n", "", op, wire.View.Get(e),
				wire.Operation(wire.PrepareOperation.Get(e)), wire.PrepareTimestamp.Get(e))
		}
	case c == wire.StateTransferTarget && wire.TargetAvailable.Get(h) == 1:
		artifacts, err := wire.DecodeManifest(body)
		if err != nil {
			return // printFrame has said so
		}
		for _, a := range artifacts {
			fmt.Fprintf(w, "%10s artifact kind=%d frontier=%d len=%d checksum=%016x\n", "", a.Kind, a.Frontier, a.Len, a.Checksum)
		}
	case c == wire.Reply && wire.Operation(wire.ReplyOperation.Get(h)).ResultFramed():
		results, payload, err := wire.DecodeResults(body)
		if err != nil {
			fmt.Fprintf(w, "%10s FAULT %v\n", "", err)
			return
		}
		for _, r := range results {
			fmt.Fprintf(w, "%10s result index=%d code=%d\n", "", r.Index, r.Code)
		}
		fmt.Fprintf(w, "%10s payload %d bytes\n", "", len(payload))
	}
}
