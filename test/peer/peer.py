#!/usr/bin/env python3
"""Runs Querator's own functional tests against Querator and against our server, and says where they differ.

Usage: peer.py BINARY [--source GIT] [--only ours|theirs] [--run REGEX] [--keep]

GIT is a clone or a URL of Querator (default: QUERATOR_SOURCE, else GitHub); its modules come from the Go proxy. Nothing
fetched is kept in this repository. Querator's tests are copied as they are; of its other files three are changed in the
copy for our server: daemon/daemon.go becomes the one beside this file, which starts BINARY, and the service and the clock
get a door each (EDITS). Tests of its memory store run, those of its Badger where there is no other.
Exit 1 when a test that passes there fails here and no entry of EXPECTED says why.
"""
import argparse
import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

COMMIT = '993032a3278a9955f2d1a2d4452fc65fd7111552'
URL = 'https://github.com/kapetan-io/querator'
HERE = pathlib.Path(__file__).resolve().parent
TACKLE = 'github.com/kapetan-io/tackle'
RUNS = (
    r'^Test(Queue|QueuesStorage|Retry|Partitions|QueueStorage|Namespaces|Users|Roles|Auth|BugValidation|Linearizability)$'
    r'/^InMemory$',
    r'^TestShutdown$/^BadgerDB$',
    r'^Test(UsersContext|Linearizability)$',
)
TEST_TIMEOUT = '20m'
# (file, regex, text): what is put behind the match
EDITS = (
    ('service/service.go', r'\nfunc \(s \*Service\) PauseQueue\([^{]*\{\n',
     '\tif d, ok := Remote.Load(s); ok {\n\t\treturn d.(interface{ PauseQueue(string, bool) error }).PauseQueue(queueName, pause)'
     '\n\t}\n'),
    ('service/service.go', r'\nfunc \(s \*Service\) Bootstrap\([^{]*\{\n', '\tif _, ok := Remote.Load(s); ok {\n\t\treturn nil\n\t}\n'),
    ('tackle/clock/provider.go', r'\n\tft\.advance\(d\)\n', '\tif OnAdvance != nil {\n\t\tOnAdvance(cp, d)\n\t}\n'),
)
ADDED = {
    'service/remote.go': 'package service\n\nimport "sync"\n\n// Remote has the daemon of each service that is not in this process.\n'
                         'var Remote sync.Map\n',
    'tackle/clock/remote.go': 'package clock\n\nimport "time"\n\n// OnAdvance is told of each Advance.\n'
                              'var OnAdvance func(*Provider, time.Duration)\n\n// Frozen tells whether time stands.\n'
                              'func (cp *Provider) Frozen() bool {\n\t_, ok := cp.getProvider().(*frozenTime)\n\treturn ok\n}\n',
}
# Tests that pass there and may fail here, with the reason.
EXPECTED = {
}


def run(*command, **named):
    done = subprocess.run(command, text=True, capture_output=True, **named)
    if done.returncode != 0:
        sys.exit(f'{" ".join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}')
    return done.stdout


def unpack(source, folder):
    clone = folder / 'clone'
    if not pathlib.Path(source).is_dir():
        run('git', 'clone', '-q', source, clone)
        source = clone
    theirs = folder / 'theirs'
    theirs.mkdir()
    archive = subprocess.run(['git', '-C', source, 'archive', COMMIT], capture_output=True, check=True).stdout
    subprocess.run(['tar', '-x', '-C', theirs], input=archive, check=True)
    return theirs


