#!/usr/bin/env python3
"""Runs a program built on Querator's Go client (program/) against Querator and against our server, and compares what it
saw, line by line.

Usage: program.py BINARY [--source GIT] [--only ours|theirs] [--keep]

GIT as for peer.py. The program uses the client's public packages alone; Querator runs in memory, with server/ around it.
Ids, keys and times are hidden by the order in which they come up. What may differ stands in PROMISES: the lines there,
the lines here, and why. Exit 1 when anything else differs, or a promise no longer makes a difference.
"""
import argparse
import collections
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading

from peer import HERE, URL, run, unpack

READY_TIMEOUT = 30
PROGRAM_TIMEOUT = 240
END_TIMEOUT = 60
END = 'please end the server'

# What Querator's documents promise and its code does not keep (each measured), and we do. Lines as they are compared.
Promise = collections.namedtuple('Promise', 'why there here')
NOTHING = '454 request timeout; no items are in the queue, try again'


def imported(attempts_max):
    """The answer to the import of three items, with what it says of max_attempts."""
    items = ','.join('{%s"created_at":"<time>","encoding":"e","expire_deadline":"<time>","id":"<id %d>","kind":"k",%s'
                     '"payload":"%s","reference":"r"}' % (f'"attempts":{i},' if i else '', i, attempts_max, payload)
                     for i, payload in enumerate(('b2xkIDA=', 'b2xkIDE=', 'b2xkIDI=')))
    return f'import: import: {{"items":[{items}]}}'


PROMISES = (
    Promise('dead: true is for the dead queue',
            ('pool: in the dead queue: []',),
            ('pool: in the dead queue: [job-09 job-19 job-29 job-39 job-49 job-59]',)),
    Promise('dead: true is for the dead queue', ('dead: in the dead queue: []',), ('dead: in the dead queue: [hopeless]',)),
    *(Promise('stats name their partitions', (f'example: stats {n} are of partition 0',),
              (f'example: stats {n} are of partition {n}',)) for n in (1, 2, 3)),
    Promise('an update is seen at once',
            ('update: info: {"created_at":"<time>","expire_timeout":"24h0m0s","lease_timeout":"1m0s","namespace":"_system",'
             '"queue_name":"u","requested_partitions":1,"updated_at":"<time>"}',),
            ('update: info: {"created_at":"<time>","expire_timeout":"24h0m0s","lease_timeout":"1m0s","max_attempts":7,'
             '"namespace":"_system","queue_name":"u","reference":"second","requested_partitions":1,"updated_at":"<time>"}',)),
    Promise('an update keeps the timeouts it does not name',
            ('update: leased for a minute: false',), ('update: leased for a minute: true',)),
    Promise('max_attempts limits leases, also after a retry',
            ('attempts: leased: [a:2] fine', 'attempts: retry: fine', 'attempts: leased: [a:3] fine', 'attempts: retry: fine'),
            (f'attempts: leased: [] {NOTHING}',)),
    Promise('scheduled items come on time, each at its own',
            (f'late: leased: [] {NOTHING}',), ('late: leased: [1:1] fine',)),
    Promise('a waiting lease gets what comes: what is due',
            (f'poll: what is due: [] {NOTHING}', 'poll: an import: [b:1] fine'),
            ('poll: what is due: [b:1] fine', 'poll: an import: [c:1] fine')),
    Promise('a waiting lease gets what comes: what is given back, what died',
            (f'poll: a lease that ended: [] {NOTHING}', f'poll: one that died: [] {NOTHING}'),
            ('poll: a lease that ended: [d:2] fine', 'poll: one that died: [d:1] fine')),
    Promise('a refused request changes nothing',
            ('refused: left: [b c]', "refused: complete the leased ones: 400 invalid storage id; '<id 1>' does not exist",
             'refused: left: [b c]'),
            ('refused: left: [a b c]', 'refused: complete the leased ones: fine', 'refused: left: [c]')),
    Promise('a lease holds until its deadline',
            ('swept: left: []', "swept: complete within the lease: 400 invalid storage id; '<id 0>' does not exist"),
            ('swept: left: [long]', 'swept: complete within the lease: fine')),
    Promise('returned items are found at once on every partition', ('found: found 1 of 2',), ('found: found 2 of 2',)),
    Promise('an item that nobody leases has no deadline, also after an import; max_attempts is the queue\'s',
            ('import: lease deadlines: 1970-01-01T00:00:00Z', imported('"max_attempts":5,')),
            ('import: lease deadlines: 0001-01-01T00:00:00Z', imported(''))),
    Promise('names have up to 512 bytes: a body that names one fits',
            ('names: leased from nnnnnnnnnnnn: [] 400 request body exceeds 512B limit',),
            ('names: leased from nnnnnnnnnnnn: [0:1] fine',)),
)


