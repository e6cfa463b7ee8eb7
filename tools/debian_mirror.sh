#!/bin/sh
# Prints the mirror that this machine's apt uses for a suite of Debian, nothing when its sources name none. A mirror holds
# all suites, so one that the sources name for another suite serves too.
# usage: debian_mirror.sh LABEL SUITE    LABEL: Debian, or Debian-Security; SUITE: bookworm, trixie ...
set -eu
# shellcheck disable=SC2016
apt-get indextargets --format '$(LABEL) $(CODENAME) $(REPO_URI)' 'Created-By: Packages' |
    awk -v label="$1" -v suite="$2" '
        $1 != label || named != "" { next }
        $2 == suite || $2 == suite "-security" { named = $3 }
        other == "" { other = $3 }
        END { print named == "" ? other : named }'
