"""Random histories: the same requests at servers that share a cluster, and at one server with a store of its own. Answers
have to be the same, of each request and of all that is there afterwards.

All servers stand at one test clock, which moves between steps. In a step each title gets one act, all titles at once. An act
is one request at any of the servers, the same request at two of them at once, or puts that commute at several of them at once.

What the stores may tell apart, and why:
- Ends, by some seconds. Times of facts differ by nanoseconds, and the end of a pin lingers. So ends are compared in whole
  minutes, and TTLs are such that nothing falls due in the first seconds of a minute, in which all happens (ACTS_S).
- Of requests at once, which one was the first: the status of a put, and what superseded what at that instant.
- Since when a render is hidden. In a cluster each hearing is a mark, and the last mark counts; a store of its own keeps the
  first (docs/adr/0044, 0047).
- What the wiki is asked unbidden. A put shows a hidden revision until the wiki is heard again, so a sweep of one store alone
  would hide in that store alone. No server sweeps here. Readers ask, too, so texts of the wiki's titles are read at the end,
  behind a word that both stores have heard. `same` asks again in both stores, and has to hide again in both.
- Whether a revision is shown while the wiki is away: each server remembers for itself when the wiki was asked. So a server may
  say 503 then. Never does it give a text that the lone server does not give.
"""
import concurrent.futures
import datetime
import json
import os
import random
import time

from rig import SceneError, check, eq, wait_until

from harness import Server
from origin import Origin, cut_at_once, status_of
from page_help import DAY, EPOCH_TICKS
from render_help import NO_CACHE
from served import options

MINUTE = 60
ACTS_S = 9              # of a minute: when there are acts
EARLY_S = 5             # before a minute: is of that minute, too
PASSES_S = (1, 1, 3, *(n * MINUTE for n in (1, 1, 2, 7, 31, 95, 240, 240)), DAY + MINUTE, 3 * DAY)
TITLES, TOLD, REVS = 7, 3, 5    # titles that the wiki says nothing of, and others
TEXTS = 4               # of a title, but for those that are put at once
STEPS = int(os.environ.get('HISTORY_STEPS', '36'))
STEPS_MIN = 10          # however slow the machine is
DOMAINS = ('silent.test', 'wiki.test')
EQUAL_S = 60            # what a request leaves behind is everywhere by then
CULLED_S, LOOK_S = 120, 20      # upkeep has deleted by then; less than one of its leases
# Of seconds that never add up to a whole minute: due is half a minute from any request.
TTLS = ('page.grace_ttl=5430s', 'page.historical_ttl=2424s', 'page.stash_ttl=1530s', 'page.ledger_ttl=36030s')
LATER = ('page.policy=latest', 'page.count=2', 'page.grace_ttl=9030s', 'page.historical_ttl=2424s', 'page.stash_ttl=1530s',
         'page.ledger_ttl=36030s')
SETTLED = ('hot_ttl=0', 'write_timeout=5s', 'flight.make_timeout=5s', 'store.max_skew=50ms')


def seed():
    """Of this run: HISTORY_SEED, or another each time."""
    return int(os.environ.get('HISTORY_SEED') or random.SystemRandom().randrange(1 << 32))


def text_of(at):
    return datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime('%Y-%m-%dT%H:%M:%SZ')


def seconds_of(text):
    return datetime.datetime.fromisoformat(text.replace('Z', '+00:00')).timestamp()


def tid_at(at, low):
    ticks = EPOCH_TICKS + int(at) * 10**7
    return f'{ticks & 0xffffffff:08x}-{ticks >> 32 & 0xffff:04x}-{0x1000 | ticks >> 48:04x}-8000-{0x010000000000 | low:012x}'


