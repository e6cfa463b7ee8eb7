"""Goal: what one server with a store of its own says of random histories, any of four servers on Cassandra says.
Method: the same requests go to one server on its data directory and, through haproxy without stickiness, to four on one
keyspace, on clocks that stand still: puts in any order, puts again, stashes, reads that extend lives, purges, and time that
passes. All answers are compared, and what is told of each title at the end. MODEL_SEED and MODEL_HISTORIES choose them;
SCENE_CASSANDRA names a node that runs already."""
import contextlib
import json
import os
import random
import time

import rig
from rig import check, eq, main, scene

from page_help import DAY, page_server, path, tid
import shared_store

SERVERS, TITLES, REVS, STEPS = 4, 3, 6, 50
HISTORIES = int(os.environ.get('MODEL_HISTORIES', '12'))
SEED = int(os.environ.get('MODEL_SEED', time.time_ns() % 10**9))
POLICY = ('--set', 'page.grace_ttl=1d', '--set', 'page.stash_ttl=1d')
PASSES_S = (1, 1, 1, 60, 3600, 5 * 3600, DAY + 1, 3 * DAY)
# What both say of a render of a title; when a row was written is of the store.
TOLD = ('rev', 'tid', 'state', 'superseded_at', 'due_at')


@contextlib.contextmanager
def on_its_own():
    """Servers that start here have a store of their own."""
    kept = {name: os.environ.pop(name) for name in ('SCENE_CASSANDRA', 'SCENE_SERVERS')}
    try:
        yield
    finally:
        os.environ.update(kept)


class History:
    """One random history: the same steps for both, whatever they answer."""

    def __init__(self, dice, prefix, servers):
        self.dice, self.servers = dice, servers
        self.titles = [f'{prefix}T{n}' for n in range(TITLES)]
        self.now, self.puts, self.log = 0.0, [], []

    def ask(self, method, where, headers=None, body=None):
        one, many = (server.request(method, where, headers, body) for server in self.servers)
        self.log.append(f'{method} {where} {body!r:.40}: {one.status}, {many.status}')
        eq((many.status, self.says(many)), (one.status, self.says(one)), '; '.join(self.log[-12:]))

    @staticmethod
    def says(answer):
        if answer.headers['Content-Type'] == 'application/problem+json':
            return json.loads(answer.body)['type'].rpartition('/')[2]
        return answer.headers['ETag'], answer.body

    def pass_time(self):
        seconds = self.dice.choice(PASSES_S)
        self.now += seconds
        for server in self.servers:
            server.clock(advance=f'{seconds}s')
        self.log.append(f'{seconds} s pass')

    def some_name(self):
        """(title, rev, tid), of a render that was put, mostly."""
        if self.puts and self.dice.random() < 0.8:
            return self.dice.choice(self.puts)[:3]
        return self.dice.choice(self.titles), self.dice.randint(1, REVS), tid(self.now, 7)

    def put(self):
        if self.puts and self.dice.random() < 0.15:
            title, rev, name, body = self.dice.choice(self.puts)
        else:
            title, rev = self.dice.choice(self.titles), self.dice.randint(1, REVS)
            name = tid(self.now - self.dice.choice((0, 0, 0, 30, 1800)), len(self.puts) + 1)
            body = f'<p>{self.dice.randint(0, 4)}</p>'.encode()
        self.puts.append((title, rev, name, body))
        stash = '?stash=true' if self.dice.random() < 0.2 else ''
        self.ask('PUT', path('html', title, rev, name) + stash, {'Content-Type': 'text/html'}, body)

    def read(self):
        title, rev, name = self.some_name()
        where = self.dice.choice(((title,), (title, rev), (title, rev, name)))
        self.ask('GET', path('html', *where))

    def purge(self):
        title, rev, name = self.some_name()
        where = self.dice.choice(((title,), (title, rev), (title, rev), (title, rev, name)))
        self.ask('DELETE', path('all', *where))

    def run(self):
        for _ in range(STEPS):
            self.pass_time()
            self.dice.choices((self.put, self.read, self.purge), (5, 5, 1))[0]()
        for title in self.titles:
            self.ask('GET', path('html', title))
            eq(*reversed([self.told(server, path('history', title)) for server in self.servers]),
               f'history of {title}: {"; ".join(self.log[-20:])}')
        for title, rev, _, _ in self.puts[-3:]:
            eq(*reversed([self.told(server, path('explain', title, rev)) for server in self.servers]), f'explain {title} {rev}')

    @staticmethod
    def told(server, where):
        answer = server.json('GET', where)
        items = answer.body.get('items', [answer.body])
        return answer.status, [{name: item.get(name) for name in TOLD} for item in items]


@scene
def four_servers_on_cassandra_are_as_one_server(binary):
    if shared_store.place() is None:
        cluster = rig.node()
        os.environ['SCENE_CASSANDRA'] = f'{cluster.address(1)}:{cluster.port}/{cluster.datacentre(1)}'
    os.environ['SCENE_SERVERS'] = str(SERVERS)
    print(f'   MODEL_SEED={SEED}', flush=True)
    with on_its_own():
        one = page_server(binary, *POLICY)
    with one, page_server(binary, *POLICY) as many:
        for number in range(HISTORIES):
            try:
                History(random.Random(f'{SEED} {number}'), f'H{number}', (one, many)).run()
            except Exception:
                print(f'   history {number} of MODEL_SEED={SEED}', flush=True)
                raise
    check(HISTORIES > 0, 'nothing was compared')


main()
