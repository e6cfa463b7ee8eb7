"""Goal: what is told to POST /v1/events, and what becomes of renders, arrives at every client of a stream, in order, once,
for as long as the client reads; and a client that comes back misses nothing, or is told what it missed.
Method: the real binary, clients that parse server-sent events from the wire, kill -9, limits, a moved clock."""
import contextlib
import gzip
import http.client
import json
import os
import random
import socket
import subprocess
import tempfile
import threading
import time

from change_help import Client, UnixConnection, figure
from harness import Server, check, eq, main, memory_of, scene, wait_until
from page_help import path

EVENTS = '/v1/events'
SEED = int(os.environ.get('SEED', str(random.randrange(2**32))))
KILLS = int(os.environ.get('STREAM_KILLS', '5'))


def event(stream, number, domain='localhost', **more):
    return {'meta': {'stream': stream, 'domain': domain, 'id': f'{stream}-{number}'}, 'n': number, **more}


def tell(server, *events):
    eq(server.json('POST', EVENTS, body=list(events)).status, 201)


def tell_over(file, *events):
    """As tell, over a unix socket; the status."""
    with contextlib.closing(UnixConnection(file)) as connection:
        connection.request('POST', EVENTS, json.dumps(events), {'Content-Type': 'application/json'})
        return connection.getresponse().status


def numbers(events):
    return [data['n'] for _, _, data in events]


@scene
def events_arrive_in_order_and_a_client_goes_on_where_it_was(binary):
    with Server(binary) as server, Client(server) as client:
        eq(client.answer.headers['Content-Type'], 'text/event-stream; charset=utf-8')
        eq(client.answer.headers['Cache-Control'], 'no-store')
        eq(client.answer.headers['Access-Control-Allow-Origin'], None)
        tell(server, *(event('a', n) for n in range(5)))
        for n in range(5, 10):
            tell(server, event('b', n))
        got = client.take(10)
        eq(numbers(got), list(range(10)))
        eq([data for _, _, data in got][:2], [event('a', 0), event('a', 1)])
        eq({name for _, name, _ in got}, {'message'})
        eq(len({one for one, _, _ in got}), 10)
        for last in (0, 3, 8):
            with Client(server, last=got[last][0]) as again:
                eq(again.take(9 - last), got[last + 1:])
        tell(server, event('a', 10))
        eq(numbers(client.take(1)), [10])


@scene
def a_client_chooses_streams_and_a_domain(binary):
    with Server(binary, '--set', 'domains=localhost,other.test') as server:
        clients = [Client(server, target) for target in (
            '/v1/stream?stream=wiki.edit', '/v1/stream?stream=wiki.*,x', '/v2/stream/wiki.move,x', '/v1/stream?domain=other.test',
            '/v1/stream?domain=nobody.test&stream=wiki.edit', '/v1/stream')]
        tell(server, event('wiki.edit', 0), event('wiki.move', 1), event('x', 2), event('xx', 3), event('wiki.edit', 4, 'other.test'),
             event('wiki.edit', 5, 'nobody.test'), event('end', 6), *(event(name, 7, 'other.test') for name in ('wiki.move',)))
        for client, wanted in zip(clients, ([0, 4, 5], [0, 1, 2, 4, 5, 7], [1, 2, 7], [4, 7], [5], list(range(8)))):
            eq(numbers(client.take(len(wanted))), wanted)
            client.connection.close()
        for target in ('/v1/stream?stream=a,,b', '/v1/stream?stream=' + ','.join('abcdefghijklmnopqrstuvwxyzABCDEFG'),
                       '/v1/stream?stream=' + 'x' * 256, '/v1/stream?domain=' + 'x' * 256, '/v1/stream?since=yesterday'):
            eq(server.json('GET', target).status, 400, target)
        eq(server.request('GET', '/v1/stream', {'Last-Event-ID': '[{"topic":"x","offset":1}]'}).status, 400)
        head = server.request('HEAD', '/v1/stream')
        eq((head.status, head.body), (200, b''))
        eq(server.request('GET', '/v2/stream/').status, 404)


