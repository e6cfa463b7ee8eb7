"""Goal: whatever targets, senders and operators do wrong, what rules have to do is done or told,
and what holds up one rule or domain holds up no other.
Method: the real binary; targets that hang, redirect and fail for ever; a log that is overtaken; a
backup that is older than what was told; hostile events; rules that change under load. The ledger of
a sink says what arrived."""
import collections
import concurrent.futures
import itertools
import os
import socket
import threading
import time

from change_help import (Client, figure, purge_connection, rule_comes_to, rule_of, tell_events,
                         wait_figure)
from cli import Client as Cli
from harness import Server, check, eq, free_port, main, memory_of, scene, wait_until
from reload_help import Reloaded
from rules_help import configured, event, hook, items_of, soon, steer, wait_run
from sink_help import Sink

REDIRECTS = (301, 302, 303, 307, 308)
RELOADS = 20


def router_of(server):
    return server.json('GET', '/v1/admin.change').body['router']


# ---- targets

class Hole:
    """Takes connections and requests, and says nothing."""

    def __enter__(self):
        self.peers, self.server = [], socket.create_server(('127.0.0.1', 0))
        self.url = f'http://127.0.0.1:{self.server.getsockname()[1]}'
        threading.Thread(target=self._take, daemon=True).start()
        return self

    def _take(self):
        try:
            while True:
                self.peers.append(self.server.accept()[0])
        except OSError:
            pass

    def __exit__(self, kind, value, trace):
        self.server.close()
        for peer in self.peers:
            peer.close()


@scene
def a_target_that_hangs_costs_its_time_and_holds_up_no_other(binary):
    with Hole() as hole, Sink() as sink, Reloaded(binary, configured({
            'lost': hook(hole, timeout='300ms', retries=1, concurrency=2),
            'hook': hook(sink)})) as r:
        tell_events(r.server, *(event(f'T{n}', n) for n in range(6)))
        eq(len(sink.wait(6)), 6)
        one = rule_comes_to(r.server, 'lost', dead=6)
        eq((one['failures'], one['died'], one['running']), (12, 6, 0))
        check({item['attempts'] for item in items_of(r.server, 'lost')} == {2}, one)
        check('time' in one['last_error'], one)


@scene
def a_target_whose_pause_is_over_is_not_closed(binary):
    """Also when nobody calls it again: the rule that would is paused by hand."""
    def answers(request):
        return 503, {'Retry-After': '2'}
    with Sink(answers) as sink, Reloaded(binary, configured({'hook': hook(sink)})) as r:
        closed = f'target_closed{{target="{sink.url[7:]}"}}'
        tell_events(r.server, event('T', 1))
        sink.wait(1)
        wait_until(lambda: figure(r.server, closed) == 1, 'it is paused')
        steer(r.server, 'pause', rule='hook')
        wait_until(lambda: figure(r.server, closed) == 0, 'its pause is over')


@scene
def a_redirect_leads_nowhere(binary):
    """Not a hook, a purge, or a job: what is asked is what the rule names."""
    with Sink() as other:
        def answers(request):
            return int(request['headers']['X-Status']), {'Location': f'{other.url}/secret'}
        with Sink(answers) as sink:
            rules = {}
            for status in REDIRECTS:
                more = {'retries': 0, 'headers': {'X-Status': str(status)}}
                of = {'match': {'stream': 'mediawiki.job.t'}, 'targets': [sink.url], **more}
                rules[f'hook{status}'] = {**hook(sink, stream='mediawiki.job.t', **more)}
                rules[f'purge{status}'] = {**of, 'effect': 'purge', 'urls': ['/{title}']}
                rules[f'job{status}'] = {**of, 'effect': 'job'}
            with Reloaded(binary, configured(rules)) as r:
                tell_events(r.server, event('A', stream='mediawiki.job.t', type='t'))
                for name in rules:
                    one = rule_comes_to(r.server, name, dead=1, running=0)
                    check('redirects are not followed' in one['last_error'], one)
                eq((len(sink.requests), other.requests), (len(rules), []))


