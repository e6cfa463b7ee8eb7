"""Goal: a request costs what docs/several-servers.md says ("What a request costs"). Method: a server behind the proxy that
counts. All that it asks of its node for one act is compared, but for what it asks by the clock: leases, what is due, the
catalogue. Upkeep may read the facts of any title meanwhile. So the acts are done on one title after another, until each
of them has cost exactly what is said; what else came beside them are such reads alone."""
import collections
import contextlib
import re
import threading

from rig import check, eq, main, scene, wait_until

from harness import Server          # rig says where these are
from origin import Origin
from proxy import Proxy
import shared_store
from served import DOMAIN, PAGE, applied, options

KV = f'/{DOMAIN}/v1/key_value'
LATER = '2099-01-01T00:00:00Z'
TITLES = 6                  # tried at most
HELD_S = 6                  # an answer is held so long; what waits for the answer is asked later
COST_TIMEOUT = 5            # nobody waits for some of the requests
BY_ITSELF = re.compile(
    r'SELECT DISTINCT|\w+\.(?:meta|decide|lease|value_made)\b|FROM (?:\w+\.due|system\w*\.)')
VERB_TABLE = re.compile(r'(\w+)\b.*?\b\w+\.(\w+)\b', re.S)
FACTS, FACT, DUE = 'SELECT title', 'INSERT title', 'INSERT due'
NEWEST, BYTES = 'SELECT body newest', 'SELECT body'
PUT = 'INSERT body + INSERT title'


def brief(text):
    """SELECT title; INSERT body + INSERT title. Conditional ones end with IF."""
    said = []
    for statement in text.split('; '):
        verb, table = VERB_TABLE.match(statement).groups()
        more = ' IF' if ' IF ' in statement else ' newest' if 'rev, tid, digest, bytes' in \
            statement and verb == 'SELECT' else ''
        said.append(f'{verb} {table}{more}')
    return ' + '.join(dict.fromkeys(said))


class Costs:
    """A server, and the proxy through which it asks."""

    def __init__(self, server, proxy):
        self.server, self.proxy = server, proxy
        self.before = proxy.counts()
        self.missed = {}        # steps that did not cost exactly what is said yet

    def now(self):
        """Since the last act."""
        found = collections.Counter()
        for text, count in self.proxy.counts().since(self.before)['whole'].items():
            if not BY_ITSELF.search(text):
                found[brief(text)] += count
        return found

    def ask(self, want, status, method, path, headers=None, body=None):
        """One request of a client, which costs this."""
        self.before = self.proxy.counts()
        got = self.server.request(method, path, headers, body)
        eq(got.status, status, f'{method} {path}: {got.body[:300]}')
        want = collections.Counter(want)
        with contextlib.suppress(AssertionError):
            wait_until(lambda: self.now() >= want, path, timeout=COST_TIMEOUT)
        cost = self.now()
        what = f'{method} {path} costs {dict(cost)}, said is {dict(want)}'
        check(cost >= want and set(cost - want) <= {FACTS}, what)
        if cost == want:
            self.missed[self.step] = None
        else:
            self.missed.setdefault(self.step, what)
        self.step += 1
        return got

    def each(self, acts):
        """acts(title): each of its steps once costs nothing else."""
        self.missed = {}
        for n in range(TITLES):
            self.step = 0
            acts(f'T{n}')
            if not any(self.missed.values()):
                return
        raise AssertionError('\n'.join(filter(None, self.missed.values())))

    def metric(self, name):
        text = self.server.request('GET', '/metrics').body.decode()
        return int(next(line.split()[1] for line in text.splitlines()
                        if line.startswith(f'palimpsest_{name} ')))


@contextlib.contextmanager
def counted(binary, space, *more):
    cluster = applied(binary, space)
    with Proxy(cluster.address(1), cluster.port) as proxy:
        words = options(cluster, space, *more, points=f'{proxy.host}:{proxy.port}')
        shared_store.policies(binary, ['--domain', DOMAIN, *words])
        with Server(binary, '--domain', DOMAIN, *words) as server:
            wait_until(lambda: server.request('GET', '/readyz').status == 200, 'it is ready')
            yield Costs(server, proxy)