@scene
def a_text_is_given_as_it_came(binary):
    with Server(binary) as server, Client(server) as client:
        texts = ('{"meta":{"stream":"a"},\n "n" : 1.50,\r\n\t"\u00e9":"\\u00e9\\n", "z":[]}',
                 json.dumps({'meta': {'stream': 'a'}, 'n': 'x' * 300000}), '{"meta":{"stream":"a"},"n":"data: x\\n\\nid: 7"}')
        for text in texts:
            eq(server.request('POST', EVENTS, {'Content-Type': 'application/json'}, text.encode()).status, 201)
            eq(client.next()[2], json.loads(text))


@scene
def line_breaks_hold_up_nobody(binary):
    with Server(binary) as server, Client(server) as client, Client(server, '/v1/stream?since=0') as early:
        text = b'{"meta":{"stream":"a"},' + b'\n' * 9_700_000 + b'"n":1}'
        eq(server.request('POST', EVENTS, {'Content-Type': 'application/json', 'Content-Encoding': 'gzip'},
                          gzip.compress(text)).status, 201)
        tell(server, event('a', 2))
        for one in (client, early):
            eq(numbers(one.take(2)), [1, 2])
        eq(figure(server, 'stream_failed_total'), 0)


@scene
def renders_are_told_as_they_come_and_go(binary):
    options = ('--set', 'change.streams=palimpsest.*', '--set', 'page.grace_ttl=10s')
    with Server(binary, *options, test_hooks=True) as server, Client(server, '/v1/stream?stream=palimpsest.*') as client:
        made = [server.json('PUT', path('html', 'A_b', rev), body=b'x').body for rev in (1, 2)]
        for rev, (_, _, told) in enumerate(client.take(2), 1):
            eq((told['meta']['stream'], told['meta']['domain'], told['bucket']), ('palimpsest.render', 'localhost', 'page'))
            eq((told['page_title'], told['rev_id'], told['tid']), ('A_b', rev, made[rev - 1]['tid']))
        server.clock(advance='11s')
        told = client.next()[2]
        eq((told['meta']['stream'], told['rev_id'], told['kind']), ('palimpsest.gone', 1, 'culled'))
        eq(server.request('DELETE', path('all', 'A_b')).status, 204)
        told = client.next()[2]
        eq((told['rev_id'], told['kind']), (2, 'purged'))


@scene
def an_instant_or_a_position_of_another_server_is_where_to_begin(binary):
    with Server(binary, test_hooks=True) as server:
        tell(server, event('a', 0))
        server.clock(advance='1h')
        tell(server, event('a', 1))
        now = server.clock(advance='30s')
        tell(server, event('a', 2))
        for target, first in (('/v1/stream?since=2020-01-01T00:00:00Z', 0), (f'/v1/stream?since={now}', 2),
                              ('/v1/stream?since=0', 0)):
            with Client(server, target) as client:
                eq(numbers(client.take(1)), [first], target)
        with Client(server, '/v1/stream?since=0') as client:
            position = client.take(3)[2][0]
        with Server(binary) as other:      # it takes the event's instant, less a minute, for its own
            tell(other, event('b', 7))
            log, seq, instant = position.split('-')
            with Client(other, last=position) as client, Client(other, last=f'{log}-{seq}-{int(instant) - 7200000}') as early:
                tell(other, event('b', 8))
                eq(numbers(early.take(2)), [7, 8])
                check(numbers(client.take(1)) in ([7], [8]), 'its clock is not there yet: from about now on')


@scene
def who_is_cut_off_before_its_first_event_misses_none(binary):
    with Server(binary, test_hooks=True) as server:
        with Client(server) as client:
            empty = client.begins_at
        tell(server, event('a', 0), event('b', 1))
        with Client(server, '/v1/stream?since=0') as client:
            last = client.take(2)[1][0].split('-')[1]

        def begins_behind_all():        # the streams hear of an event soon after it is on disk
            with Client(server, '/v1/stream?stream=c') as client:
                return client.begins_at if client.begins_at.split('-')[1] == last else None
        newest = wait_until(begins_behind_all, 'it begins behind the last event')
        with Client(server, '/v1/stream?since=0&stream=c') as client:
            eq(client.begins_at.split('-')[1], '0')
        server.clock(advance='1h')
        tell(server, event('a', 2))
        for target, last, wanted in (('/v1/stream', empty, [0, 1, 2]), ('/v1/stream', newest, [2]), ('/v1/stream?stream=a', empty, [0, 2]),
                                     ('/v1/stream?since=59m', None, [2]), ('/v1/stream?since=2h', None, [0, 1, 2]),
                                     ('/v1/stream?since=never', None, [0, 1, 2])):
            with Client(server, target, last=last) as client:
                eq(numbers(client.take(len(wanted))), wanted, (target, last))
        with Server(binary) as other, Client(other, last=newest) as client:      # its instant is when it was said
            tell(other, event('b', 8))
            eq(numbers(client.take(1)), [8])


