"""Goal: a wiki whose database has a copy that is behind costs its lag and no more: nothing newer is taken back, nothing that
is gone or hidden comes back, and in the end every page is as the wiki has it. Method: a real MediaWiki on MariaDB with a
delayed replica, which answers the servers; two servers with one Redis; changes, PURGEs and events that come before the
replica has them; the primary is the truth. script/test lag runs it; it takes about ten minutes."""
import atexit
import calendar
import contextlib
import http.client
import json
import os
import pathlib
import re
import tempfile
import threading
import time
import urllib.parse
import urllib.request

from rig import BASE, TIME_UUID, scene
from harness import Server, check, eq, main, wait_until
from list_help import Redis
from mariadb import MariaDB
from wiki import DOMAIN, ORIGIN_DOMAIN, Wiki, quote

PAGES = int(os.environ.get('WIKI_PAGES', '200'))
TRUST_TTL, TRUST_MAX = 1, 2     # seconds
RESTS = 36                      # a word that lags is asked for again for so long (page/check.h)
SETTLE = 3                      # title/word.h
BUSY = 30                       # a busy machine's wiki makes a page in this time
PURGED = '$wgUseCdn = true; $wgCdnMaxAge = 0; $wgCdnServers = [ %s ];'
GONE = (403, 404, 410)
_wiki, _truths = [], {}


def lagging_wiki():
    """The one wiki of this process, running; WIKI_DIR is where it stays."""
    if not _wiki:
        kept = os.environ.get('WIKI_DIR')
        folder = pathlib.Path(kept or tempfile.mkdtemp(prefix='wiki-'))
        wiki = Wiki(folder, MariaDB(folder / 'db'))
        atexit.register(wiki.down if kept else wiki.remove)
        _wiki.append(wiki.up(PAGES))
    return _wiki[0]


class Lagging:
    """Two servers with one Redis, purged by the wiki, which answers them from what `reads` says."""

    def __init__(self, binary, lag, reads, known, told=True, envs=(None, None), **origin):
        self.wiki = lagging_wiki()
        self.lag, self.database = lag, self.wiki.database
        self.redis = Redis()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='lag-', dir=self.wiki / 'tmp'))
        origin = {'kind': 'parsoid', 'url': f'{self.wiki.base}/w/rest.php', 'domain': ORIGIN_DOMAIN, 'trust_ttl': f'{TRUST_TTL}s',
                  'trust_max': f'{TRUST_MAX}s', 'check_wait': '5s', **origin}
        (self.folder / 'server.yaml').write_text(json.dumps({'domains': {DOMAIN: {'origin': origin}},
                                                            'change': {'purge_listen': '127.0.0.1:0'}}))
        self.servers = [Server(binary, '--config', self.folder / 'server.yaml', '--set', 'flight.error_base=100ms',
                               '--set', f'redis.url=redis://127.0.0.1:{self.redis.port}', env=envs[n], test_hooks=True) for n in range(2)]
        self.setting = self.wiki / 'settings.d/lag.php'
        self.tell(told)
        self.database.delay(0)
        self.database.caught_up()
        self.database.delay(lag)
        self.database.knows_lag(known)
        self.database.reads(reads)
        self.admin = self.wiki.log_in()
        self.unchanged = set(self.wiki.titles())    # no scene changes a page that another one made

    def tell(self, told):
        """Does the wiki purge pages at the servers from here on?"""
        at = [server.wait_line('purge on ').removeprefix('http://') for server in self.servers] if told else []
        rights = ''.join(f"$wgGroupPermissions['sysop']['{right}'] = true;" for right in ('suppressrevision', 'suppressredirect'))
        self.setting.write_text(f'<?php {rights}' + PURGED % ', '.join(f"'{one}'" for one in at))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.wiki.up()      # a scene may have left it down
        self.setting.unlink()
        self.database.reads('primary')
        self.database.delay(0)
        for server in self.servers:
            server.__exit__(kind, value, trace)
        self.redis.end()

    def do(self, **parameters):
        return self.admin.call(token=self.admin.token, **parameters)

    def event(self, stream, title, **members):
        """As EventBus would tell both servers."""
        now = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())
        body = {'$schema': f'/{stream}/1.0.0', 'meta': {'stream': f'mediawiki.{stream}', 'domain': DOMAIN, 'dt': now,
                                                       'id': '4f533261-e5f8-11f1-bc4a-ad5383df5814'},
                'page_title': title, **members}
        for server in self.servers:
            eq(server.json('POST', '/v1/events', body=body).status, 201)

    def get(self, server, title, rev=None, content='html', query='?redirect=false', headers=None):
        where = quote(title) + (f'/{rev}' if rev else '')
        return server.request('GET', f'{BASE}/page/{content}/{where}{query}', headers)

    def truth(self, title):
        """What the primary has: None, or (revision, Parsoid's document of it)."""
        rev = self.wiki.revision(title)
        return None if rev is None else (rev, self.wiki.parsoid(title, rev)['html']['body'])