class Process:
    """A server that said where it listens."""

    def __init__(self, command, stderr):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, text=True)
        timer = threading.Timer(READY_TIMEOUT, self.process.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if not line.startswith('listening on '):
            self.kill()
            sys.exit(f'{command[0]} said {line!r} instead of where it listens')
        self.url = line.removeprefix('listening on ').strip()

    def end(self):
        self.process.terminate()

    def wait(self):
        """The exit code, or None when it does not end."""
        try:
            return self.process.wait(END_TIMEOUT)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


def build(sources):
    """(program, server): binaries, made inside a copy of Querator's source."""
    made = []
    for name in ('program', 'server'):
        shutil.copytree(HERE / name, sources / 'cmd' / f'peer-{name}')
        made.append(sources.parent / name)
        run('go', 'build', '-o', made[-1], f'./cmd/peer-{name}', cwd=sources)
    return made


def section(line):
    return line.partition(':')[0].partition(' ')[0]


def plain(lines):
    """Without what differs by nature. An id is called by when it first came up in its section."""
    known = collections.defaultdict(dict)

    def named(kind, of):
        return lambda found: of.setdefault(found.group(), f'<{kind} {len(of)}>')

    hidden = []
    for line in lines:
        of = known[section(line)]
        line = re.sub(r'qtr-[0-9a-z]{1,16}-[0-9A-Za-z]{8,}', named('key', of), line)
        line = re.sub(r'\b[0-9A-Za-z]{27}\b', named('id', of), line)
        hidden.append(re.sub(r'"(?!0001-|1970-)\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"', '"<time>"', line))
    return hidden


def transcript(program, command, folder):
    """What the program said of a server, and how that server ended."""
    with open(folder / 'stderr', 'w', encoding='utf-8') as stderr:
        server = Process(command, stderr)
        client = subprocess.Popen([program, server.url], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        timer = threading.Timer(PROGRAM_TIMEOUT, client.kill)
        timer.start()
        lines = []
        try:
            for line in client.stdout:
                lines.append(line.rstrip('\n'))
                if lines[-1] == END:
                    server.end()
            code = client.wait()
            if code != 0 or END not in lines:
                sys.exit(f'the program ended with {code} after: {lines[-3:]}')
            lines.append(f'the server ended with {server.wait()}')
        finally:
            timer.cancel()
            client.kill()
            client.wait()
            server.kill()
    return plain(lines)


def differences(theirs, ours):
    """[(lines there, lines here)] of each run of lines that differ."""
    matcher = difflib.SequenceMatcher(None, theirs, ours, autojunk=False)
    return [(tuple(theirs[a:b]), tuple(ours[c:d])) for what, a, b, c, d in matcher.get_opcodes() if what != 'equal']


def compare(theirs, ours):
    """Prints what differs; how much of it nobody promised. Section by section, so that one does not hide another."""
    bad, kept = 0, set()
    for name in dict.fromkeys(map(section, theirs + ours)):
        of = [[line for line in lines if section(line) == name] for lines in (theirs, ours)]
        for there, here in differences(*of):
            known = [promise for promise in PROMISES if (promise.there, promise.here) == (there, here)]
            kept.update(known)
            bad += not known
            print(f"{'promise kept: ' + known[0].why if known else 'DIFFERENT'}")
            for sign, lines in (('-', there), ('+', here)):
                for line in lines:
                    print(f'  {sign} {line}')
    for promise in PROMISES:
        if promise not in kept:
            bad += 1
            print(f'no difference any more: {promise.why}')
    print(f'{len(theirs)} lines there, {len(ours)} here, {len(kept)} promises kept, {bad} other differences')
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('binary', type=pathlib.Path)
    parser.add_argument('--source', default=os.environ.get('QUERATOR_SOURCE', URL))
    parser.add_argument('--only', choices=('ours', 'theirs'), help='print what it saw of one')
    parser.add_argument('--keep', action='store_true', help='leave the copies where they are')
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix='peer-'))
    try:
        program, server = build(unpack(options.source, folder))
        ours = [options.binary.resolve(), 'serve', '--listen', '127.0.0.1:0', '--data', folder / 'data', '--set', 'auth=internal']
        seen = {name: transcript(program, command, folder) for name, command in (('theirs', [server]), ('ours', ours))
                if options.only in (None, name)}
        if options.only:
            print(*seen[options.only], sep='\n')
            return 0
        return 1 if compare(**seen) else 0
    finally:
        if options.keep:
            print(f'kept: {folder}', file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(main())
