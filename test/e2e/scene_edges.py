"""Goal: whatever changes on a wiki, a cache in front of the servers has it soon, and so have the servers, though the cache may keep a
page for a day and the servers ask by themselves once an hour. A hook is told of it, too.
Method: a real MediaWiki that purges at two servers with one Redis; Varnish in front of both, which their rules purge, and a sink,
which their rules tell. Each change of a page that a wiki tells of is made, and Varnish is asked until it is right, then the servers;
then the sink was told of the render that the servers give, or that there is none."""
import contextlib
import json
import os
import time

from rig import DOMAIN, SETTLE, SOON, purged_at, quote, scene
from changes import Behind, changes_of, pages_of
from harness import SceneError, check, eq, free_port, main, wait_until
from sink_help import Sink
from varnish_help import Varnish

EDGE_TTL = 86400
REBOUND = 1         # seconds
# MediaWiki purges nothing then: only a sweep, or trust that is over, finds out.
STREAMS = ['palimpsest.render', 'palimpsest.gone', 'palimpsest.dated']
NOT_TOLD = ('page language', 'protected')


class Edge(Behind):
    """Varnish in front of two servers."""

    def __init__(self, binary):
        self.varnish_port, self.sink = free_port(), Sink()
        hook = {'match': {'stream': STREAMS}, 'effect': 'http', 'url': self.sink.url + '/{title}', 'body': 'event'}
        rule = {'match': {'stream': STREAMS}, 'effect': 'purge',
                'targets': [f'http://127.0.0.1:{self.varnish_port}'], 'urls': ['/{domain}/v1/page/html/{title}'],
                'edge_ttl': f'{EDGE_TTL}s', 'rebound': f'{REBOUND}s'}

        def settings(pair):
            listed = ', '.join(f"'{purged_at(server)}'" for server in pair.servers)
            return f'$wgUseCdn = true; $wgCdnServers = [ {listed} ];'
        super().__init__(binary, knowing=True, settings=settings, change={'purge_listen': '127.0.0.1:0', 'rules': {'edge': rule, 'hook': hook}},
                         trust_ttl='1h', trust_max='1h')
        try:
            self.varnish = Varnish(*self.servers, port=self.varnish_port)
        except BaseException as failure:
            super().__exit__(type(failure), failure, None)
            raise

    def __exit__(self, kind, value, trace):
        with contextlib.ExitStack() as ends:
            ends.callback(self.sink.__exit__, None, None, None)
            ends.callback(super().__exit__, kind, value, trace)
            ends.callback(self.varnish.end)

    def cached(self, title):
        """(Varnish's answer, had it that)"""
        return self.varnish.get(f'/{DOMAIN}/v1/page/html/{quote(title)}')

    def is_shown(self, answer, truth):
        """A reader's answer, who follows redirects."""
        if truth is not None and 'mw:PageProp/redirect' in truth:
            return answer.status == 302
        return self.is_true(answer, truth)

    def warm(self, title):
        """Varnish keeps it, where it may."""
        wait_until(lambda: self.cached(title)[1] or self.cached(title)[0].status >= 300, f'Varnish keeps {title}', timeout=SOON,
                   pause=0.1)

    def wait_shown(self, title):
        """Seconds until Varnish has what the wiki has; and then until both servers have it."""
        began, last = time.monotonic(), []

        def shown():
            answer, kept = self.cached(title)
            last[:] = [answer.status, kept, answer.headers['cache-status'], answer.headers['age']]
            return self.is_shown(answer, self.truth(title))
        try:
            wait_until(shown, f'{title} as the wiki has it', pause=0.02, timeout=SOON)
        except SceneError as failure:
            raise SceneError(f'{failure}: {last}') from None
        took = time.monotonic() - began
        self.wait_true(title)
        return took, time.monotonic() - began

    def told(self, title, since):
        """What the sink was told of the title since that request of it: (stream, revision, tid)."""
        events = [json.loads(one['body']) for one in self.sink.requests[since:]]
        return [(e['meta']['stream'], e.get('rev_id'), e.get('tid')) for e in events if e.get('page_title') == title]

    def wait_told(self, title, since):
        """Until the sink was told, and knows the render that a server gives; or that there is none. What was only asked for anew
        (action=purge) may be the same render as before."""
        def right():
            if not self.told(title, since):
                return False
            answer = self.read(title, query='?redirect=false')[0]
            if answer.status != 200:
                return any(stream == 'palimpsest.gone' for stream, _, _ in self.told(title, since))
            rev, tid = answer.headers['etag'].strip('W/"').split('/')[:2]
            return ('palimpsest.render', int(rev), tid) in self.told(title, 0)
        try:
            wait_until(right, f'the sink knows of {title}', pause=0.05, timeout=SOON)
        except SceneError as failure:
            raise SceneError(f'{failure}: {self.told(title, since)}') from None


@scene
def whatever_a_wiki_tells_of_is_right_in_varnish_on_both_servers_and_at_a_sink(binary):
    with Edge(binary) as edge:
        t = pages_of(edge)
        touched = time.time()
        wait_until(lambda: time.time() > touched + SETTLE, 'the wiki has come to rest')
        print(f'| change on MediaWiki {edge.wiki.mediawiki.version()} | Varnish, s | both servers, s | the sink, s |\n| --- | ---: | ---: | ---: |', flush=True)
        late, looked_at = [], set()
        for what, make, changed in changes_of(edge, t):
            if what in NOT_TOLD:
                continue
            for name in changed:
                edge.warm(t[name])
            since, began = len(edge.sink.requests), time.monotonic()
            make()
            looked_at.update(t[name] for name in changed)
            try:
                took = [edge.wait_shown(t[name]) for name in changed]
                for name in changed:
                    edge.wait_told(t[name], since)
                told = time.monotonic() - began
                print(f'| {what} | {max(one for one, _ in took):.1f} | {max(one for _, one in took):.1f} | {told:.1f} |', flush=True)
            except SceneError as failure:
                late.append(f'{what}: {failure}')
                print(f'| {what} | never | | |', flush=True)
        eq(late, [])
        # What was fetched between a change and its render would be kept for a day: so once more, when all has come to rest.
        last = time.monotonic()
        wait_until(lambda: time.monotonic() > last + REBOUND + 2, 'the last purge is over')
        for title in sorted(looked_at):
            for _ in range(2):
                answer, kept = edge.cached(title)
                check(edge.is_shown(answer, edge.truth(title)), f'{title}: {answer.status} {kept} {answer.headers["cache-status"]}')


if not os.access('/usr/sbin/varnishd', os.X_OK):
    raise SystemExit('varnishd is missing; script/deps test has it')
main()