@scene
def a_target_that_fails_for_ever_ends_with_dead_items_and_none_lost(binary):
    broken = [True]
    with Sink(lambda q: (500, {}) if broken[0] else None) as sink, Sink() as other, \
            Reloaded(binary, configured({'hook': hook(sink, retries=2, concurrency=8),
                                         'other': hook(other)})) as r:
        tell_events(r.server, *(event(f'T{n % 40}', n) for n in range(120)))
        one = rule_comes_to(r.server, 'hook', dead=120)
        eq((len(sink.requests), one['failures'], one['died']), (360, 360, 120))
        tries = collections.Counter(e['n'] for e in sink.events())
        eq(set(tries.values()), {3})
        eq(len(other.wait(120)), 120)
        r.server.kill9()
        r.server.start()
        eq(rule_of(r.server, 'hook')['dead'], 120)
        broken[0] = False
        steer(r.server, 'retry', 'hook')
        rule_comes_to(r.server, 'hook', dead=0, done=120)
        eq({e['n'] for e in sink.events()[360:]}, set(range(120)))


# ---- the log

@scene
def an_item_outlives_its_event_in_the_log(binary):
    """Retention takes the event; what is to be done about it keeps its bytes."""
    with Sink() as sink, Reloaded(binary, configured({'hook': hook(sink, retries=0)},
                                                     retention='1h'), test_hooks=True) as r:
        steer(r.server, 'pause', 'hook')
        told = [event(f'T{n}', n, text='x' * 3000) for n in range(20)]
        tell_events(r.server, *told)
        rule_comes_to(r.server, 'hook', ready=20)
        r.server.clock(advance='2h')
        wait_until(lambda: figure(r.server, 'event_log_events') == 0, 'the log is empty')
        r.server.restart()
        steer(r.server, 'resume', 'hook')
        sink.wait(20)
        eq(sorted(sink.events(), key=lambda e: e['n']), told)
        eq(figure(r.server, 'router_missed_events_total'), 0)


@scene
def what_retention_takes_before_the_rules_saw_it_is_counted(binary):
    """A log of 1 MiB, into which more comes than the router has read when the server is killed.
    Each event has become an item, or is counted as missed."""
    limits = {'retention': '7d', 'bytes_max': '1M'}
    rules = {'hook': hook(f'http://127.0.0.1:{free_port()}', retries=0)}
    with Reloaded(binary, configured(rules, **limits)) as r:
        steer(r.server, 'pause', 'hook')
        told = 0
        for turn in range(4):
            for _ in range(3):
                many = [event(f'T{n % 50}', n, text='y' * 2000) for n in range(told, told + 1000)]
                tell_events(r.server, *many)
                told += 1000
            if turn % 2:
                r.server.kill9()
                r.server.start()

        wait_until(lambda: router_of(r.server)['behind'] == 0, 'all is routed')
        router = router_of(r.server)
        one, missed = rule_of(r.server, 'hook'), router['missed']
        eq(one['ready'] + one['waiting'] + missed, told, f'{missed} missed')
        if missed:      # mostly
            check(f'the last were noticed at {router["missed_at"]}: ' in Cli(binary, r.server).ok('change', 'ls'), router)
        eq(figure(r.server, 'router_missed_events_total'), missed)


@scene
def positions_do_not_repeat_after_the_restore_of_an_older_backup(binary):
    """A follower that has seen what the backup lacks gets all that is new, and nothing twice."""
    with Server(binary) as server, Client(server, timeout=30) as client:
        tell_events(server, *(event('A', n) for n in range(5)))
        client.take(5)
        backup = str(server.folder / 'backup')
        Cli(binary, server).ok('backup', backup)
        tell_events(server, *(event('A', n) for n in range(5, 10)))
        seen = [one[0] for one in client.take(5)]
        eq(server.sigterm(), 0)
        restored = server.folder / 'restored'
        eq(os.spawnv(os.P_WAIT, binary, [binary, 'restore', backup, '--data', str(restored)]), 0)
        with Server(binary, data=restored) as again:
            tell_events(again, *(event('A', n) for n in range(10, 15)))
            with Client(again, last=seen[-1], timeout=30) as follower:
                got = follower.take(5)
                eq([one[2]['n'] for one in got], list(range(10, 15)))
            with Client(again, '/v1/stream?since=1h', timeout=30) as all_there:
                eq([one[2]['n'] for one in all_there.take(10)], [*range(5), *range(10, 15)])
            check(max(place(p) for p in seen) < min(place(one[0]) for one in got), (seen, got))


