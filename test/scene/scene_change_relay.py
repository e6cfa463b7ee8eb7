"""Goal: with a rule that purges, what a wiki purges at its caches is kept for that rule, byte for byte as it came, before the
wiki is answered; and looked at as without the rule.
Method: PURGE over the wire to the listener for it, and a client that follows the stream of purges; kill -9; a wiki that
changes."""
import concurrent.futures
import socket
import uuid

from change_help import Client, figure, purge, purge_connection, rule_comes_to, rule_of, rules_file, told_server
from harness import check, eq, free_port, main, memory_of, scene, wait_until
from origin import Origin
from page_help import get
from sink_help import Sink

STREAM = '/v1/stream?stream=palimpsest.purge'


def edge_rule(**more):
    """Nobody listens at its target: what is for it waits."""
    return {'match': {'stream': 'palimpsest.*'}, 'effect': 'purge', 'targets': [f'http://127.0.0.1:{free_port()}'],
            'urls': ['/{domain}/v1/page/html/{title}'], **more}


def purge_bytes(server, target):
    """The status of the answer to a target that is no text of http.client's."""
    with socket.create_connection(('127.0.0.1', int(server.wait_line('purge on ').rpartition(':')[2]))) as peer:
        peer.sendall(b'PURGE ' + target + b' HTTP/1.1\r\nHost: wiki.test\r\nConnection: close\r\n\r\n')
        return int(peer.makefile('rb').readline().split()[1])


@scene
def each_url_of_a_host_is_kept_as_it_came(binary):
    with Origin() as origin, rules_file({'edge': edge_rule()}) as file, told_server(binary, origin, '--config', file) as server, \
            Client(server, STREAM) as client:
        sent = [('http://wiki.test/wiki/A', 'wiki.test', None), ('/wiki/A', 'wiki.test', 'http://wiki.test/wiki/A'),
                ('http://WIKI.test:81/w/index.php?title=A&action=history', 'else', None),
                ('http://other.test:8080/wiki/%41_%c3%A9?x=%2f&&y', 'else', None),
                ('http://wiki.test/images/thumb/a/ab/X.png/120px-X.png', 'else', None), ('http://wiki.test/load.php?', 'else', None),
                ('/wiki/"A\\', 'wiki.test:4444', 'http://wiki.test:4444/wiki/"A\\'), ('http://wiki.test/wiki/..//./x', 'else', None),
                ('http://wiki.test/', 'else', None), ('HTTPS://wiki.test/wiki/A', 'else', 'http://wiki.test/wiki/A'),
                ('/localhost/v1/page/html/A', 'wiki.test', 'http://wiki.test/localhost/v1/page/html/A'),
                ('http://wiki.test/wiki/' + 'x' * 4000, 'else', None)]
        ids = set()
        for target, host, uri in sent:
            eq(purge(server, target, host).status, 200, target)
            event = client.next()[2]
            eq(event['uri'], uri or target)
            eq((event['meta']['stream'], event['meta']['domain'], list(event)), ('palimpsest.purge', 'localhost', ['meta', 'uri']))
            check(event['meta']['dt'].endswith('Z'), event)
            ids.add(event['meta']['id'])
        eq(len(ids), len(sent))
        eq(purge_bytes(server, 'http://wiki.test/wiki/\u00e9'.encode()), 200)
        eq(client.next()[2]['uri'], 'http://wiki.test/wiki/\u00e9')
        eq(purge_bytes(server, b'http://wiki.test/wiki/\xff'), 400)      # no text
        for target, host in (('http://nobody.test/wiki/A', 'wiki.test'), ('/wiki/A', 'nobody.test')):
            eq(purge(server, target, host).status, 404, target)
        eq(purge(server, '/localhost/v1/page/html/A', 'nobody.test').status, 200)   # ours, and of no wiki's host
        eq(purge(server, 'http://wiki.test/wiki/end').status, 200)
        eq(client.next()[2]['uri'], 'http://wiki.test/wiki/end')


