"""Goal: whatever breaks around a wiki, in the end every page is as the wiki has it, and what was hidden is given by nobody.
Method: a real MediaWiki of 200 pages behind two servers that share a Redis and have stored all of them; what breaks is the
Redis, each server (kill -9), one event in a hundred, and the wiki itself. FAULTS_SEED chooses what changes.
script/test faults runs it; it takes about ten minutes, most of them Parsoid's."""
import concurrent.futures
import contextlib
import http.client
import os
import random
import re
import signal
import time

import rig
from rig import TIME_UUID, Pair, scene
from harness import SceneError, check, eq, main, wait_until
from wiki import DOMAIN

rig.PAGES = int(os.environ.get('WIKI_PAGES', '200'))
SEED = int(os.environ.get('FAULTS_SEED', '1'))
EVENTS = 100
SWEEP = 20                  # seconds: of a lap, and a title has its turn within two
OUTAGE = 60                 # seconds: of a wiki that is asked after 1 s, not 60 s, as much as an hour
PAUSE = 30                  # a wiki that failed is left alone for so long at most (page/check.h)
BUSY = 60                   # a busy machine makes what changed, and answers for all pages, in this time
GONE = (403, 404, 410)


class Broken(Pair):
    """Two servers that have stored all pages of the wiki."""

    def __init__(self, binary, **origin):
        super().__init__(binary, test_hooks=True, **origin)
        self.hidden = []                # (title, revision) that nobody may see any more
        self.old = None                 # a revision that everybody may see
        self.pool = concurrent.futures.ThreadPoolExecutor(4)

    def __exit__(self, kind, value, trace):
        with contextlib.ExitStack() as ends:
            ends.callback(super().__exit__, kind, value, trace)
            ends.callback(self.wiki.up)     # other scenes want it
            ends.callback(self.pool.shutdown)

    def event(self, stream, title, **members):
        """As EventBus would tell both servers. One that is down hears nothing."""
        body = {'meta': {'stream': f'mediawiki.{stream}', 'domain': DOMAIN}, 'page_title': title, **members}
        for server in self.servers:
            with contextlib.suppress(OSError, http.client.HTTPException):
                eq(server.json('POST', '/v1/events', body=body).status, 201)

    def everywhere(self, titles):
        """{title: both servers' answers}."""
        return dict(zip(titles, self.pool.map(lambda title: self.read(title, query='?redirect=false'), titles)))

    def stored(self):
        """All pages are, at both; their titles."""
        titles = self.wiki.titles()
        check(len(titles) >= rig.PAGES, f'{len(titles)} pages')
        eq({title: [a.status for a in answers] for title, answers in self.everywhere(titles).items()
            if any(a.status != 200 for a in answers)}, {}, 'not stored')
        return titles

    def wait_all_true(self, gone, within):
        """Every page of the wiki and every one that is gone, at both servers, and nothing hidden by its number."""
        titles = self.wiki.titles()
        revs = [self.wiki.revision(title) for title in titles]      # over one connection
        truths = dict(zip(titles, self.pool.map(self.wiki.parsoid, titles, revs)))
        began, wrong = time.monotonic(), {}

        def is_true(title, answer):
            if title not in truths:
                return answer.status in GONE
            return answer.status == 200 and TIME_UUID.sub('', answer.body.decode()) == truths[title]['html']['body']

        def all_true():
            wrong.clear()
            for title, answers in self.everywhere([*titles, *(set(gone) - set(titles))]).items():
                for n, answer in enumerate(answers):
                    if not is_true(title, answer):
                        wrong[title] = (n, answer.status, answer.headers['ETag'], answer.headers['Cache-Status'])
            return not wrong
        try:
            wait_until(all_true, 'every page is as the wiki has it', timeout=within, pause=0.5)
        except SceneError as failure:
            raise SceneError(f'{failure}: seed {SEED}: {len(wrong)} of {len(titles)}: {dict(list(wrong.items())[:9])}') from None
        print(f'{len(titles)} pages are right at both servers after {time.monotonic() - began:.0f} s', flush=True)
        self.nothing_hidden()

    def nothing_hidden(self):
        for title, rev in self.hidden:
            for answer in self.read(title, rev=rev):
                check(answer.status in GONE, f'{title}/{rev} is hidden: {answer.status}')

    def found_by_sweeps(self):
        """Changes that nobody told of, at each server."""
        return [int(re.search(r'^palimpsest_sweep_found_total\{[^}]*\} (\d+)', server.request('GET', '/metrics').body.decode(),
                              re.M)[1]) for server in self.servers]


class Changes:
    """Of pages made for them, of a kind by draw. lost: a page that none of them changes."""

    def __init__(self, broken, draw):
        self.broken, self.draw, run = broken, draw, time.time_ns()
        self.titles = [f'Changes_{run}_{n}' for n in range(20)]
        self.there = dict.fromkeys(self.titles, True)
        self.template, self.user = f'Template:Changes_{run}', f'Uses_{run}'
        self.lost = f'Lost_{run}'
        broken.wiki.edit(self.template, 'first template')
        for title in (*self.titles, self.lost):
            broken.wiki.edit(title, f'first text of {title}')
        broken.wiki.edit(self.user, '{{Changes_%d}}' % run)

    def make(self, n):
        title = self.draw.choice(self.titles)
        if not self.there[title]:
            return self.draw.choice((self.undelete, self.edit))(title, n)
        return self.draw.choices((self.edit, self.hide, self.delete, self.edit_template), (12, 2, 3, 3))[0](title, n)

    def edit(self, title, n):
        rev = self.broken.wiki.edit(title, f'edit {n}')
        self.there[title] = True
        return 'revision-create', title, {'rev_id': rev}

    def edit_template(self, _, n):
        rev = self.broken.wiki.edit(self.template, f'template {n}')
        return 'revision-create', self.template, {'rev_id': rev}

    def delete(self, title, _):
        self.broken.do(action='delete', title=title, reason='test')
        self.there[title] = False
        return 'page-delete', title, {}

    def undelete(self, title, _):
        self.broken.do(action='undelete', title=title, reason='test')
        self.there[title] = True
        return 'page-undelete', title, {}

    def hide(self, title, n):
        rev = self.broken.wiki.revision(title)
        self.broken.read(title, rev=rev)
        self.edit(title, n)
        self.broken.do(action='revisiondelete', type='revision', ids=rev, hide='content', reason='test')
        self.broken.hidden.append((title, rev))
        return 'revision-visibility-change', title, {'rev_id': rev}