@scene
def what_was_removed_is_told_as_a_gap(binary):
    with Server(binary, '--set', 'change.retention=1h', test_hooks=True) as server:
        tell(server, *(event('a', n) for n in range(3)))
        with Client(server, '/v1/stream?since=0') as client:
            first = client.take(1)[0][0]
        server.clock(advance='40m')
        tell(server, event('a', 3))
        server.clock(advance='40m')
        wait_until(lambda: figure(server, 'event_log_events') == 1, 'the old ones are removed')
        server.restart()        # what is still in memory is given
        with Client(server, last=first) as client:
            position, name, gap = client.next()
            eq(name, 'gap')
            check(gap['from'] <= gap['until'], gap)
            eq(numbers(client.take(1)), [3])
            eq(figure(server, 'stream_gaps_total'), 1)
        with Client(server, last=position) as client:     # the gap's own id is behind the gap
            eq(numbers(client.take(1)), [3])
        eq(figure(server, 'stream_gaps_total'), 1)


@scene
def an_event_that_is_sent_again_is_told_once(binary):
    with Server(binary, test_hooks=True) as server, Client(server) as client:
        for _ in range(3):
            tell(server, event('a', 1), event('a', 1))
        eq(figure(server, 'change_events_repeated_total'), 5)
        server.clock(advance='61m')
        tell(server, event('a', 1))
        tell(server, event('a', 2))
        eq(numbers(client.take(3)), [1, 1, 2])


@scene
def only_so_many_follow_and_a_drain_ends_them(binary):
    with Server(binary, '--set', 'stream.clients=2') as server:
        clients = [Client(server) for _ in range(2)]
        refused = server.json('GET', '/v1/stream')
        eq(refused.status, 503)
        check('stream.clients' in str(refused.body), refused.body)
        clients[0].connection.close()
        wait_until(lambda: figure(server, 'stream_clients') == 1, 'who left is gone')
        clients[0] = Client(server)
        began = time.monotonic()
        server.process.terminate()
        eq([client.next() for client in clients], [None, None])
        server.wait_exit()
        check(time.monotonic() - began < 9, 'the drain waited for the streams')


@scene
def who_does_not_read_holds_up_nobody_and_takes_no_memory(binary):
    pad = 'x' * 20000
    with Server(binary, '--set', 'http.threads=1') as server, Client(server) as reader, Client(server) as asleep:
        before = memory_of(server, 'VmRSS')
        for batch in range(50):
            tell(server, *(event('a', n, pad=pad) for n in range(batch * 50, batch * 50 + 50)))
            eq(numbers(reader.take(50)), list(range(batch * 50, batch * 50 + 50)))
        if before is not None:      # of a sanitizer's
            grown = memory_of(server, 'VmRSS') - before
            check(grown < 64 << 20, f'{grown >> 20} MiB more, for 50 MB that one client has not read')
        eq(numbers(asleep.take(2500)), list(range(2500)))      # and it has lost nothing


def sleepers(server, count, target):
    """Clients that read no more than the head of their answer."""
    asleep = []
    for _ in range(count):
        peer = server.connect()
        peer.sendall(f'GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n'.encode())
        check(peer.recv(12).startswith(b'HTTP/1.1 200'), 'a stream')
        asleep.append(peer)
    return asleep


def check_held(server, before, most):
    if before is not None:      # of a sanitizer's
        grown = memory_of(server, 'RssAnon') - before
        check(grown < most, f'{grown >> 20} MiB more for clients that do not read')


LARGE, EACH, MANY, HELD = 4 << 20, 4, 16, 48 << 20      # STREAMS_HELD_BYTES, the tail, and what is being read
HELD_AT_ONCE = 4        # chunks with such an event; one client more waits


