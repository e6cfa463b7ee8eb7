#!/bin/sh
# Run by `meson install`: man pages and shell completions, as the binary itself prints them.
set -eu
binary=$MESON_BUILD_ROOT/palimpsest
share=$MESON_INSTALL_DESTDIR_PREFIX/share
mkdir -p "$share/man/man1" "$share/bash-completion/completions" "$share/zsh/site-functions" \
    "$share/fish/vendor_completions.d"
"$binary" man --write "$share/man/man1"
"$binary" completion bash >"$share/bash-completion/completions/palimpsest"
"$binary" completion zsh >"$share/zsh/site-functions/_palimpsest"
"$binary" completion fish >"$share/fish/vendor_completions.d/palimpsest.fish"