def place(position):
    return int(position.split('-')[1])


# ---- many

def threads_of(server):
    return len(os.listdir(f'/proc/{server.pid}/task'))


@scene
def a_hundred_rules_of_a_hundred_domains_all_have_their_effects(binary):
    """In bounded memory and threads; and a domain with 10^4 events holds up no other."""
    domains = [f'd{n}.test' for n in range(100)]
    names = [f'r{n}' for n in range(100)]
    with Sink() as sink:
        rules = {name: hook(sink, f'/{name}/{{domain}}/{{title}}', concurrency=2) for name in names}
        rules['flood'] = hook(sink, '/flood/{domain}/{title}', stream='f', concurrency=2)
        with Reloaded(binary, configured(rules, domains)) as r:
            threads, memory = threads_of(r.server), memory_of(r.server, 'VmRSS')
            tell_events(r.server, *(event('T', domain=name) for name in domains[:40]))
            sink.wait(40 * 100)
            tell_events(r.server, *(event(f'T{n}', stream='f', domain='d0.test')
                                    for n in range(10_000)))
            wait_figure(r.server, 'rule_events_total{rule="flood",what="matched"}', 10_000)
            tell_events(r.server, *(event('T', domain=name) for name in domains[40:]),
                        *(event('U', stream='f', domain=name) for name in domains[1:]))
            wanted = {f'/{name}/{domain}/T' for name in names for domain in domains}
            others = {f'/flood/{domain}/U' for domain in domains[1:]}
            wait_until(lambda: wanted | others <= set(sink.paths()), 'all but the flood', pause=0.2)
            one = rule_of(r.server, 'flood')
            check(one['ready'] > 1000, f'the flood was over before: {one}')
            eq({count for path, count in collections.Counter(sink.paths()).items()}, {1})
            check(threads_of(r.server) <= threads + 16, f'{threads} and {threads_of(r.server)}')
            if memory is not None:
                grown = memory_of(r.server, 'VmRSS') - memory
                check(grown < 96 << 20, f'{grown >> 20} MiB more')


# ---- hostile events

@scene
def an_event_chooses_no_host_and_no_header(binary):
    """Hosts are those that are configured, whatever an event calls its domain."""
    with Sink() as sink, Sink() as other:
        rules = {'host': hook(f'http://{{domain}}:{sink.port}', retries=0, concurrency=1),
                 'path': hook(sink, '/p/{domain}/{title}?q={title}', retries=0, stream='p'),
                 'head': hook(sink, '/h', retries=0, stream='h', headers={'X-Title': '{title}'}),
                 'body': hook(sink, '/b', retries=0, stream='b', body={'a': '{title}', 'b': 1})}
        with Reloaded(binary, configured(rules, ['localhost'])) as r:
            evil = ['127.0.0.1', '127.1', '169.254.169.254', '[::1]', '0x7f000001', 'a.test',
                    '{domain}', f'localhost@127.0.0.1:{other.port}', f'127.0.0.1:{other.port}/',
                    'localhost.',
                    f'127.0.0.1:{other.port}#', 'localhost\r\nX-Evil: 1', ' localhost',
                    'local%68ost', 'localhost\\@x', '']
            tell_events(r.server, *(event('A', n, domain=d) for n, d in enumerate(evil)))
            one = rule_comes_to(r.server, 'host', dead=len(evil), running=0)
            check('{domain}' in one['last_error'], one)
            eq(sink.requests, [])
            # What names ours in another way, or at another port, is asked where the rule says.
            tell_events(r.server, *(event('A', d, domain=d)
                                    for d in ('LOCALHOST', f'localhost:{other.port}')))
            eq(sink.wait(2), ['/A', '/A'])
            eq({q['host'] for q in sink.requests}, {f'localhost:{sink.port}'})
            sink.requests.clear()
            texts = ['a\r\nX-Evil: 1', 'a\nX-Evil: 1', 'a\0b', 'a\rb', '\x7f', 'a\x1fb']
            tell_events(r.server, *(event(t, stream=s) for s in 'ph' for t in texts))
            for name in ('path', 'head'):
                one = rule_comes_to(r.server, name, dead=len(texts))
                check('control character' in one['last_error'], one)
            eq((sink.requests, other.requests), ([], []))
            odd = '"},{"{title}{meta.id}%7Btitle%7D${title}\\u0022/../?#&@:'
            tell_events(r.server, *(event(odd, stream=s) for s in 'hb'),
                        event(odd[-9:], stream='p'))
            sink.wait(3)
            got = {q['path'].split('?')[0][:2]: q for q in sink.requests}
            eq(got['/h']['headers']['X-Title'], odd)
            eq(got['/b']['body'].decode(), '{"a":' + json_text(odd) + ',"b":1}')
            eq(got['/p']['path'], '/p/localhost/%2F..%2F%3F%23%26%40%3A?q=%2F..%2F%3F%23%26%40%3A')
            check(not any(q['headers']['X-Evil'] for q in sink.requests), 'a header')