@scene
def many_who_do_not_read_large_events_take_bounded_memory_and_hold_up_nobody(binary):
    pad = 'x' * LARGE
    with Server(binary) as server:
        for n in range(EACH):
            tell(server, event('a', n, pad=pad))
        before = memory_of(server, 'RssAnon')
        asleep = sleepers(server, MANY, '/v1/stream?since=1d')
        wait_until(lambda: figure(server, 'stream_bytes') >= 32 << 20, 'clients hold as many bytes as they may')
        check_held(server, before, HELD)
        with Client(server, '/v1/stream?since=1d') as reader:      # waits for what they hold
            eq(numbers(reader.take(EACH)), list(range(EACH)))
        check_held(server, before, HELD)
        check('stream.cut' in server.stderr(), 'the log says who was cut')
        for peer in asleep:
            peer.close()


@scene
def who_does_not_read_large_events_as_they_come_is_cut_for_those_who_do(binary):
    pad = 'x' * LARGE
    with Server(binary) as server, Client(server) as reader:
        before, asleep = memory_of(server, 'RssAnon'), []
        for n in range(4 * HELD_AT_ONCE):       # each holds another event
            asleep += sleepers(server, 1, '/v1/stream')
            tell(server, event('a', n, pad=pad))
            eq(numbers(reader.take(1)), [n])
        check_held(server, before, HELD)
        check('stream.cut' in server.stderr(), 'the log says who was cut')
        for peer in asleep:
            peer.close()


@scene
def a_drain_waits_for_no_client_that_does_not_read(binary):
    with Server(binary) as server:
        file = server.folder / 's'
        server.restart('--listen', f'127.0.0.1:0,unix:{file}')
        asleep = [Client(server), Client(server, file=file), Client(server, '/v1/stream?since=0')]
        with Client(server) as reader:
            for batch in range(40):       # far more than sockets hold
                tell(server, *(event('a', n, pad='x' * 20000) for n in range(batch * 50, batch * 50 + 50)))
            eq(numbers(reader.take(2000)), list(range(2000)))
            began = time.monotonic()
            server.process.terminate()
            eq(reader.next(), None, 'who reads is told of the end')
            eq(server.wait_exit(), 0)
        check(time.monotonic() - began < 60, 'the drain waited for who does not read')   # drain_timeout is ten times that
        check('serve.drain_cut' not in server.stderr(), 'a stream was waited for')
        for client in asleep:       # what was sent arrives, and the end is none of a body
            got = []
            try:
                while (told := client.next()) is not None:
                    got.append(told)
                check(False, 'a whole body')
            except http.client.IncompleteRead:
                eq(numbers(got), list(range(len(got))))
            check(got, 'nothing came')
            client.connection.close()
        server.start()


@scene
def streams_and_events_go_over_unix_sockets(binary):
    with Server(binary) as server:
        every, part = server.folder / 's', server.folder / 'part'
        server.restart('--listen', f'127.0.0.1:0,unix:{every}', '--set', 'domains=localhost,other.test',
                       '--set', f'listeners.part.listen=unix:{part}', '--set', 'listeners.part.routes=change.events,change.stream',
                       '--set', 'listeners.part.domains=other.test')
        eq(server.wait_line('part on '), f'unix:{part}')
        with Client(server) as over_tcp, Client(server, file=every) as whole, Client(server, '/v2/stream/a,b', file=part) as shown:
            eq(whole.answer.headers['Content-Type'], 'text/event-stream; charset=utf-8')
            eq([tell_over(file, event('a', n, 'other.test'), event('b', n)) for n, file in enumerate((every, part))], [201, 201])
            tell(server, event('b', 2, 'other.test'))
            got = over_tcp.take(5)
            eq([(data['n'], data['meta']['domain']) for _, _, data in got],
               [(0, 'other.test'), (0, 'localhost'), (1, 'other.test'), (1, 'localhost'), (2, 'other.test')])
            eq(whole.take(5), got)
            eq(shown.take(3), [got[0], got[2], got[4]], 'the listener shows one domain')
            with Client(server, last=got[1][0], file=part) as again:
                eq(again.take(2), [got[2], got[4]])
            with contextlib.closing(UnixConnection(part)) as connection:
                connection.request('GET', '/metrics')
                eq(connection.getresponse().status, 404, 'and no other routes')
            for client in (whole, shown):
                client.connection.close()
            wait_until(lambda: figure(server, 'stream_clients') == 1, 'who left is gone')
        with Client(server, file=every) as client:
            server.process.terminate()
            eq(client.next(), None)
            eq(server.wait_exit(), 0)
        server.start()


