#!/bin/sh
# What the README has a newcomer run, one after another on this machine, which script/fresh made new: each job
# installs what it lacks, and counts. Then the tests of the wiki. The last line is `N passed, N failed`.
set -u
cd "$(dirname "$0")/.."
said=$(mktemp)
passed=0
failed=0

job() {
    began=$(date +%s)
    if "$@" >"$said" 2>&1; then
        passed=$((passed + 1))
        echo "   $*: $(($(date +%s) - began)) s"
    else
        failed=$((failed + 1))
        tail -n 40 "$said"
        echo "FAILED $*"
    fi
}

job script/deps build
job script/build
job script/run
job script/run --queue
job script/run --lists
job script/run --lists --down
mkdir -p build-test
ln -s ../build build-test/gcc # has the same options: it need not be built again
script/test wiki | tee "$said" # the line at its end counts
total=$(tail -n 1 "$said")
rm -f "$said"
case $total in
[0-9]*' passed, '[0-9]*' failed')
    passed=$((passed + ${total%% *}))
    total=${total#*, }
    failed=$((failed + ${total%% *}))
    ;;
*) failed=$((failed + 1)) ;;
esac
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