def rev_of(answer):
    return int(re.match(r'(?:W/)?"(\d+)/', answer.headers['ETag'])[1]) if answer.status == 200 else 0


def is_true(answer, truth):
    if truth is None:
        return answer.status in GONE
    return answer.status == 200 and TIME_UUID.sub('', answer.body.decode()) == truth[1]


class Watched:
    """One title at both servers, from a change of it on: when it was right, and whether it went back since."""

    def __init__(self, lagging, what, title, rev=None):
        self.lagging, self.what, self.title, self.rev = lagging, what, title, rev
        self.began, self.truth = time.monotonic(), None if rev else lagging.truth(title)
        self.right, self.back, self.last = [None, None], [], [None, None]

    def look(self):
        for n, server in enumerate(self.lagging.servers):
            if server.process is None:      # a scene killed it
                continue
            try:
                answer = self.lagging.get(server, self.title, self.rev)
            except (OSError, http.client.HTTPException):
                continue
            right = is_true(answer, self.truth)
            self.last[n] = (answer.status, answer.headers['ETag'], answer.headers['Cache-Status'])
            if right and self.right[n] is None:
                self.right[n] = time.monotonic() - self.began
            elif not right and self.right[n] is not None and answer.status not in (502, 503, 504):
                self.back.append((n, round(time.monotonic() - self.began, 1), self.last[n]))
        return None not in self.right


class Watch:
    """Looks at each that it is given, over and over: who waits keeps no other one waiting."""

    def __init__(self):
        self.watched, self.threads, self.over, self.failure = [], [], False, None

    def add(self, one):
        self.watched.append(one)
        self.threads.append(threading.Thread(target=self._run, args=(one,), daemon=True))
        self.threads[-1].start()

    def _run(self, one):
        try:
            while not self.over:
                one.look()
                time.sleep(0.3)     # the pace of readers, and waits for nothing
        except Exception as failure:    # pylint: disable=broad-except
            self.failure = failure

    def end(self, seconds):
        """All are right within that, and none goes back for as long as it lasts; prints the table."""
        began = time.monotonic()
        wait_until(lambda: self.failure or time.monotonic() > began + seconds, 'time goes by', timeout=2 * seconds, pause=0.5)
        self.over = True
        for thread in self.threads:
            thread.join()
        if self.failure:
            raise self.failure
        tell(self.watched)


def tell(watched):
    for one in watched:
        took = [None if right is None else round(right, 1) for right in one.right]
        print(f'| {one.what} | {took[0]} | {took[1]} |', flush=True)
    eq([(one.what, one.last) for one in watched if None in one.right], [], 'not right in time')
    eq([(one.what, one.back) for one in watched if one.back], [], 'taken back')


def anybody(wiki, title):
    """What prop=info tells who does not ask the primary."""
    query = urllib.parse.urlencode({'action': 'query', 'prop': 'info', 'titles': title, 'format': 'json', 'formatversion': 2})
    with urllib.request.urlopen(f'{wiki.base}/w/api.php?{query}') as answer:
        return json.loads(answer.read())['query']['pages'][0].get('lastrevid')


