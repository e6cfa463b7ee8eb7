"""Goal: what the wiki's word calls old is made anew without a reader, where the domain says so: each title once, also of two
servers, never more at once or in a second than it may, and after those who wait for the wiki; a wiki that wants to be left
alone is; after a kill all becomes right all the same.
Method: a scripted wiki that takes a moment for each render and notes when and how many at once; a template that all pages
have; who told of it is PURGE, or a sweep. What is stored is seen by `fresh why`, which asks nobody and makes nothing."""
import contextlib
import json
import pathlib
import re
import signal
import tempfile
import threading
import time

from change_help import LISTEN, purge, purge_connection
from cli import Client
from harness import Server, check, eq, main, scene, wait_until
from list_help import Cluster
from origin import GATE_TIMEOUT, Origin, instant, status_of
from render_help import Crowd, metric, origin_server

TITLES = [f'T{i:03d}' for i in range(300)]
OLD, NEW = ' of the old template', ' of the new template'


class Slow:
    """A wiki's renders of TITLES (and U...): when each began, of what, and how many ran at once. Those behind the first `free`
    wait for release."""

    def __init__(self, free=len(TITLES) * 2):
        self.free = free
        self.began, self.titles = [], []
        self.running = self.most = 0
        self._lock = threading.Lock()
        self._released = threading.Event()

    def release(self):
        self._released.set()

    def __call__(self, handler, status, headers, body):
        title = re.search('/([TU][0-9]{3})/', handler.path)
        if title is None:
            handler.answer(status, headers, body)
            return
        with self._lock:
            self.began.append(time.monotonic())
            self.titles.append(title[1])
            held = len(self.began) > self.free
            self.running += 1
            self.most = max(self.most, self.running)
        if held:
            self._released.wait(GATE_TIMEOUT)
        with self._lock:
            self.running -= 1
        handler.answer(status, headers, body)


@contextlib.contextmanager
def wiki(titles=TITLES):
    with Origin() as origin:
        origin.stamp = OLD
        for i, title in enumerate(titles):
            origin.page(title, (i + 1, title))
        yield origin


def options(**fields):
    """of the domain's origin; nobody asks by itself."""
    fields = {'hosts': 'wiki.test', 'trust_ttl': '2h', 'trust_max': '3h', 'sweep_period': 'never', **fields}
    return [part for name, value in fields.items() for part in ('--set', f'domains.localhost.origin.{name}={value}')]


def get(server, title, status=200):
    answer = server.request('GET', f'/localhost/v1/page/html/{title}')
    eq(answer.status, status, f'{title}: {answer.body[:200]}')
    return answer


def fill(server, titles=TITLES):
    for title in titles:
        check(OLD.encode() in get(server, title).body, 'as it was')


def touch(origin, titles=TITLES, ago=60):
    """The template is edited; the wiki touched its pages so long ago."""
    origin.stamp = NEW
    for title in titles:
        origin.touched[title] = instant(-ago)


def tell(server, titles=TITLES):
    connection = purge_connection(server)
    for title in titles:
        eq(purge(server, f'http://wiki.test/wiki/{title}', connection=connection).status, 200)
    connection.close()


def domain_of(server):
    domain, = server.json('GET', '/v1/admin.change').body['domains']
    return domain


def why(server, title):
    answer = server.json('POST', '/v1/admin.change.why', body={'domain': 'localhost', 'title': title})
    return next(bucket for bucket in answer.body['buckets'] if bucket['bucket'] == 'page')


def states(server, titles=TITLES):
    return {why(server, title)['state'] for title in titles}


def wait_right(server, titles=TITLES):
    """Without a reader: all of it is as the wiki has it."""
    wait_until(lambda: domain_of(server)['anew']['waiting'] + domain_of(server)['anew']['making'] == 0
               and states(server, titles) == {'fine'}, 'all are as the wiki has them', timeout=240, pause=0.1)