def resource_purge(uri, **meta):
    """As EventBus's CdnPurgeEventRelayer tells of a URL."""
    return {'$schema': '/resource_change/1.0.0', 'meta': {'uri': uri, 'id': str(uuid.uuid4()), 'stream': 'resource-purge',
                                                          'domain': 'wiki.test', **meta}, 'tags': ['mediawiki']}


@scene
def so_is_each_that_eventbus_tells(binary):
    with Origin() as origin, rules_file({'edge': edge_rule()}) as file, told_server(binary, origin, '--config', file) as server, \
            Client(server, STREAM) as client:
        uris = ['http://wiki.test/wiki/A', 'https://wiki.test/w/index.php?title=A&action=history', '//wiki.test/wiki/\u00e9?',
                'http://wiki.test/wiki/A#part']
        events = [resource_purge(uri) for uri in uris]
        eq(server.json('POST', '/v1/events', body=events).status, 201)
        for event, uri in zip(events, ('http://wiki.test/wiki/A', uris[1], 'http:' + uris[2], 'http://wiki.test/wiki/A')):
            got = client.next()[2]
            eq((got['uri'], got['meta']['id'], got['meta']['domain']), (uri, event['meta']['id'], 'localhost'))
        eq(server.json('POST', '/v1/events', body=events).status, 201)      # once more, the same: EventBus tried again
        for event in (resource_purge('http://nobody.test/wiki/A'), resource_purge('/wiki/A'), resource_purge('ftp://wiki.test/wiki/A'),
                      resource_purge('http://wiki.test/wiki/' + 'x' * 9000), resource_purge('http://wiki.test/wiki/A', stream='else')):
            eq(server.json('POST', '/v1/events', body=event).status, 201, event)
        eq(server.json('POST', '/v1/events', body={'uri': uris[0], 'meta': {'stream': 'palimpsest.purge'}}).status, 400)
        eq(server.json('POST', '/v1/events', body=resource_purge('http://wiki.test/wiki/end')).status, 201)
        eq(client.next()[2]['uri'], 'http://wiki.test/wiki/end')


@scene
def what_eventbus_tells_reaches_the_cache(binary):
    with Sink() as sink, Origin() as origin, rules_file({'edge': edge_rule(targets=[sink.url], rebound='0s')}) as file, \
            told_server(binary, origin, '--config', file) as server:
        eq(server.json('POST', '/v1/events', body=resource_purge('https://wiki.test/wiki/A?x=%2f')).status, 201)
        sink.wait(1)
        eq([sink.requests[0][name] for name in ('method', 'path', 'host')], ['PURGE', '/wiki/A?x=%2f', 'wiki.test'])
    with Sink() as sink, Origin() as origin, rules_file({}) as file, told_server(binary, origin, '--config', file) as server:
        eq(server.json('POST', '/v1/events', body=resource_purge('https://wiki.test/wiki/A')).status, 201)
        eq(figure(server, 'event_log_events'), 1)       # nobody relays it


@scene
def it_is_looked_at_as_well(binary):
    with Origin() as origin, rules_file({'edge': edge_rule()}) as file, told_server(binary, origin, '--config', file) as server:
        origin.page('A', (7, 'before'))
        for _ in range(3):
            last = get(server, 'A').body
        origin.page('A', (8, 'after'))
        eq(get(server, 'A').body, last, 'nobody has told of it')
        eq(purge(server, 'http://wiki.test/wiki/A').status, 200)
        check(b'after<' in get(server, 'A').body, 'told')
        eq(figure(server, 'change_purges_total{named="title"}'), 1)


@scene
def without_such_a_rule_nothing_is_kept(binary):
    drop = {'match': {'stream': 'palimpsest.*'}, 'effect': 'drop'}
    for rules in ({}, {'known': drop}):
        with Origin() as origin, rules_file(rules) as file, told_server(binary, origin, '--config', file) as server:
            eq(purge(server, 'http://wiki.test/wiki/A').status, 200)
            eq(purge_bytes(server, b'http://wiki.test/wiki/\xff'), 200)
            eq(figure(server, 'event_log_events'), 0)