@scene
def what_anybody_is_told_is_as_late_as_the_replica(binary):
    """That the wiki of these scenes is what it is for."""
    wiki, title = lagging_wiki(), f'Late_{time.time_ns()}'
    database = wiki.database
    first = wiki.edit(title, 'first')
    database.caught_up()
    database.reads('replica')
    database.delay(5)
    began, second = time.monotonic(), wiki.edit(title, 'second')
    eq((wiki.revision(title), anybody(wiki, title)), (second, first))
    wait_until(lambda: anybody(wiki, title) == second, 'the replica has it')
    took = time.monotonic() - began
    print(f'the replica had it after {took:.1f} s', flush=True)
    check(4 < took, took)
    database.reads('primary')
    database.delay(0)


def make_changes(lagging, watch):
    """One of each kind, told by PURGE, some by an event, too; all are watched."""
    wiki, do, run = lagging.wiki, lagging.do, time.time_ns()
    names = ('Edited', 'Edited, event', 'Template user', 'Deleted', 'Deleted, event', 'Undeleted', 'Made anew', 'Moved', 'Hidden',
             'Suppressed', 'Not changed')
    t = {name: f'{name} {run}'.replace(' ', '_').replace(',', '') for name in names}
    second = {'reason': 'test'}
    lagging.database.delay(0)
    wiki.edit(f'Template:Lag_{run}', 'first template')
    for name in names:
        wiki.edit(t[name], '{{Lag_%d}}' % run if name == 'Template user' else f'First text of {name}.')
    hidden = {}
    for name in ('Hidden', 'Suppressed'):
        hidden[name] = wiki.revision(t[name])
        wiki.edit(t[name], 'Clean text.')
    do(action='delete', title=t['Undeleted'], **second)
    lagging.database.caught_up()
    lagging.database.delay(lagging.lag)
    began = time.time()
    wait_until(lambda: time.time() > began + SETTLE + 1, 'the wiki has come to rest')
    for server in lagging.servers:
        for _ in range(2):
            for name in names:
                lagging.get(server, t[name])
            for name in hidden:
                eq(lagging.get(server, t[name], hidden[name]).status, 200)
    watch.add(Watched(lagging, 'a page that does not change', t['Not changed']))

    def then(what, name, rev=None):
        watch.add(Watched(lagging, what, t[name], rev))
    wiki.edit(t['Edited'], 'Second text.')
    then('edited, PURGE', 'Edited')
    rev = wiki.edit(t['Edited, event'], 'Second text.')
    lagging.event('revision-create', t['Edited, event'], rev_id=rev)
    then('edited, event', 'Edited, event')
    wiki.edit(f'Template:Lag_{run}', 'second template')
    then('template edited', 'Template user')
    do(action='delete', title=t['Deleted'], **second)
    then('deleted, PURGE', 'Deleted')
    do(action='delete', title=t['Deleted, event'], **second)
    lagging.event('page-delete', t['Deleted, event'])
    then('deleted, event', 'Deleted, event')
    do(action='undelete', title=t['Undeleted'], **second)
    then('undeleted', 'Undeleted')
    do(action='delete', title=t['Made anew'], **second)
    wiki.edit(t['Made anew'], 'Another life.')
    then('deleted, made anew', 'Made anew')
    do(action='move', noredirect=1, **{'from': t['Moved'], 'to': t['Moved'] + '_to'}, **second)
    then('moved without a redirect', 'Moved')
    t['New'] = t['Moved'] + '_to'
    then('where it was moved to', 'New')
    for name, how in (('Hidden', {}), ('Suppressed', {'suppress': 'yes'})):
        do(action='revisiondelete', type='revision', ids=hidden[name], hide='content', **how)
        then(f'text {name.lower()}, by its number', name, hidden[name])
    t['Made'] = f'Made_{run}'
    wiki.edit(t['Made'], 'Made now.')
    then('page made', 'Made')


