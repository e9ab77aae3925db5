#!/usr/bin/env bash
# What a release is made of, below dist/. From any directory:
#
#   dist.sh dist       binaries, a bill of materials for each, SHA256SUMS
#   dist.sh check      builds the binaries in two folders and compares them
#   dist.sh packages   deb and rpm of the Linux binaries
#
# Nothing in it depends on the time, the folder or the machine: the same source,
# VERSION and Go give the same bytes.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
GO="${GO:-go}"
VERSION="${VERSION:-$(git describe --tags --always --dirty 2>/dev/null || echo unknown)}"
targets="linux/amd64 linux/arm64 darwin/arm64" # darwin: for development

# tool NAME ARG… runs a tool of tools/go.mod.
tool() { "$GO" tool -modfile=tools/go.mod "$@"; }

# binaries SOURCE FOLDER: static, without paths, symbol tables or build ids.
binaries() {
	local out target
	out="$(mkdir -p "$2" && cd "$2" && pwd)"
	for target in $targets; do
		(cd "$1" && CGO_ENABLED=0 GOOS="${target%/*}" GOARCH="${target#*/}" GOAMD64=v1 GOARM64=v8.0 "$GO" build \
			-trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.version=$VERSION" \
			-o "$out/replgate-${target/\//-}" ./cmd/replgate)
	done
}

# sums FOLDER: by name, for `sha256sum -c`.
sums() { (cd "$1" && find . -maxdepth 1 -type f ! -name SHA256SUMS | sed 's|^\./||' | LC_ALL=C sort | xargs sha256sum); }

dist() {
	local bom target
	rm -rf dist
	binaries . dist
	# Read from the binaries: what is really in them.
	bom="$(tool -n cyclonedx-gomod)"
	for target in $targets; do
		GOOS="${target%/*}" GOARCH="${target#*/}" "$bom" bin -json -std -noserial -notimestamp -version "$VERSION" \
			-output "dist/replgate-${target/\//-}.cdx.json" "dist/replgate-${target/\//-}"
	done
	sums dist >dist/SHA256SUMS
	cat dist/SHA256SUMS
}

check() {
	tmp="$(mktemp -d)" # not local: the trap runs outside
	trap 'rm -rf "$tmp"' EXIT
	mkdir "$tmp/a folder of another name"
	git ls-files -z --cached --others --exclude-standard ':!:*/testdata/*' |
		xargs -0 tar -cf - | tar -xf - -C "$tmp/a folder of another name"
	binaries . "$tmp/here"
	# With a cache of its own: the other would only hand out the first build again.
	GOCACHE="$tmp/cache" binaries "$tmp/a folder of another name" "$tmp/there"
	if ! diff <(sums "$tmp/here") <(sums "$tmp/there"); then
		echo "dist-check: got two different builds of one source, want the same bytes" >&2
		return 1
	fi
	sums "$tmp/here"
}

# A version as packages order them: 1.2.0~rc1 before 1.2.0 before 1.2.0+5.gabc.
package_version() {
	case "$VERSION" in
	v[0-9]*) sed -E 's/^v//; s/-([0-9]+)-g/+\1.g/; s/-dirty$/.dirty/; s/-/~/g' <<<"$VERSION" ;;
	*) echo "0.0.0~${VERSION//-/.}" ;;
	esac
}

# place FILE NAME moves a file below dist/share.
place() { mkdir -p "dist/share/$(dirname "$2")" && mv "$1" "dist/share/$2"; }

packages() {
	local arch packager page
	dist >/dev/null
	# What lies below dist/share comes to lie below /usr/share.
	rm -rf dist/share dist/pages
	mkdir dist/share dist/pages
	"$GO" run ./cmd/replgate docs dist/pages
	for page in dist/pages/man/*.[1-8]; do
		place "$page" "man/man${page##*.}/$(basename "$page")"
	done
	place dist/pages/completion/replgate.bash bash-completion/completions/replgate
	place dist/pages/completion/_replgate zsh/site-functions/_replgate
	place dist/pages/completion/replgate.fish fish/vendor_completions.d/replgate.fish
	rm -r dist/pages
	SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}"
	PACKAGE_VERSION="$(package_version)"
	export SOURCE_DATE_EPOCH PACKAGE_VERSION
	for arch in amd64 arm64; do
		for packager in deb rpm; do
			PACKAGE_ARCH="$arch" tool nfpm package --config deploy/package/nfpm.yaml --packager "$packager" --target dist
		done
	done
	sums dist >dist/SHA256SUMS
	cat dist/SHA256SUMS
}

case "${1:-}" in
dist | check | packages) "$1" ;;
*)
	echo "usage: dist.sh dist|check|packages" >&2
	exit 2
	;;
esac