def json_text(text):
    return '"' + text.replace('\\', '\\\\').replace('"', '\\"') + '"'


FLOODS, FLOOD_TURNS = 16, 20


def flood(port):
    """PURGE of 100 URLs again and again, a hundred at once on one connection; how many were 200."""
    text = b''.join(b'PURGE http://wiki.test/wiki/P%d HTTP/1.1\r\nHost: wiki.test\r\n\r\n' % n
                    for n in range(100))
    taken = 0
    with socket.create_connection(('127.0.0.1', port), 60) as peer:
        answers = peer.makefile('rb')
        for _ in range(FLOOD_TURNS):
            peer.sendall(text)
            for _ in range(100):
                taken += answers.readline().split()[1] == b'200'
                for line in iter(answers.readline, b'\r\n'):
                    check(line and not line.lower().startswith(b'content-length: 1'), line)
    return taken


@scene
def a_flood_of_purges_is_bounded(binary):
    """32,000 of 100 URLs, while their cache is away: each is answered, 100 wait."""
    port = free_port()
    rule = {'match': {'stream': 'palimpsest.*'}, 'effect': 'purge', 'rebound': 0,
            'targets': [f'http://127.0.0.1:{port}'], **soon({})}
    origin = {'origin': {'url': 'http://127.0.0.1:1/rest.php', 'hosts': ['wiki.test']}}
    text = configured({'edge': rule}, purge_listen='127.0.0.1:0', bytes_max='1M').replace(
        '"localhost": {}', f'"localhost": {origin}'.replace("'", '"'))
    with Reloaded(binary, text) as r:
        memory = memory_of(r.server, 'VmRSS')
        port_of_purges = purge_connection(r.server).port
        with concurrent.futures.ThreadPoolExecutor(FLOODS) as pool:
            eq(list(pool.map(flood, [port_of_purges] * FLOODS)), [FLOOD_TURNS * 100] * FLOODS)
        wait_until(lambda: router_of(r.server)['behind'] == 0, 'routed')
        edge = rule_of(r.server, 'edge')
        check(edge['ready'] + edge['scheduled'] <= 100, edge)
        eq(edge['matched'] + router_of(r.server)['missed'], FLOODS * FLOOD_TURNS * 100)
        wait_until(lambda: figure(r.server, 'event_log_bytes') <= 1 << 20, 'the log is bounded')
        if memory is not None:
            grown = memory_of(r.server, 'VmRSS') - memory
            check(grown < 64 << 20, f'{grown >> 20} MiB more')
        with Sink(port=port) as sink:
            wait_until(lambda: len(set(sink.paths())) == 100, 'all of them')
            rule_comes_to(r.server, 'edge', lag=0)
            check(len(sink.requests) <= 110, len(sink.requests))


# ---- rules under load

class Load(threading.Thread):
    """Tells events until it is told to end."""

    def __init__(self, server, stream='t'):
        super().__init__(daemon=True)
        self.server, self.stream, self.told, self.over, self.failed = server, stream, 0, False, None

    def run(self):
        try:
            while not self.over:
                more = range(self.told, self.told + 20)
                tell_events(self.server, *(event(f'T{n % 30}', n, self.stream) for n in more))
                self.told += 20
        except BaseException as error:      # pylint: disable=broad-except
            self.failed = error