def wait_made(count, *servers):
    wait_until(lambda: sum(domain_of(server)['anew']['made'] for server in servers) >= count, f'{count} are made', timeout=240)


def all_new(server, origin, titles=TITLES):
    """And nothing is made for who reads them now."""
    renders = origin.count('render')
    for title in titles:
        check(NEW.encode() in get(server, title).body, f'{title} is new')
    eq(origin.count('render'), renders, 'they were made before')


@scene
def a_template_of_300_pages_is_300_renders_and_readers_come_first(binary):
    with wiki() as origin, origin_server(binary, origin, *LISTEN, *options(rerender='at_once', concurrency=4)) as server:
        fill(server)
        for i in range(20):
            origin.page(f'R{i}', (1000 + i, 'read'))
        touch(origin)
        slow = Slow(free=0)
        origin.fault('render', slow)
        renders = origin.count('render')
        tell(server)
        wait_until(lambda: domain_of(server)['anew']['waiting'] == 298, 'they wait for the two that are made')
        wait_until(lambda: slow.running == 2, 'two are under way')
        for i in range(10):     # readers do not wait for those: the wiki has places free
            get(server, f'R{i}')
        eq([domain_of(server)['anew'][what] for what in ('waiting', 'making', 'made')], [298, 2, 0])
        slow.release()
        for i in range(10, 20):
            get(server, f'R{i}')
        wait_right(server)
        eq(origin.count('render') - renders, 320, 'each once, and those of readers')
        eq(slow.most, 2, 'at once')
        all_new(server, origin)
        eq([domain_of(server)['anew'][what] for what in ('made', 'failed', 'dropped')], [300, 0, 0])
        eq([metric(server, f'rerenders_{what}{{domain="localhost"}}') for what in
            ('waiting', 'made_total', 'failed_total', 'dropped_total')], [0, 300, 0, 0])


@scene
def an_answer_that_is_ready_ends_when_its_page_was_made_anew(binary):
    titles = TITLES[:1]
    with wiki(titles) as origin, origin_server(binary, origin, *LISTEN, *options(rerender='at_once')) as server:
        for _ in range(3):
            fill(server, titles)
        hits = metric(server, 'hot_hits_total')
        fill(server, titles)
        eq(metric(server, 'hot_hits_total'), hits + 1, 'it is ready')
        touch(origin, titles)
        tell(server, titles)
        wait_made(1, server)
        wait_right(server, titles)
        all_new(server, origin, titles)


@scene
def readers_who_take_all_places_are_not_kept_waiting(binary):
    """While they ask for more than the wiki makes at once, nothing of the line begins."""
    titles = TITLES[:5]
    with wiki(titles) as origin, origin_server(binary, origin, *LISTEN, *options(rerender='at_once', concurrency=2)) as server:
        fill(server, titles)
        for i in range(4):
            origin.page(f'R{i}', (2000 + i, 'read'))
        touch(origin, titles)
        with origin.gate('render') as gate:
            readers = Crowd(server, [(f'/localhost/v1/page/html/R{i}', None) for i in range(4)])
            wait_until(lambda: gate.waiting == 2, 'both places are taken')
            tell(server, titles)
            wait_until(lambda: domain_of(server)['anew']['waiting'] == 5, 'they are old')
            line = [why(server, title)['anew'] for title in titles]
            eq(sorted(place['place'] for place in line), [1, 2, 3, 4, 5])
            eq({(place['state'], place['of']) for place in line}, {('waits', 5)})
            text = Client(binary, server).ok('fresh', 'why', 'localhost', titles[0])
            check('of 5 that wait for it' in text, text)
            eq(domain_of(server)['anew']['making'], 0)
            gate.open()
            readers.wait()
        wait_right(server, titles)
        asked = [path for kind, path, _, _ in origin.seen if kind == 'render'][5:]
        eq(len(asked), 9)
        check(all('/R' in path for path in asked[:4]), f'who waited came first: {asked}')