@scene
def a_put_is_one_read_and_one_batch(binary):
    with counted(binary, 'costs_put', 'hot_ttl=0') as c:
        def acts(title):
            path = f'{PAGE}/html/{title}'
            # The row for listings goes beside the read of the facts.
            c.ask({FACTS: 1, 'INSERT titles': 1, PUT: 1}, 201, 'PUT', f'{path}/1', body=b'1')
            # The render before it runs out some day: that instant is new, and filed. Nobody waits.
            c.ask({FACTS: 1, PUT: 1, DUE: 1}, 201, 'PUT', f'{path}/2', body=b'2')
            c.ask({FACTS: 1, PUT: 1}, 201, 'PUT', f'{path}/3', body=b'3')
            c.ask({FACTS: 1, BYTES: 1}, 200, 'PUT', f'{path}/3', body=b'3')
            c.ask({FACTS: 1}, 412, 'PUT', f'{path}/4', {'If-None-Match': '*'}, b'4')
            c.ask({FACTS: 1, PUT: 1, 'INSERT stashes': 1}, 201, 'PUT', f'{path}/5?stash=true',
                  body=b'5')
        c.each(acts)


@scene
def a_get_is_one_round_trip(binary):
    with counted(binary, 'costs_get', 'hot_ttl=0') as c:
        def acts(title):
            path = f'{PAGE}/html/{title}'
            tags = []
            for rev in (1, 2):
                status, headers, _ = c.server.request('PUT', f'{path}/{rev}', body=b'%d' % rev)
                eq(status, 201)
                tags.append(headers['etag'])
            wait_until(lambda: c.now()[DUE] == 1, 'the title is filed', timeout=COST_TIMEOUT)
            c.ask({FACTS: 1, NEWEST: 1}, 200, 'GET', path)
            c.ask({FACTS: 1}, 304, 'GET', path, {'If-None-Match': tags[1]})
            c.ask({FACTS: 1, NEWEST: 1}, 404, 'GET', f'{path}-nowhere')
            exact = tags[0].strip('"')
            # A render that is superseded, asked for by name, lives longer: that is a fact more.
            c.ask({FACTS: 2, FACT: 1, BYTES: 1}, 200, 'GET', f'{path}/{exact}')
            c.ask({FACTS: 1, BYTES: 1}, 200, 'GET', f'{path}/{exact}')
            c.ask({FACTS: 1}, 200, 'GET', f'{PAGE}/history/{title}')
            c.ask({FACTS: 1}, 200, 'GET', f'{PAGE}/explain/{title}/{exact}')
            c.ask({FACTS: 2, FACT: 1, NEWEST: 1, 'INSERT stashes': 1}, 200, 'GET',
                  f'{path}?stash=true')
        c.each(acts)

        # Both are under way at once: while the facts do not come the bytes are asked for already.
        held = c.proxy.hold(HELD_S, opcode='RESULT', text=r'FROM \w+\.title WHERE')
        before, got = c.proxy.counts(), []
        reader = threading.Thread(
            target=lambda: got.append(c.server.request('GET', f'{PAGE}/html/T0')))
        reader.start()
        held.wait()
        wait_until(lambda: any('rev, tid, digest, bytes' in text for text in
                               c.proxy.counts().since(before)['statements']), 'the bytes are asked for',
                   timeout=HELD_S / 2)
        check(not got, 'it waits for the facts')
        reader.join()
        eq(got[0].status, 200)


@scene
def the_latest_of_many_renders_costs_no_more_than_of_few(binary):
    with counted(binary, 'costs_many', 'hot_ttl=0') as c:
        path = f'{PAGE}/html/T'

        def answers():
            """Bytes for one GET. The least of some: upkeep asks meanwhile."""
            found = []
            for _ in range(8):
                before = c.proxy.counts()
                eq(c.server.request('GET', path).status, 200)
                found.append(c.proxy.counts().since(before)['bytes']['answers'])
            return min(found)
        sizes = {}
        for rev in range(1, 301):
            eq(c.server.request('PUT', f'{path}/{rev}', body=b'%d' % rev).status, 201)
            if rev in (60, 300):
                sizes[rev] = answers()
        check(sizes[300] < 1.2 * sizes[60], sizes)
        # A hidden render below the latest changes nothing; a purge of all does, and then all is read.
        eq(c.server.request('DELETE', f'{PAGE}/all/T/1').status, 204)
        check(answers() < 1.2 * sizes[60], 'a purge of another render')
        eq(c.server.request('DELETE', f'{PAGE}/all/T/300').status, 204)
        got = c.server.request('GET', path)
        eq((got.status, got.body), (200, b'299'))


