"""Goal: whatever happens at a wiki, to what it says, and to servers, in the end every server has every page as the wiki
has it, and gives nothing hidden. Method: two servers that share a Redis; a scripted wiki of 40 pages that changes at random,
lies, lags, refuses and falls silent; purges that come late, twice, or not at all; kill -9. FRESH_SEED chooses what happens,
FRESH_STEPS how much of it; both are printed."""
import collections
import contextlib
import json
import os
import random
import signal
import threading
import time

from change_help import LISTEN, purge
from harness import check, main, scene, wait_until
from list_help import Cluster
from origin import Origin, Revision, cut, once, status_of
from page_help import path

STEPS = int(os.environ.get('FRESH_STEPS', '300'))
TITLES = [f'P{n}' for n in range(40)]
TRUST_MAX = 0.6     # seconds, as below
OPTIONS = {'trust_ttl': '300ms', 'trust_max': '600ms', 'check_wait': '500ms', 'retries': 0, 'concurrency': 4, 'timeout': '2s'}
FAULTS = (status_of(503), status_of(500), status_of(429, retry_after='1'), status_of(403), status_of(414), cut,
          lambda handler, status, headers, body: handler.answer(200, headers, b'{"error": {"code": "maxlag", "lag": 9}}'),
          lambda handler, status, headers, body: handler.answer(200, headers, b'{"batchcomplete": true, "query": {"pages": []}}'))
GONE = (403, 404, 410)


class Wiki(Origin):
    """Its pages are touched when they or what they use change, by its own clock of whole seconds."""

    def __init__(self, draw):
        super().__init__()
        self.draw, self.next_rev, self.next_id = draw, 0, 5000
        self.stamps, self.deleted, self.hidden, self.old = collections.Counter(), {}, set(), []

    def html(self, title, rev, text):
        return super().html(title, rev, f'{text} template {self.stamps[title]}')

    def touch(self, title):
        self.touched[title] = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())

    def new_rev(self):
        self.next_rev += 1
        return self.next_rev

    def make(self, title):
        self.next_id += 1
        self.ids[title] = self.next_id
        self.page(title, (self.new_rev(), f'life {self.next_id}'))
        self.touch(title)

    # ---- what happens

    def edit(self, title):
        if title in self.pages:
            rev = self.new_rev()
            with self._lock:
                self.pages[title] = [*self.pages[title], Revision(rev, f'text {rev}', False)]
            self.touch(title)

    def edit_template(self, title):
        self.stamps[title] += 1
        self.touch(title)

    def remove(self, title):
        if title in self.pages:
            self.deleted[title] = (self.pages[title], self.ids[title])
            self.delete(title)

    def bring_back(self, title):
        if title in self.pages:
            return
        if title in self.deleted and self.draw.random() < 0.5:
            with self._lock:
                self.pages[title], self.ids[title] = self.deleted.pop(title)
            self.touch(title)
        else:
            for revision in self.deleted.pop(title, ([],))[0]:
                self.old.append((title, revision.rev))
            self.make(title)

    def hide_one(self, title):
        revisions = self.pages.get(title, [])
        if len(revisions) > 1:
            rev = self.draw.choice(revisions[:-1]).rev
            self.hide(title, rev)
            self.hidden.add(rev)
            self.touch(title)

    def move(self, title):
        to = self.draw.choice(TITLES)
        if title in self.pages and to not in self.pages:
            with self._lock:
                self.pages[to], self.ids[to] = self.pages.pop(title), self.ids.pop(title)
            self.deleted.pop(to, None)
            self.touch(to)


CHANGES = ((Wiki.edit, 8), (Wiki.edit_template, 8), (Wiki.remove, 3), (Wiki.bring_back, 5), (Wiki.hide_one, 4), (Wiki.move, 2))