@scene
def what_is_paced_begins_so_often_and_no_oftener(binary):
    rate, count = 20, 50
    titles = TITLES[:count]
    with wiki(titles) as origin, \
            origin_server(binary, origin, *LISTEN, *options(rerender='paced', rerender_rate=rate)) as server:
        fill(server, titles)
        touch(origin, titles)
        slow = Slow()
        origin.fault('render', slow)
        tell(server, titles)
        wait_until(lambda: len(slow.began) == count, 'all are made')
        wait_right(server, titles)
        eq(len(slow.began), count)
        for first in range(0, count, 7):        # in each span of time: begun here, seen there
            for last in range(first + 10, count, 7):
                span = slow.began[last] - slow.began[first]
                check(last - first <= rate * span + 3, f'{last - first} in {span} s')
        all_new(server, origin, titles)


@scene
def a_wiki_that_wants_to_be_left_alone_is(binary):
    titles = TITLES[:20]
    with wiki(titles) as origin, \
            origin_server(binary, origin, *LISTEN, *options(rerender='at_once', retries=0)) as server:
        fill(server, titles)
        touch(origin, titles)
        met = []

        def busy(handler, status, headers, body):
            met.append(time.monotonic())
            status_of(429, retry_after='3')(handler, status, headers, body)
        origin.fault('render', busy)
        tell(server, titles)
        wait_until(lambda: domain_of(server)['anew']['failed'] >= 1, 'it said so')
        wait_until(lambda: domain_of(server)['anew']['making'] == 0, 'what had begun is over')
        slow = Slow()
        origin.fault('render', slow)
        wait_right(server, titles)
        check(len(met) <= 2, f'{len(met)} were under way as it said so')
        check(slow.began[0] - met[0] >= 3, f'{slow.began[0] - met[0]} s')
        eq(len(slow.began), 20, 'each once after that')
        eq(domain_of(server)['anew']['dropped'], 0)
        all_new(server, origin, titles)


@scene
def after_a_kill_a_sweep_and_readers_find_what_is_left(binary):
    titles = TITLES[:60]
    with wiki(titles) as origin, origin_server(binary, origin, *LISTEN, *options(rerender='at_once')) as server:
        fill(server, titles)
        touch(origin, titles)
        slow = Slow(free=10)
        origin.fault('render', slow)
        tell(server, titles)
        wait_until(lambda: domain_of(server)['anew']['made'] == 10 and slow.running == 2, 'some are made')
        server.kill9()
        slow.release()
        server.start()
        check(NEW.encode() in get(server, titles[-1]).body, 'its reader has it made')
        Client(binary, server).ok('fresh', 'sweep', 'localhost', '--wait')
        wait_right(server, titles)
        all_new(server, origin, titles)
        eq(len(slow.began), 60 + 2, 'what was under way is made twice')


@scene
def a_server_that_ends_makes_no_more(binary):
    titles = TITLES[:60]
    with wiki(titles) as origin, origin_server(binary, origin, *LISTEN, *options(rerender='at_once')) as server:
        fill(server, titles)
        touch(origin, titles)
        renders = origin.count('render')
        with origin.gate('render') as gate:
            tell(server, titles)
            wait_until(lambda: gate.waiting == 2, 'two are under way')
            eq(server.sigterm(), 0)
            eq(origin.count('render') - renders, 2)


@scene
def a_redo_is_made_as_its_sweep_goes_on(binary):
    titles = TITLES[:20]
    with wiki(titles) as origin, origin_server(binary, origin, *options(rerender='at_once')) as server:
        fill(server, titles)
        origin.stamp = NEW      # no word tells of it
        server.clock(advance='1m')
        client = Client(binary, server)
        client.ok('fresh', 'redo', '--domain', 'localhost')
        client.ok('fresh', 'sweep', 'localhost', '--wait')
        wait_made(20, server)
        wait_right(server, titles)
        all_new(server, origin, titles)