def all_as_the_wiki_has_it(lagging):
    """Every page of it, at both servers."""
    lagging.database.caught_up()
    titles, wrong = lagging.wiki.titles(), {}
    for title in set(titles) - set(_truths):
        _truths[title] = lagging.truth(title)
    truths = {title: _truths[title] if title in lagging.unchanged else lagging.truth(title) for title in titles}

    def differ():
        wrong.clear()
        for title in titles:
            for n, server in enumerate(lagging.servers):
                answer = lagging.get(server, title)
                if not is_true(answer, truths[title]):
                    wrong[title] = (n, answer.status, answer.headers['ETag'], answer.headers['Cache-Status'])
        return not wrong
    began = time.monotonic()
    with contextlib.suppress(AssertionError):
        wait_until(differ, 'all are right', timeout=lagging.lag + RESTS + BUSY + len(titles) // 4, pause=0.5)
    eq(wrong, {}, f'{len(wrong)} of {len(titles)} pages')
    print(f'{len(titles)} pages are right at both servers; {time.monotonic() - began:.0f} s', flush=True)


def changes_are_right(binary, lag, reads, known):
    with Lagging(binary, lag, reads, known) as lagging:
        watch = Watch()
        make_changes(lagging, watch)
        print(f'lag {lag} s, answered by {reads}, lag {"known" if known else "unknown"}:', flush=True)
        watch.end(lag + RESTS + TRUST_MAX + SETTLE)
        all_as_the_wiki_has_it(lagging)


@scene
def a_replica_five_seconds_behind(binary):
    changes_are_right(binary, 5, 'replica', True)


@scene
def one_of_two_copies_five_seconds_behind(binary):
    changes_are_right(binary, 5, 'either', True)


@scene
def a_replica_thirty_seconds_behind_that_nobody_notices(binary):
    changes_are_right(binary, 30, 'replica', False)


@scene
def one_of_two_copies_thirty_seconds_behind(binary):
    changes_are_right(binary, 30, 'either', False)


@scene
def a_lag_that_the_wiki_knows_of_is_an_outage_while_it_lasts(binary):
    """Words are asked for with maxlag: a wiki whose copies are 30 s behind refuses them. What is served is said to be
    unchecked, and by its number nothing is when trust is over."""
    with Lagging(binary, 0, 'replica', True, told=False, check_wait='1s') as lagging:
        title = f'Maxlag_{time.time_ns()}'
        first = lagging.wiki.edit(title, 'first')
        lagging.wiki.edit(title, 'second')
        lagging.database.caught_up()
        server = lagging.servers[0]
        for _ in range(2):
            eq(lagging.get(server, title).status, 200)
            eq(lagging.get(server, title, first).status, 200)
        lagging.database.delay(30)
        third = lagging.wiki.edit(title, 'third')
        wait_until(lambda: lagging.get(server, title, first).status == 503, 'refused by its number', timeout=BUSY)
        answer = lagging.get(server, title)
        check(answer.status == 200 and 'detail=unchecked' in answer.headers['Cache-Status'], answer.headers['Cache-Status'])
        began = time.monotonic()
        wait_until(lambda: rev_of(lagging.get(server, title)) == third, 'the lag is over', timeout=30 + 4 * BUSY, pause=0.2)
        print(f'right {time.monotonic() - began:.0f} s after it was refused', flush=True)


def clocks_are_off(binary, off):
    library = '/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1'
    env = {'LD_PRELOAD': library, 'FAKETIME': off, 'DONT_FAKE_MONOTONIC': '1'}
    with Lagging(binary, 5, 'either', True, envs=(env, env)) as lagging:
        for server in lagging.servers:
            says = calendar.timegm(time.strptime(lagging.get(server, 'Main_Page').headers['Date'], '%a, %d %b %Y %H:%M:%S GMT'))
            check(abs(says - time.time()) > 3000, f'its clock is off: {says - time.time()}')
        watch = Watch()
        make_changes(lagging, watch)
        watch.end(5 + RESTS + TRUST_MAX + SETTLE)


@scene
def clocks_an_hour_behind_the_wikis(binary):
    """What is compared is the wiki's time with the wiki's."""
    clocks_are_off(binary, '-1h')


@scene
def clocks_an_hour_ahead_of_the_wikis(binary):
    clocks_are_off(binary, '+1h')


if __name__ == '__main__':
    main()