@scene
def whatever_is_lost_every_page_is_as_the_wiki_has_it_in_the_end(binary):
    """Redis goes, and comes back empty; each server is killed once; of a hundred events the last but one is lost. What was
    asked counts for an hour here: what no event tells is for the sweep to find."""
    draw = random.Random(SEED)
    print(f'FAULTS_SEED={SEED}', flush=True)
    with Broken(binary, trust_ttl='1h', trust_max='1h', sweep_period=f'{SWEEP}s') as broken:
        changes = Changes(broken, draw)
        broken.stored()
        redis = {20: broken.redis.end, 60: broken.redis.start}
        killed = {30: broken.servers[0], 70: broken.servers[1]}
        for n in range(EVENTS):
            if n == EVENTS - 2:
                broken.everywhere([changes.lost])       # all trust it from here on
                broken.wiki.edit(changes.lost, 'told to nobody')
                continue
            stream, title, members = changes.make(n)
            reads = [broken.pool.submit(broken.read, title) for title in draw.sample(changes.titles, 8)]    # under way then
            if n in redis:
                redis[n]()
            if n in killed:
                killed[n].signal(signal.SIGKILL)
            broken.event(stream, title, **members)
            for read in reads:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    read.result()
            if n in killed:
                eq(killed[n].wait_exit(), -signal.SIGKILL)
                killed[n].start()
        print('it has all happened', flush=True)
        broken.wait_all_true([*changes.titles, changes.lost], 2 * SWEEP + BUSY)
        found = broken.found_by_sweeps()
        check(min(found) > 0, f'what was lost, found by sweeps: {found}')


def asked_while_it_is_away(broken, titles, changed):
    """Both give what is stored, and say that nobody could be asked; by its number they give nothing, nor what is new."""
    wrong = {}

    def unchecked():
        wrong.clear()
        for title, answers in broken.everywhere(titles).items():
            said = [(answer.status, answer.headers['Cache-Status'] or '') for answer in answers]
            if any(status != 200 or 'detail=unchecked' not in how for status, how in said):
                wrong[title] = said
        return not wrong
    try:
        wait_until(unchecked, 'all that is stored is given, unchecked', timeout=BUSY)
    except SceneError as failure:
        raise SceneError(f'{failure}: {dict(list(wrong.items())[:9])}') from None
    eq([answer.status for answer in broken.read(changed, rev=broken.old)], [503, 503], 'by its number')
    for answer in broken.read('Nobody_read_this_before'):
        check(answer.status in (502, 503, 504) and answer.headers['Retry-After'], answer.status)


@scene
def a_wiki_that_is_away_for_a_minute_and_an_hour_is_as_it_was_and_then_as_it_is(binary):
    """php-fpm goes first, and nginx answers 502; then nginx, too. The bounds here are some sixtieth of the usual ones; then
    the servers' clocks go on by an hour more."""
    with Broken(binary) as broken:
        wiki, run = broken.wiki, time.time_ns()
        names = {name: f'{name}_{run}' for name in ('Changed', 'Edited', 'Deleted', 'Hidden')}
        broken.old = wiki.edit(names['Changed'], 'first text')
        hidden = wiki.edit(names['Hidden'], 'a secret')
        for title in names.values():
            wiki.edit(title, f'second text of {title}')
        titles, base = broken.stored(), wiki.base
        for title, rev in ((names['Changed'], broken.old), (names['Hidden'], hidden)):
            eq([answer.status for answer in broken.read(title, rev=rev)], [200, 200])
        began = time.monotonic()
        os.kill(wiki.pid('php-fpm'), signal.SIGTERM)
        wait_until(lambda: wiki.pid('php-fpm') is None, 'php-fpm has ended')
        asked_while_it_is_away(broken, titles, names['Changed'])
        wiki.down()
        asked_while_it_is_away(broken, titles, names['Changed'])
        wait_until(lambda: time.monotonic() > began + OUTAGE, 'a minute', timeout=2 * OUTAGE, pause=0.5)
        asked_while_it_is_away(broken, titles, names['Changed'])
        for server in broken.servers:
            server.clock(advance='1h')
        asked_while_it_is_away(broken, titles, names['Changed'])
        wiki.up()
        eq(wiki.base, base)
        wiki.edit(names['Edited'], 'after the outage')
        broken.do(action='delete', title=names['Deleted'], reason='test')
        broken.do(action='revisiondelete', type='revision', ids=hidden, hide='content', reason='test')
        broken.hidden.append((names['Hidden'], hidden))
        broken.wait_all_true(names.values(), PAUSE + BUSY)
        eq([answer.status for answer in broken.read(names['Changed'], rev=broken.old)], [200, 200], 'by its number again')


main()