@scene
def what_was_answered_is_there_after_a_kill(binary):
    with Origin() as origin, rules_file({'edge': edge_rule()}) as file, told_server(binary, origin, '--config', file) as server:
        def run(worker):
            connection = purge_connection(server)
            taken = []
            for n in range(50):
                target = f'http://wiki.test/wiki/P{worker}_{n}'
                eq(purge(server, target, connection=connection).status, 200)
                taken.append(target)
            connection.close()
            return taken

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            taken = [target for one in pool.map(run, range(8)) for target in one]
        server.kill9()
        server.start()
        with Client(server, STREAM + '&since=0') as client:
            got = [data['uri'] for _, _, data in client.take(len(taken))]
        eq(sorted(got), sorted(taken))
        for worker in range(8):     # of one connection in its order
            mine = [uri for uri in got if f'/P{worker}_' in uri]
            eq(mine, [f'http://wiki.test/wiki/P{worker}_{n}' for n in range(50)])


def purge_many(server, numbers):
    """One PURGE of each, a hundred in flight."""
    numbers = list(numbers)
    with socket.create_connection(('127.0.0.1', purge_connection(server).port), 60) as peer:
        answers = peer.makefile('rb')
        for at in range(0, len(numbers), 100):
            batch = numbers[at:at + 100]
            peer.sendall(b''.join(b'PURGE http://wiki.test/wiki/P%d HTTP/1.1\r\nHost: wiki.test\r\n\r\n' % n for n in batch))
            for _ in batch:
                eq(answers.readline().split()[1], b'200')
                for line in iter(answers.readline, b'\r\n'):
                    check(not line.lower().startswith(b'content-length: 1'), line)


@scene
def a_cache_that_is_dead_for_an_hour_is_told_once_and_gets_all_in_the_end(binary):
    """What waits for it is on disk. It refuses connections first, then it asks to be left alone."""
    port, count = free_port(), 6000
    rule = edge_rule(targets=[f'http://127.0.0.1:{port}'], rebound='0s', concurrency=16)
    asked = []

    def answers(request):
        asked.append(request)
        return (503, {'Retry-After': '1'}) if len(asked) <= 3 else None
    with Origin() as origin, rules_file({'edge': rule}) as file, told_server(binary, origin, '--config', file) as server:
        purge_many(server, range(2000))
        rule_comes_to(server, 'edge', ready=2000)
        before = memory_of(server, 'RssAnon')
        purge_many(server, range(2000, count))
        purge_many(server, range(2000))     # a URL that waits is one
        wait_until(lambda: server.json('GET', '/v1/admin.change').body['router']['behind'] == 0, 'routed')
        eq(rule_of(server, 'edge')['ready'], count)
        if before is not None:
            grown = memory_of(server, 'RssAnon') - before
            check(grown < 8 << 20, f'{grown >> 10} KiB for {count} URLs')
        server.clock(advance='1h')
        one = rule_of(server, 'edge')
        check(one['oldest_s'] >= 3600 and one['ready'] == count and one['dead'] == 0, one)
        eq(figure(server, f'target_closed{{target="127.0.0.1:{port}"}}'), 1)
        eq(figure(server, 'rule_items{rule="edge",state="ready"}'), count)
        with Sink(answers, port=port) as sink:
            wait_until(lambda: len(set(sink.paths())) == count, 'all of them', timeout=120)
            rule_comes_to(server, 'edge', ready=0, scheduled=0)
            check(len(sink.requests) <= count + 20, len(sink.requests))
        said = server.stderr()
        eq((said.count('change.target_paused'), said.count('change.target_open')), (1, 1), said)
        check(said.count('\n') < 30, said)


@scene
def what_cannot_be_stored_is_to_be_sent_again(binary):
    with Origin() as origin, rules_file({'edge': edge_rule()}) as file, told_server(binary, origin, '--config', file) as server:
        server.restart(*server.args, '--set', 'store.free_bytes_min=1T')
        answer = purge(server, 'http://wiki.test/wiki/A')
        eq((answer.status, answer.headers['Retry-After']), (503, '1'), answer.body)


main()