@scene
def what_was_acknowledged_arrives_over_kills(binary):
    print(f'seed {SEED}', flush=True)
    rng = random.Random(SEED)
    with Server(binary) as server:
        acknowledged, seen, last, number = [], [], None, 0

        def send():
            nonlocal number
            try:
                while True:
                    number += 1
                    if server.json('POST', EVENTS, body=event('a', number)).status == 201:
                        acknowledged.append(number)
            except (OSError, http.client.HTTPException):
                pass

        def follow(client):
            nonlocal last
            try:
                for position, _, data in iter(client.next, None):
                    seen.append(data['n'])
                    last = position
            except (OSError, http.client.HTTPException, ValueError):
                pass

        with Client(server) as client:
            tell(server, event('a', 0))
            last = client.next()[0]
        for _ in range(KILLS):
            threads = [threading.Thread(target=send), threading.Thread(target=follow, args=(Client(server, last=last),))]
            for thread in threads:
                thread.start()
            some = len(acknowledged) + rng.randrange(20, 200)
            wait_until(lambda some=some: len(acknowledged) >= some, 'events are taken')
            server.kill9()
            for thread in threads:
                thread.join()
            server.start()
        tell(server, event('a', -1))
        with Client(server, last=last) as client:
            for _, _, data in iter(client.next, None):
                if data['n'] == -1:
                    break
                seen.append(data['n'])
        eq(sorted(set(acknowledged) - set(seen)), [])
        eq(seen, sorted(set(seen)), 'in order, and none twice')
        eq(server.json('POST', '/v1/admin.check').body['found'], [])


@scene
def a_stream_has_a_right_of_its_own_and_private_wikis_another(binary):
    with tempfile.TemporaryDirectory() as folder:
        def token(*args):
            return subprocess.run([binary, 'token', *args, '--data', folder + '/data'], capture_output=True, text=True,
                                  timeout=60, check=True).stdout.strip()
        keys = {role: token('create', '--role', role, '--name', role, *(['--new'] if role == 'admin' else []))
                for role in ('admin', 'read', 'purge')}
        token('lock')
        options = ('--set', 'auth=internal', '--set', 'domains=localhost,secret.test',
                   '--set', 'domains.secret.test.origin.url=http://127.0.0.1:9/w/rest.php',
                   '--set', 'domains.secret.test.origin.private=true', '--set', 'domains.secret.test.origin.hosts=secret.wiki')
        with Server(binary, *options, data=folder + '/data') as server:
            bearer = {role: {'Authorization': f'Bearer {key}'} for role, key in keys.items()}
            eq(server.request('GET', '/v1/stream').status, 401)
            eq(server.request('GET', '/v2/stream/a', bearer['purge']).status, 403)
            with Client(server, headers=bearer['read']) as reader, Client(server, headers=bearer['admin']) as admin:
                events = [event('a', 0), event('a', 1, 'secret.test'), event('a', 2)]
                eq(server.json('POST', EVENTS, bearer['admin'], events).status, 201)
                eq(numbers(reader.take(2)), [0, 2])
                eq(numbers(admin.take(3)), [0, 1, 2])
                hidden = [{'meta': {'stream': 'resource-purge', 'uri': 'http://secret.wiki/wiki/A'}, 'n': 3}, event('a', 4, 'gone.test'),
                          event('a', 5)]
                eq(server.json('POST', EVENTS, bearer['admin'], hidden).status, 201)
                eq(numbers(reader.take(1)), [5])
                eq(numbers(admin.take(3)), [3, 4, 5])
                keys = server.json('GET', '/v1/admin.tokens', bearer['admin']).body['items']
                gone, = (key['id'] for key in keys if key['name'] == 'read')
                eq(server.request('DELETE', f'/v1/admin.tokens/{gone}', bearer['admin']).status, 204)
                eq(server.json('POST', EVENTS, bearer['admin'], [event('a', 6)]).status, 201)
                until = time.monotonic() + 30
                while reader.next() is not None:        # a key that is gone follows no longer, however much there is to tell
                    check(time.monotonic() < until, 'the stream outlives its key')
                    eq(server.json('POST', EVENTS, bearer['admin'], [event('a', time.monotonic_ns())]).status, 201)


main()