@scene
def a_ready_answer_asks_nothing(binary):
    with counted(binary, 'costs_hot', 'hot_ttl=1s') as c:
        path = f'{PAGE}/html/T'
        eq(c.server.request('PUT', f'{path}/1', body=b'1').status, 201)
        # Some of them are older than a second, and asked for anew; each of these is two requests.
        before, gets, hits = c.proxy.counts(), 300, c.metric('hot_hits_total')
        for _ in range(gets):
            eq(c.server.request_again('GET', path).body, b'1')
        hits = c.metric('hot_hits_total') - hits
        asked = sum(n for text, n in c.proxy.counts().since(before)['whole'].items()
                    if 'rev, tid, digest, bytes' in text)
        check(hits > gets / 2, f'{hits} of {gets} are ready')
        eq(asked, gets - hits, 'reads of bytes, and answers that were not ready')


@scene
def orders_are_one_read_and_one_write(binary):
    with counted(binary, 'costs_orders', 'hot_ttl=0') as c:
        def acts(title):
            for rev in (1, 2, 3):
                eq(c.server.request('PUT', f'{PAGE}/html/{title}/{rev}', body=b'%d' % rev).status,
                   201)
            wait_until(lambda: c.now()[DUE] > 0, 'the title is filed', timeout=COST_TIMEOUT)
            hold = f'{PAGE}/hold/{title}/2'
            c.ask({FACTS: 1, FACT: 1}, 200, 'PUT', hold, body={'until': LATER})
            c.ask({FACTS: 1, FACT: 1}, 204, 'DELETE', hold)
            c.ask({FACTS: 1, FACT: 1, DUE: 1}, 204, 'DELETE', f'{PAGE}/all/{title}/1')
            c.ask({FACTS: 1, FACT: 1}, 204, 'DELETE', f'{PAGE}/all/{title}')
            c.ask({FACTS: 1, NEWEST: 1}, 410, 'GET', f'{PAGE}/html/{title}')
        c.each(acts)


@scene
def a_value_is_one_read_and_one_conditional_batch(binary):
    with counted(binary, 'costs_values') as c:
        eq(c.server.request('PUT', f'{KV}/b').status, 201)
        write, read = 'INSERT value + UPDATE value IF', 'SELECT value'

        def acts(title):
            path = f'{KV}/b/{title}'
            # The row for listings.
            c.ask({read: 1, 'INSERT value_key': 1, write: 1}, 201, 'PUT', path,
                  {'If-None-Match': '*'}, b'1')
            c.ask({read: 1, write: 1}, 201, 'PUT', path, body=b'2')
            c.ask({read: 1}, 412, 'PUT', path, {'If-None-Match': '*'}, b'3')
            c.ask({read: 1}, 200, 'GET', path)
            c.ask({read: 1, 'DELETE value + UPDATE value IF': 1}, 204, 'DELETE', path)
        c.each(acts)


@scene
def what_a_wiki_hides_is_two_readings_and_a_mark(binary):
    with Origin() as origin:
        words = origin.options(DOMAIN)[1::2]
        with counted(binary, 'costs_mark', 'hot_ttl=0', *words) as c:
            def acts(title):
                origin.page(title, (1, 'old'), (7, 'new'))
                for where in ('', '/1', '/1'):
                    eq(c.server.request('GET', f'{PAGE}/html/{title}{where}').status, 200)
                word = 'SELECT word'
                c.ask({FACTS: 1, word: 1, NEWEST: 1}, 200, 'GET', f'{PAGE}/html/{title}')
                c.ask({FACTS: 1, word: 1, BYTES: 1}, 200, 'GET', f'{PAGE}/html/{title}/1')
                origin.hide(title, 1)
                c.ask({FACTS: 2, word: 2, FACT: 1}, 410, 'GET', f'{PAGE}/html/{title}/1',
                      {'Cache-Control': 'no-cache'})
            c.each(acts)


main()