def adapt(theirs, folder):
    """A copy whose daemons are our server."""
    ours = folder / 'ours'
    shutil.copytree(theirs, ours)
    run('go', 'mod', 'download', TACKLE, cwd=ours)
    module = run('go', 'list', '-m', '-f', '{{.Dir}}', TACKLE, cwd=ours).strip()
    shutil.copytree(module, ours / 'tackle')
    run('chmod', '-R', 'u+w', ours / 'tackle')
    for name, pattern, text in EDITS:
        path = ours / name
        before = path.read_text()
        after, count = re.subn(pattern, lambda found, text=text: found.group() + text, before)
        if count != 1:
            sys.exit(f'{name}: {count} places for {pattern}')
        path.write_text(after)
    for name, text in ADDED.items():
        (ours / name).write_text(text)
    shutil.copy(HERE / 'daemon.go', ours / 'daemon' / 'daemon.go')
    run('go', 'mod', 'edit', f'-replace={TACKLE}=./tackle', cwd=ours)
    return ours


def test(folder, runs, env):
    """{test: (outcome, the end of what it printed)} of leaves."""
    outcomes, output = {}, collections.defaultdict(list)
    for pattern in runs:
        process = subprocess.Popen(['go', 'test', '-vet=off', '-count=1', '-p=1', f'-timeout={TEST_TIMEOUT}', '-json', '-run', pattern,
                                    './service'], cwd=folder, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True)
        for line in process.stdout:
            event = json.loads(line) if line.startswith('{') else {}
            name = event.get('Test')
            if event.get('Action') == 'output':
                output[name].append(event['Output'])
            elif name and event['Action'] in ('pass', 'fail', 'skip'):
                outcomes[name] = event['Action']
                print(f"{event['Action']:5} {event.get('Elapsed', 0):7.2f} s {name}", file=sys.stderr, flush=True)
        if process.wait() != 0 and not any(outcome == 'fail' for outcome in outcomes.values()):
            sys.exit(f'go test {pattern}: {"".join(output[None])[-3000:]}')
    parents = {name.rpartition('/')[0] for name in outcomes}
    return {name: (outcome, ''.join(output[name])) for name, outcome in outcomes.items() if name not in parents}


def why(text):
    lines = [line.strip() for line in text.splitlines() if line.strip() and not re.match(r'\s*(=== |--- )', line)]
    wanted = [line for line in lines if re.match(r'(Error|expected|actual|Messages|panic|Error Trace)', line)]
    return ' | '.join(wanted or lines[-4:])[:600]


def report(theirs, ours):
    """Prints the difference; how many tests only pass there, without a reason."""
    bad = 0
    for name in sorted(set(theirs) | set(ours)):
        there, here = theirs.get(name, ('none', ''))[0], ours.get(name, ('none', ''))
        if there == here[0]:
            continue
        reason = EXPECTED.get(name)
        bad += there == 'pass' and reason is None
        print(f'{name}: {there} there, {here[0]} here' + (f' ({reason})' if reason else f': {why(here[1])}'))
    for which, found in (('there', theirs), ('here', ours)):
        counts = collections.Counter(outcome for outcome, _ in found.values())
        print(f"{which}: {counts['pass']} passed, {counts['fail']} failed, {counts['skip']} skipped")
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('binary')
    parser.add_argument('--source', default=os.environ.get('QUERATOR_SOURCE', URL))
    parser.add_argument('--only', choices=('ours', 'theirs'))
    parser.add_argument('--run', help='instead of all functional tests')
    parser.add_argument('--keep', action='store_true', help='leave the copies where they are')
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix='peer-'))
    env = {'TEST_LOGGING': 'ci', 'PEER_BINARY': str(pathlib.Path(options.binary).resolve()), 'PEER_DATA': str(folder / 'data')}
    (folder / 'data').mkdir()
    runs = (options.run,) if options.run else RUNS
    try:
        sources = unpack(options.source, folder)
        theirs = test(sources, runs, env) if options.only != 'ours' else {}
        ours = test(adapt(sources, folder), runs, env) if options.only != 'theirs' else {}
        if options.only:
            for name, (outcome, text) in sorted((ours or theirs).items()):
                if outcome == 'fail':
                    print(f'{name}: {why(text)}')
            return 0
        bad = report(theirs, ours)
        print(f'{bad} tests pass there alone')
        return 1 if bad else 0
    finally:
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