@scene
def rules_that_change_under_load_lose_nothing(binary):
    """Another URL, another name, another limit, removed and back: each event is done by a rule that
    was in force when it was told, and by the rule that stays each is done once."""
    with Sink() as sink:
        def of(name, way):
            return hook(sink, f'/{name}/{way}/{{title}}', concurrency=8)
        stays = {'stays': hook(sink, '/stays/{title}', concurrency=8)}
        ways = [{'a': of('a', 1)}, {'a': of('a', 2)}, {'b': of('b', 1)},
                {'b': of('b', 2), 'a': of('a', 3)}, {'c': of('c', 1)},
                {'c': {**of('c', 1), 'concurrency': 1}}, {'d': of('d', 1)}]
        with Reloaded(binary, configured({**ways[0], **stays})) as r:
            load = Load(r.server)
            load.start()
            for turn in range(1, 15):
                told = load.told
                wait_until(lambda told=told: load.told > told + 60 or load.failed, 'more is told')
                r.reload(configured({**ways[turn % len(ways)], **stays}))
            load.over = True
            load.join()
            eq(load.failed, None)
            every = {name: of(name, 9) for name in 'abcd'}
            r.reload(configured({**every, **stays}))
            for name in (*'abcd', 'stays'):
                rule_comes_to(r.server, name, lag=0)
            done = collections.defaultdict(set)
            for path, one in zip(sink.paths(), sink.events()):
                done['stays' if path.startswith('/stays') else 'others'].add(one['n'])
            for who in ('stays', 'others'):
                eq(sorted(set(range(load.told)) - done[who]), [], f'lost: {who}')
            eq(sum(path.startswith('/stays') for path in sink.paths()), load.told, 'once')


@scene
def patterns_that_take_long_hold_up_no_effect_and_no_end(binary):
    slow = {f'p{n}': hook('http://127.0.0.1:1', match={'title': '/^(a+)+$/'}) for n in range(10)}
    with Sink() as sink, Reloaded(binary, configured({'first': hook(sink, stream='u'), **slow})) as r:
        each = [event('a' * 40 + '!', n) for n in range(60)]       # a second or more of routing
        tell_events(r.server, event('A', 0, 'u'), *each)
        sink.wait(1)
        check(router_of(r.server)['behind'] > len(each) / 2, 'the effect of the first waited for the others')
        began = time.monotonic()
        eq(r.server.sigterm(), 0)
        check(time.monotonic() - began < 2, 'the end waited for events that were not looked at yet')
        r.server.start()
        rule_comes_to(r.server, 'p9', lag=0)
        eq(sink.paths(), ['/A'])


@scene
def a_job_that_was_answered_is_run_whatever_is_reloaded(binary):
    """Its rule comes and goes while jobs arrive: what the server says it has taken is run once the rule is there again.
    So are those that it refused, when they are sent again."""
    with Sink() as sink:
        jobs = {"match": {"stream": "mediawiki.job.*"}, "effect": "job",
                "targets": [sink.url + "/run"], "concurrency": 64}
        with Reloaded(binary, configured({'jobs': jobs})) as served:
            over, taken, refused = threading.Event(), [], []

            def post(name):
                return served.server.json('POST', '/v1/events', body={
                    'meta': {'stream': 'mediawiki.job.x', 'domain': 'localhost', 'id': name}, 'type': 'x', 'database': 'd'})

            def send(worker):
                for n in itertools.count():
                    if over.is_set():
                        return
                    name = f'{worker}-{n}'
                    answer = post(name)
                    check(answer.status in (201, 400), answer.body)
                    (taken if answer.status == 201 else refused).append(name)

            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                senders = [pool.submit(send, worker) for worker in range(8)]
                try:
                    for n in range(RELOADS):
                        served.reload(configured({} if n % 2 == 0 else {'jobs': jobs}))
                finally:
                    over.set()
                for one in senders:
                    one.result()
            served.reload(configured({'jobs': jobs}))
            check(taken and refused, (len(taken), len(refused)))
            for name in refused:
                eq(post(name).status, 201)
            wait_run(served.server, sink, 'mediawiki.job.x', taken + refused)


if __name__ == '__main__':
    main()