@scene
def limits_follow_a_reload(binary):
    titles = TITLES[:20]
    with wiki(titles) as origin, tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / 'p.yaml'
        fields = {'url': f'http://127.0.0.1:{origin.port}/w/rest.php', 'domain': origin.domain, 'hosts': 'wiki.test',
                  'rerender': 'at_once', 'trust_ttl': '2h', 'trust_max': '3h', 'timeout': '4m'}
        config.write_text(json.dumps({'domains': {'localhost': {'origin': {**fields, 'rerender_concurrency': 1}}}}))
        with Server(binary, '--config', config, *LISTEN) as server:
            fill(server, titles)
            touch(origin, titles)
            slow = Slow(free=0)
            origin.fault('render', slow)
            tell(server, titles)
            wait_until(lambda: slow.running == 1 and domain_of(server)['anew']['waiting'] == 19, 'one is made')
            config.write_text(json.dumps({'domains': {'localhost': {'origin': {**fields, 'rerender_concurrency': 3}}}}))
            server.signal(signal.SIGHUP)
            wait_until(lambda: slow.running == 3, 'three are')
            slow.release()
            wait_right(server, titles)
            eq(slow.most, 3)
            check('reload.changed option=domains.localhost.origin.rerender_concurrency' in server.stderr(), server.stderr())


@scene
def domains_take_turns(binary):
    """One has much to make, another little: that does not wait behind the first."""
    many, few = TITLES[:100], [f'U{i:03d}' for i in range(10)]
    with wiki(many + few) as origin:
        both = [part for domain in ('localhost', 'few.test') for part in
                (*origin.options(domain), *(part for name, value in {
                    'rerender': 'at_once', 'rerender_concurrency': 1, 'trust_ttl': '2h', 'trust_max': '3h',
                    'sweep_period': 'never'}.items() for part in ('--set', f'domains.{domain}.origin.{name}={value}')))]
        with Server(binary, '--domain', 'localhost', '--domain', 'few.test', *both) as server:
            fill(server, many)
            for title in few:
                eq(server.request('GET', f'/few.test/v1/page/html/{title}').status, 200)
            touch(origin, many + few)
            slow = Slow(free=0)
            origin.fault('render', slow)
            for domain, titles in (('localhost', many), ('few.test', few)):
                for title in titles:
                    server.json('POST', '/v1/admin.change.look', body={'domain': domain, 'title': title})
            wait_until(lambda: slow.running == 2, 'one of each')
            slow.release()
            wait_until(lambda: len(slow.titles) == 110, 'all are made', timeout=240)
            last = max(i for i, title in enumerate(slow.titles) if title[0] == 'U')
            check(last < 60, f'the last of the few was number {last} of 110')


# ---- several servers

@scene
def two_servers_make_each_once(binary):
    with wiki() as origin, Cluster(binary, 2, *origin.options('localhost'), *LISTEN,
                                   *options(rerender='at_once')) as c:
        for server in c.servers:
            fill(server)
        touch(origin)
        renders = origin.count('render')
        for server in c.servers:        # both are told, and each tells the other
            tell(server)
        wait_made(300, *c.servers)
        for server in c.servers:
            wait_right(server)
        eq(origin.count('render') - renders, 300, 'once of all servers')
        for server in c.servers:
            all_new(server, origin)


@scene
def what_one_is_told_is_right_on_the_other_that_alone_has_it(binary):
    titles = TITLES[:10]
    with wiki(titles) as origin, Cluster(binary, 2, *origin.options('localhost'), *LISTEN,
                                         *options(rerender='at_once')) as c:
        fill(c.servers[1], titles)
        touch(origin, titles)
        renders = origin.count('render')
        tell(c.servers[0], titles)
        wait_made(10, c.servers[1])     # where they are stored
        wait_right(c.servers[1], titles)
        eq(origin.count('render') - renders, 10)
        eq(domain_of(c.servers[0])['anew']['made'], 0)


main()
