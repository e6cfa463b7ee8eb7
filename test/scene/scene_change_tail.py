"""Goal: `change tail` prints what a server takes, a line each, none twice and none left out while the server has it, over
kills; says what is missing; and ends for whoever reads it, for a signal, and for a server that refuses.
Method: the real binary on both sides, kill -9, a clock that is moved, a pipe that is closed, a key that is taken away."""
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading

from change_help import figure
from cli import Client
from harness import EXIT_TIMEOUT, Server, check, eq, free_port, main, scene, wait_until
from page_help import path

EVENTS = '/v1/events'
KILLS = int(os.environ.get('TAIL_KILLS', '4'))


class Tail:
    """A running `change tail`; lines grows while it runs."""

    def __init__(self, binary, server, *args, env=None):
        self.lines, self.said = [], []
        env = {**os.environ, 'PALIMPSEST_SERVER': server.url, **(env or {})}
        self.process = subprocess.Popen([binary, 'change', 'tail', *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=env)
        self.threads = [threading.Thread(target=self._read, args=pair, daemon=True)
                        for pair in ((self.process.stdout, self.lines), (self.process.stderr, self.said))]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.append(line.rstrip('\n'))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(EXIT_TIMEOUT)

    def wait(self, count):
        return wait_until(lambda: len(self.lines) >= count, f'{count} lines: {self.lines[-3:]} {self.said}') and self.lines[:count]

    def ends(self, code):
        eq(self.process.wait(EXIT_TIMEOUT), code, self.said)
        for thread in self.threads:
            thread.join(EXIT_TIMEOUT)
        return '\n'.join(self.said)


def tell(server, *events, headers=None):
    eq(server.json('POST', EVENTS, headers, list(events)).status, 201)


def event(stream, number, domain='localhost', **more):
    return {'meta': {'stream': stream, 'domain': domain, 'id': f'{stream}-{number}'}, 'n': number, **more}


def follows(server):
    return wait_until(lambda: figure(server, 'stream_clients') == 1, 'it follows')


def fixed(binary, *args, **named):
    """A server that has the same port after each start."""
    return Server(binary, '--listen', f'127.0.0.1:{free_port()}', *args, **named)


@scene
def a_line_says_what_happened(binary):
    with Server(binary, '--set', 'change.streams=palimpsest.*') as server, Tail(binary, server) as tail:
        follows(server)
        tell(server, event('mediawiki.revision-create', 1, page_title='Earth', rev_id=7),
             {'meta': {'stream': 'mediawiki.page_change.v1', 'domain': 'x.test'}, 'page_change_kind': 'edit',
              'page': {'page_title': 'Two words'}, 'revision': {'rev_id': 12345678901234567890123}},
             {'meta': {'stream': 'resource-purge', 'uri': 'http://localhost/wiki/A'}},
             {'meta': {'stream': 's\x1b[31m'}, 'page_title': 'a\tb\u009b', 'kind': None, 'rev_id': True})
        eq(server.request('PUT', path('html', 'A_b', 3), body=b'x').status, 201)
        lines = [line.split('\t') for line in tail.wait(5)]
        for line in lines:
            eq((len(line), len(line[0]), line[0][-1]), (6, 24, 'Z'), line)
        eq([line[1:] for line in lines], [
            ['mediawiki.revision-create', 'localhost', 'Earth', '7', '-'],
            ['mediawiki.page_change.v1', 'x.test', 'Two words', '12345678901234567890123', 'edit'],
            ['resource-purge', 'localhost', 'http://localhost/wiki/A', '-', '-'],
            ['s?[31m', '-', 'a?b??', '-', '-'],
            ['palimpsest.render', 'localhost', 'A_b', '3', '-']])
        eq(tail.said, [])


@scene
def a_domain_is_the_one_that_rules_see(binary):
    with Server(binary, '--set', 'change.databases=dewiki=localhost') as server, Tail(binary, server) as tail:
        follows(server)
        tell(server, {'meta': {'stream': 'a'}, 'database': 'dewiki'}, {'meta': {'stream': 'b'}, 'database': 'other'}, event('c', 1))
        eq([line.split('\t')[1:3] for line in tail.wait(3)], [['a', 'localhost'], ['b', 'other'], ['c', 'localhost']])


@scene
def json_has_the_event_as_it_came(binary):
    with Server(binary) as server, Tail(binary, server, '--json', '--since', '1h') as tail:
        texts = ('{"meta":{"stream":"a"},"z":1.50,"a":123456789012345678901234567890,"n":[[]]}',
                 '{"meta":{"stream":"a"},"x":"\u009b\x7f\u00e4"}', json.dumps({'meta': {'stream': 'a'}, 'x': 'y' * 3_000_000}))
        for text in texts:
            eq(server.request('POST', EVENTS, {'Content-Type': 'application/json'}, text.encode()).status, 201)
        lines = tail.wait(3)
        eq([json.loads(line)['event'] for line in lines], [json.loads(text) for text in texts])
        check('"z":1.50,"a":123456789012345678901234567890' in lines[0], lines[0])
        check('\\u009b\\u007f\u00e4' in lines[1], lines[1])
        for line in lines:
            log, seq, instant = json.loads(line)['position'].split('-')
            eq((len(log), int(seq) // 1000000), (16, int(instant) // 1000))


@scene
def streams_domains_and_an_instant_are_chosen(binary):
    with Server(binary, '--set', 'domains=localhost,other.test', test_hooks=True) as server:
        client = Client(binary, server)
        tell(server, event('a.one', 0), event('b', 1))
        now = server.clock(advance='2h')
        tell(server, event('a.two', 2, 'other.test'), event('b', 3, 'other.test'), event('c', 4), event('d&e', 5))
        for args, wanted in (((), [0, 1, 2, 3, 4, 5]), (('--stream', 'a.*'), [0, 2]), (('-s', 'a.*,b', '-s', 'd&e'), [0, 1, 2, 3, 5]),
                             (('--domain', 'other.test'), [2, 3]), (('--domain', 'other.test', '--stream', 'b'), [3])):
            with Tail(binary, server, '--since', '0', '--json', *args) as tail:
                eq([json.loads(line)['event']['n'] for line in tail.wait(len(wanted))], wanted, args)
        for since in (now, '1h', '119m'):
            with Tail(binary, server, '--since', since, '--json') as tail:
                eq(json.loads(tail.wait(1)[0])['event']['n'], 2, since)
        for args in (('--since', 'yesterday'), ('--since', ''), ('--stream',), ('more',)):
            eq(client('change', 'tail', *args).returncode, 2, args)
        refused = client('change', 'tail', '--stream', 'a,,b')
        eq(refused.returncode, 6)
        check(b'with commas between' in refused.stderr, refused.stderr)


@scene
def kills_of_the_server_lose_and_repeat_nothing(binary):
    with fixed(binary) as server, Tail(binary, server, '--json') as tail:
        number = 0
        follows(server)
        for _ in range(KILLS):      # before the first event, too
            server.kill9()
            server.start()
            for number in range(number, number + 5):
                tell(server, event('a', number))
            number += 1
        server.process.terminate()
        server.wait_exit()
        server.start()
        tell(server, event('a', number))
        wanted = list(range(number + 1))
        eq([json.loads(line)['event']['n'] for line in tail.wait(len(wanted))], wanted)
        said = [json.loads(line)['warning'] for line in tail.said]
        check(any('the stream was cut' in line for line in said), said)
        wait_until(lambda: any('the stream goes on' in line for line in tail.said), 'said')
        check(tail.process.poll() is None, 'it goes on')


@scene
def what_was_removed_is_said(binary):
    for json_too in (False, True):
        with fixed(binary, '--set', 'change.retention=1h', test_hooks=True) as server:
            with Tail(binary, server, '--since', '0', *(['--json'] if json_too else [])) as tail:
                tell(server, event('a', 0))
                tail.wait(1)
                tail.process.send_signal(signal.SIGSTOP)
                tell(server, event('a', 1))
                server.kill9()
                server.start()
                tell(server, event('a', 2))
                server.clock(advance='40m')
                tell(server, event('a', 3))
                server.clock(advance='40m')
                wait_until(lambda: figure(server, 'event_log_events') == 1, 'the old ones are removed')
                server.restart()
                tail.process.send_signal(signal.SIGCONT)
                if json_too:
                    # What was on its way when the server was killed has arrived.
                    wait_until(lambda: any('"n":3' in line.replace(' ', '') for line in tail.lines), 'the last one')
                    gap, = (json.loads(line) for line in tail.lines if '"gap"' in line)
                    eq(sorted(gap), ['gap', 'position'])
                    check(gap['gap']['from'] <= gap['gap']['until'], gap)
                else:
                    wait_until(lambda: any('has removed events that it took from 2' in line for line in tail.said), 'said')
                    eq([line.split('\t')[1] for line in tail.wait(2)], ['a', 'a'])


@scene
def it_ends_for_a_signal_with_all_that_came(binary):
    with Server(binary) as server:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with Tail(binary, server, '--since', '0') as tail:
                tell(server, event('a', number))
                tail.wait(1)
                tail.process.send_signal(number)
                eq(tail.ends(-number), '')
        port = server.port
        server.process.terminate()
        server.wait_exit()
        server.start('--listen', f'127.0.0.1:{port}')
        with Tail(binary, server) as tail:      # also while it waits for the server
            follows(server)
            server.kill9()
            wait_until(lambda: tail.said, 'it waits')
            tail.process.send_signal(signal.SIGTERM)
            tail.ends(-signal.SIGTERM)


@scene
def it_ends_when_nobody_reads_it(binary):
    with Server(binary) as server:
        for events in (0, 3):
            with subprocess.Popen([binary, 'change', 'tail', '--since', '0'], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**os.environ, 'PALIMPSEST_SERVER': server.url}) as process:
                follows(server)
                for number in range(events):
                    tell(server, event('a', number))
                    check(process.stdout.readline() != b'', 'a line')
                process.stdout.close()
                eq((process.wait(EXIT_TIMEOUT), process.stderr.read()), (-signal.SIGPIPE, b''))
                wait_until(lambda: figure(server, 'stream_clients') == 0, 'it has left')
        tell(server, event('a', 9))
        with open('/dev/full', 'wb') as full:
            done = subprocess.run([binary, 'change', 'tail', '--since', '0'], stdout=full, stderr=subprocess.PIPE, timeout=EXIT_TIMEOUT,
                                  env={**os.environ, 'PALIMPSEST_SERVER': server.url}, check=False)
        eq((done.returncode, done.stderr), (1, b'palimpsest: cannot write to standard output\n'))


@scene
def a_server_that_is_away_or_none_ends_it_at_the_start(binary):
    with Server(binary, '--set', 'stream.clients=1') as server:
        client = Client(binary, server)
        away = client('change', 'tail', '--server', f'http://127.0.0.1:{free_port()}')
        eq(away.returncode, 4)
        check(b'is it running?' in away.stderr, away.stderr)
        with Tail(binary, server) as tail:
            follows(server)
            full = client('change', 'tail')
            eq(full.returncode, 4)
            check(b'stream.clients' in full.stderr, full.stderr)
            eq(tail.said, [])
        with socket.create_server(('127.0.0.1', 0)) as other:
            def answer():
                peer, _ = other.accept()
                with peer:
                    peer.recv(4096)
                    peer.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\nhello')
            thread = threading.Thread(target=answer)
            thread.start()
            foreign = client('change', 'tail', '--server', f'http://127.0.0.1:{other.getsockname()[1]}')
            thread.join()
            eq(foreign.returncode, 4)
            check(b'not as a Palimpsest does' in foreign.stderr, foreign.stderr)


@scene
def a_key_says_what_is_seen_and_until_when(binary):
    with tempfile.TemporaryDirectory() as folder:
        def token(*args):
            return subprocess.run([binary, 'token', *args, '--data', folder + '/data'], capture_output=True, text=True,
                                  timeout=60, check=True).stdout.strip()
        keys = {role: token('create', '--role', role, '--name', role, *(['--new'] if role == 'admin' else []))
                for role in ('admin', 'purge')}
        token('lock')
        with fixed(binary, '--set', 'auth=internal', data=folder + '/data') as server:
            admin = {'Authorization': f'Bearer {keys["admin"]}'}
            client = Client(binary, server)
            eq(client('change', 'tail').returncode, 6)
            none = client('change', 'tail', '--token', keys['purge'])
            eq(none.returncode, 6)
            check(b'403' in none.stderr, none.stderr)
            made = server.json('POST', '/v1/admin.tokens', admin, {'roles': ['read']}).body
            with Tail(binary, server, '--json', '--since', '0', env={'PALIMPSEST_TOKEN': made['key']}) as tail:
                tell(server, event('a', 0), event('a', 1, 'not.configured'), event('a', 2), headers=admin)
                eq([json.loads(line)['event']['n'] for line in tail.wait(2)], [0, 2])
                eq(server.request('DELETE', f'/v1/admin.tokens/{made["id"]}', admin).status, 204)
                server.kill9()
                server.start()
                check('401' in tail.ends(6), tail.said)


main()