class Readers:
    """Read and edit all the time, whatever they get."""

    def __init__(self, cluster, seed):
        self.cluster, self.over = cluster, False
        self.threads = [threading.Thread(target=self.run, args=(random.Random(f'{seed} {n}'),), daemon=True) for n in range(4)]
        for thread in self.threads:
            thread.start()

    def run(self, draw):
        while not self.over:
            title, query = draw.choice(TITLES), draw.choice(('', '', '', '?stash=true', '/%d' % draw.randrange(1, 200)))
            with contextlib.suppress(OSError):
                draw.choice(self.cluster.servers).request('GET', path('html', title) + query,
                                                          draw.choice(({}, {}, {'Cache-Control': 'no-cache'})), timeout=10)

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join()


def happens(wiki, cluster, draw):
    """One step: something changes, and somebody may be told; or something breaks."""
    change = draw.choices([c for c, _ in CHANGES], [w for _, w in CHANGES])[0]
    title = draw.choice(TITLES)
    change(wiki, title)
    server = draw.choice(cluster.servers)
    for _ in range(draw.choices((0, 1, 2), (3, 5, 2))[0]):
        told = title if draw.random() < 0.8 else draw.choice((*TITLES, 'Unknown', 'P0/../P1', '%00'))
        with contextlib.suppress(OSError):
            purge(server, f'http://wiki.test/wiki/{told}')
    if draw.random() < 0.1:
        wiki.fault(draw.choice(('words', 'revisions', 'meta', 'render')), draw.choice((None, None, once(draw.choice(FAULTS)),
                                                                                      draw.choice(FAULTS))))
    if draw.random() < 0.02:
        cluster.redis('CLIENT', 'KILL', 'TYPE', 'pubsub')
    if draw.random() < 0.02:
        server.process.send_signal(signal.SIGKILL)
        server.wait_exit()
        server.start()


def differs(wiki, server):
    """The titles of which this server gives anything but what the wiki has."""
    wrong = {}
    for title in TITLES:
        answer = server.request('GET', path('html', title))
        if title not in wiki.pages:
            fine = answer.status in GONE
        else:
            newest = wiki.pages[title][-1]
            fine = answer.status == 200 and f'>{newest.text} template {wiki.stamps[title]}<'.encode() in answer.body
        if not fine:
            wrong[title] = (answer.status, answer.headers['Cache-Status'], answer.headers['ETag'], answer.body[-120:])
    return wrong


def shows_hidden(wiki, server):
    """Revisions that are hidden, or of a life that is over, and that this server gives by number."""
    asked = [(title, r.rev) for title, revisions in wiki.pages.items() for r in revisions if r.hidden] + wiki.old
    asked += [(title, r.rev) for title, (revisions, _) in wiki.deleted.items() for r in revisions]
    return [(title, rev) for title, rev in asked if (wiki.owner(rev) != title or wiki.find(title, rev).hidden)
            and server.request('GET', path('html', title, rev)).status not in GONE]


@scene
def in_the_end_everything_is_as_the_wiki_has_it(binary):
    seed = int(os.environ.get('FRESH_SEED', '0')) or random.SystemRandom().randrange(1, 1 << 32)
    draw = random.Random(seed)
    rerender = draw.choice(('on_read', 'at_once', 'paced'))
    print(f'FRESH_SEED={seed} FRESH_STEPS={STEPS} rerender={rerender}', flush=True)
    with Wiki(draw) as wiki:
        for title in TITLES:
            wiki.make(title)
        with Cluster(binary, 2, *LISTEN, *wiki.options('localhost', hosts='wiki.test', rerender=rerender, rerender_rate=20,
                                                           **OPTIONS)) as cluster:
            readers = Readers(cluster, seed)
            for _ in range(STEPS):
                happens(wiki, cluster, draw)
                time.sleep(draw.random() * 0.02)    # things happen in time: this is their pace, and waits for nothing
            readers.end()
            for kind in ('words', 'revisions', 'meta', 'render'):
                wiki.fault(kind, None)
            for server in cluster.servers:
                last = []

                def is_right(server=server, last=last):
                    last[:] = [differs(wiki, server), shows_hidden(wiki, server)]
                    return not any(last)
                try:
                    wait_until(is_right, 'all is as the wiki has it', timeout=90, pause=0.5)
                except AssertionError as failure:
                    check(False, f'{failure}: seed {seed}: {json.dumps(last, default=str)[:3000]}')


main()