class World:
    """Servers of a cluster, one with a store of its own beside them, and a wiki that all of them ask."""

    def __init__(self, stack, binary, rng, now):
        self.stack, self.binary, self.rng = stack, binary, rng
        self.now = self.minute = now    # minutes are counted from here
        self.origin = stack.enter_context(Origin())
        # A look at the wiki hears its word; what would store a render beside those of the history fails.
        self.origin.fault('render', status_of(500))
        self.shared, self.alone = [], None
        self.pool = stack.enter_context(concurrent.futures.ThreadPoolExecutor(16))

    def words(self, *more):
        origin = self.origin.options(DOMAINS[1], retries=0, sweep_period=0, check_wait='20s')
        said = ('domains=' + ','.join(DOMAINS), 'flight.error_base=1ms', 'flight.error_max=1ms', *SETTLED[:3], *more)
        return [*origin, *(word for option in said for word in ('--set', option))]

    def start_alone(self, *more):
        self.alone = self.stack.enter_context(Server(self.binary, *self.words(*more), test_hooks=text_of(self.now)))

    def restart_alone(self, *more):
        """A policy of a store of its own is in force from its start on."""
        eq(self.alone.sigterm(), 0)
        self.alone.test_hooks = text_of(self.now)
        self.alone.start(*self.words(*more))

    def start_shared(self, cluster, space, numbers, *more):
        """numbers: of the nodes that it knows, all of its data centre."""
        points = ','.join(f'{cluster.address(n)}:{cluster.port}' for n in numbers)
        said = (*SETTLED[3:], f'store.local_dc={cluster.datacentre(numbers[0])}')
        words = [*self.words(*more), *options(cluster, space, *said, points=points)]
        server = Server(self.binary, *words, test_hooks=text_of(self.now))
        self.shared.append(self.stack.enter_context(server))
        return server

    def restart_shared(self, server):
        server.kill9()
        server.test_hooks = text_of(self.now)
        server.start()

    def minutes(self, text):
        """How many from this one until then."""
        return int((seconds_of(text) - self.minute + EARLY_S) // MINUTE)

    def next_pass(self, turn_at):
        """Seconds that pass next, not beyond turn_at."""
        seconds = self.rng.choice(PASSES_S)
        if seconds < MINUTE and self.now + seconds > self.minute + ACTS_S:
            seconds = MINUTE
        if seconds >= MINUTE:
            seconds -= self.now - self.minute
        return turn_at - self.now if turn_at is not None and self.now + seconds > turn_at else seconds

    def passes(self, seconds):
        self.now += seconds
        self.minute += (self.now - self.minute) // MINUTE * MINUTE
        list(self.pool.map(lambda s: s.clock(freeze=text_of(self.now)), [*self.shared, self.alone]))


class Title:
    """One title of a history: what was asked, and what it was answered."""

    def __init__(self, world, name, rng, told):
        self.world, self.name, self.rng = world, name, rng
        self.domain = DOMAINS[told]
        self.acts = self.ACTS_TOLD if told else self.ACTS
        self.names = []             # (rev, tid, body, stash) of all puts
        self.loose = set()          # seconds in which several were put at once
        self.told = []
        self.low = 0
        self.last_word = ''
        self.given = {}              # texts that the lone server gives at the end
        self.first = 100 * int(name[1:])    # a wiki has each revision once
        self.revs = [(self.first + n, f'{name} {n}') for n in range(REVS)]
        if told:
            world.origin.page(name, *self.revs)

    def path(self, content, *where):
        return '/'.join(('', self.domain, 'v1/page', content, self.name, *map(str, where)))

    # ---- acts

    def name_of(self, back=0):
        self.low += 1
        return self.first + self.rng.randrange(REVS), tid_at(self.world.now - back, self.low)

    def fresh(self, back=0, alike=True):
        """alike: its text may be that of another."""
        text = self.rng.randrange(TEXTS) if alike else f'of {self.low + 1}'
        put = (*self.name_of(back), f'<p>{self.name} {text}', self.rng.random() < 0.2)
        self.names.append(put)
        return put

    def put_request(self, put):
        rev, tid, body, stash = put
        return 'PUT', self.path('html', rev, tid) + ('?stash=true' if stash else ''), None, body.encode()

    def put(self):
        return [[self.put_request(self.fresh())]]

    def late(self):
        return [[self.put_request(self.fresh(self.rng.randint(1, 300) * MINUTE))]]

    def burst(self):
        self.loose.add(self.world.now)
        return [[self.put_request(self.fresh(self.rng.choice((0, 0, 90 * MINUTE)), alike=False))]
                for _ in range(self.rng.randint(2, 4))]

    def again(self):
        return [[self.put_request(self.rng.choice(self.names))]]

    def other_bytes(self):
        rev, tid, body, stash = self.rng.choice(self.names)
        return [[self.put_request((rev, tid, body + ' other', stash))]]

    def twice(self):
        return [[self.put_request(self.fresh())] * 2]

    def where(self):
        rev, tid = self.rng.choice(self.names)[:2] if self.rng.random() < 0.9 else self.name_of()
        return self.rng.choice(((rev,), (rev, tid), (rev, tid)))

    def purge(self):
        where = () if self.rng.random() < 0.15 else self.where()
        return [[('DELETE', self.path('all', *where), None, None)] * self.rng.randint(1, 2)]

    def hold(self):
        until = text_of(self.world.minute + self.rng.randint(10, 400) * MINUTE + 30)
        return [[('PUT', self.path('hold', *self.where()), None, {'until': until})]]

    def release(self):
        return [[('DELETE', self.path('hold', *self.where()), None, None)]]

    def read(self):
        query = '?stash=true' if self.rng.random() < 0.2 else ''
        where = () if self.rng.random() < 0.2 else self.where()
        return [[('GET', self.path('html', *where) + query, None, None)]]

    def travel(self):
        at = text_of(self.world.minute - self.rng.randint(0, 500) * MINUTE + 30 - MINUTE)
        return [[('GET', self.path('html') + f'?at={at}', None, None)]]

    def word(self):
        """The wiki hides, deletes, shows all again or says the same, and everybody may hear it of the one who asks."""
        act, origin = self.rng.choice(('hide', 'hide', 'show', 'show', 'delete', 'same', 'same')), self.world.origin
        rev = self.first + self.rng.randrange(REVS - 1)
        if act != 'same':
            origin.page(self.name, *self.revs)
        if act == 'hide':
            origin.hide(self.name, rev)
        elif act == 'delete':
            origin.delete(self.name)
        self.last_word = f'{act} {rev}'
        # All of it is heard at once: what servers ask of their own accord later says nothing new.
        return [[('GET', self.path('title', one), NO_CACHE, None)] for one, _ in self.revs]

    WRITES = ((put, 6), (late, 3), (burst, 3), (again, 3), (other_bytes, 1), (twice, 2), (purge, 3), (hold, 2), (release, 2))
    ACTS = (*WRITES, (read, 4), (travel, 2))
    # Readers of the others would ask the wiki again, whenever a server of its own accord knows nothing of it.
    ACTS_TOLD = (*WRITES, (word, 8))

    def step(self, servers):
        acts, weights = zip(*self.acts)
        act = self.rng.choices(acts, weights)[0] if self.names else Title.put
        several = act(self)
        asked = [one for same in several for one in same]
        jobs = [(self.rng.choice(servers), one) for one in asked]
        said = self.last_word if act is Title.word else act.__name__
        self.told.append(f'{text_of(self.world.now)} {said}: ' + '; '.join(
            f'{self.world.shared.index(server)} {one[0]} {one[1]} {one[3] or ""}' for server, one in jobs))
        if act is Title.word:
            for one in asked:
                self.hear(jobs[0][0], one)
            return
        alone = [self.world.alone.request(*one) for one in asked]
        if len(jobs) == 1:
            shared = [jobs[0][0].request(*jobs[0][1])]
        else:
            with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
                shared = list(pool.map(lambda job: job[0].request(*job[1]), jobs))
        for (_, one), own, theirs in zip(jobs, alone, shared):
            self.same_answer(one, own, theirs, len(asked) > 1)

    def hear(self, server, ask):
        """Each store hears the word once, however often the wiki has to be asked."""
        answers = [wait_until(lambda one=one: next((a for a in [one.request(*ask)] if a.status < 500), None), 'the wiki is heard',
                              pause=0.2) for one in (self.world.alone, server)]
        self.told[-1] += f' -> {answers[1].status}'
        if answers[0].status != answers[1].status:
            self.fail(f'{ask}: alone {answers[0]}, shared {answers[1]}')

    def same_answer(self, one, own, theirs, several):
        fine = own.status == theirs.status
        if several and one[0] == 'PUT':     # which of both came first, nobody knows
            fine = own.status in (200, 201) and theirs.status in (200, 201) or fine
        elif fine and own.status >= 400:
            fine = kind_of(own) == kind_of(theirs)
        elif fine:
            fine = own.headers['etag'] == theirs.headers['etag'] and (one[0] != 'GET' or own.body == theirs.body)
        self.told[-1] += f' -> {theirs.status}'
        if not fine:
            self.fail(f'{one[:2]}: alone {own.status} {own.body[:300]}, shared {theirs.status} {theirs.body[:300]}')

    # ---- what is there

    def plain(self, item):
        """Without what may differ."""
        item = dict(item)
        for name in ('superseded_at', 'rendered_at'):
            if item.get(name):
                item[name] = int(seconds_of(item[name])) - self.world.minute
        for name in ('due_at', 'at'):
            if item.get(name):
                item[name] = self.world.minutes(item[name])
        if item['state'] in ('suppressed', 'deleted'):
            item.pop('at', None)
        if item.get('superseded_at') is not None and item['superseded_at'] + self.world.minute in self.loose:
            item.pop('superseded_by')
        item['holds'] = sorted((h['kind'], self.world.minutes(h['until'])) for h in item.get('holds', ()))
        return item

    def seen(self, server):
        """All that a server says of the title, but for its texts."""
        got = {}
        answer = server.json('GET', self.path('history'))
        items = [self.plain(i) for i in answer.body['items']] if answer.status == 200 else None
        got['history'] = answer.status, items
        got['explain'] = self.plain(server.json('GET', self.path('explain')).body)
        for rev, tid, _, _ in self.names:
            got[rev, tid] = self.plain(server.json('GET', self.path('explain', rev, tid)).body)
        return got

    def same(self, servers):
        alone = self.seen(self.world.alone)
        for server in servers:
            last = []

            def is_same(server=server, last=last):
                last[:] = [self.seen(server)]
                return last[0] == alone
            try:
                wait_until(is_same, 'as alone', timeout=EQUAL_S, pause=0.3)
            except SceneError:
                key = next(key for key in alone if alone[key] != last[0].get(key))
                self.fail(f'server {self.world.shared.index(server)}, {key}: alone {alone[key]}, shared {last[0].get(key)}')

    def read_all(self):
        """Everybody gives the same texts, and no other. Some live longer then, in both stores."""
        if self.domain == DOMAINS[1]:
            self.told.append('at last')
            for one, _ in self.revs:
                self.hear(self.rng.choice(self.world.shared), ('GET', self.path('title', one), NO_CACHE, None))
        self.given = self.texts(self.world.alone)
        self.same_texts(lambda name, answer: answer == self.given[name])
        self.same(self.world.shared)

    def read_without_wiki(self):
        self.same_texts(lambda name, answer: answer[0] != 200 or answer == self.given[name])

    def same_texts(self, is_fine):
        for server in self.world.shared:
            for name, answer in self.texts(server).items():
                if not is_fine(name, answer):
                    self.fail(f'server {self.world.shared.index(server)}, {name}: alone {self.given[name]}, shared {answer}')

    def texts(self, server):
        answers = {(rev, tid): server.request('GET', self.path('html', rev, tid)) for rev, tid, _, _ in self.names}
        return {name: (one.status, one.body if one.status == 200 else kind_of(one)) for name, one in answers.items()}

    def fail(self, why):
        print('\n'.join(self.told))
        raise SceneError(f'{self.name} at {text_of(self.world.now)}: {why}')


def kind_of(answer):
    """Of a problem."""
    return json.loads(answer.body)['type']


def listing(server, domain):
    names, first = [], f'/{domain}/v1/page/title/'
    page = first
    while page:
        answer = server.json('GET', page)
        eq(answer.status, 200, answer.body)
        names += answer.body['items']
        link = answer.body.get('_links', {}).get('next', {}).get('href')
        page = first + link if link else None
    return names


def play(world, turn_at, turn, until, stored, sites=None, harm=None):
    """A history of STEPS steps, or fewer when it is later than until. turn: called once when the clock is at turn_at. sites: groups of
    servers that see each other's writes late: a title is written in one of them for a step, and rests until the others say the
    same. stored: says how many renders the cluster has bytes of. harm: called behind each step."""
    rng, sites = world.rng, sites or [world.shared]
    titles = [Title(world, f'T{n}', random.Random(rng.random()), told=n > TITLES) for n in range(1, TITLES + TOLD + 1)]
    for step in range(STEPS):
        if step >= STEPS_MIN and time.monotonic() > until:
            print(f'   late: {step} of {STEPS} steps', flush=True)
            break
        groups = [rng.choice(sites) for _ in titles]
        list(world.pool.map(lambda pair: pair[0].step(pair[1]), zip(titles, groups)))
        if len(sites) > 1 or step % 6 == 5:
            list(world.pool.map(lambda title: title.same(world.shared), titles))
        if harm:
            harm(step)
        world.passes(world.next_pass(turn_at))
        if world.now == turn_at:
            turn()
            turn_at = None
    if turn_at is not None:
        world.passes(turn_at - world.now)
        turn()
    world.passes(world.minute + MINUTE - world.now)
    before = stored()
    for seconds in (0, 3 * 3600, 26 * 3600):    # traces are over then
        world.passes(seconds)
        list(world.pool.map(lambda title: title.same(world.shared), titles))
        for domain in DOMAINS:
            want = listing(world.alone, domain)
            for server in world.shared:
                wait_until(lambda server=server, want=want, domain=domain: listing(server, domain) == want,
                           f'{domain} lists {want}', timeout=EQUAL_S, pause=0.3)
        if seconds == 0:
            list(world.pool.map(Title.read_all, titles))
            for kind in ('siteinfo', 'meta', 'words', 'revisions', 'plain', 'probe'):
                world.origin.fault(kind, cut_at_once)
            list(world.pool.map(Title.read_without_wiki, titles))

    def is_culled():
        world.passes(LOOK_S)
        return stored() < before
    wait_until(is_culled, 'upkeep deletes bytes', timeout=CULLED_S, pause=1)
    world.passes(world.minute + MINUTE - world.now)
    list(world.pool.map(lambda title: title.same(world.shared), titles))
    return sum(len(title.told) for title in titles)


def check_no_broken(world):
    for server in world.shared:
        check('invariant' not in server.stderr(), server.stderr()[-2000:])
