"""Goal: what a wiki tells of itself, as to a cache, is there for the next reader. Method: a real MediaWiki with
$wgCdnServers, and a server that would by itself ask for a page once a minute: each change has to be seen long before."""
import json
import pathlib
import tempfile
import time

from rig import BASE, scene, the_wiki
from harness import Server, eq, main, wait_until
from wiki import DOMAIN, ORIGIN_DOMAIN, quote

SETTLE = 3      # title/word.h
SOON = 30       # seconds: a busy machine's wiki sends its purge, and makes a page, in this time; trust_ttl is an hour


class Told:
    """A server in front of the wiki, which purges pages at it."""

    def __init__(self, binary):
        self.wiki = the_wiki()
        folder = pathlib.Path(tempfile.mkdtemp(prefix='told-', dir=self.wiki / 'tmp'))
        origin = {'kind': 'parsoid', 'url': f'{self.wiki.base}/w/rest.php', 'domain': ORIGIN_DOMAIN, 'trust_ttl': '1h',
                  'trust_max': '1h', 'check_wait': '30s'}
        (folder / 'server.yaml').write_text(json.dumps({'domains': {DOMAIN: {'origin': origin}},
                                                        'change': {'purge_listen': '127.0.0.1:0'}}))
        self.server = Server(binary, '--config', folder / 'server.yaml')
        self.setting = self.wiki / 'settings.d/told.php'
        self.setting.write_text("<?php $wgUseCdn = true; $wgCdnServers = [ '%s' ]; "
                                "foreach ( [ 'suppressrevision', 'suppressredirect' ] as $right ) "
                                "{ $wgGroupPermissions['sysop'][$right] = true; }"
                                % self.server.wait_line('purge on ').removeprefix('http://'))
        self.admin = self.wiki.log_in()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.setting.unlink()
        self.server.__exit__(kind, value, trace)

    def do(self, **parameters):
        return self.admin.call(token=self.admin.token, **parameters)

    def read(self, title, rev=None):
        where = quote(title) + (f'/{rev}' if rev else '')
        return self.server.request('GET', f'{BASE}/page/html/{where}')

    def soon(self, title, is_right, what, rev=None):
        began = time.monotonic()
        wait_until(lambda: is_right(self.read(title, rev)), what, timeout=SOON)
        print(f'{what}: {time.monotonic() - began:.2f} s', flush=True)


@scene
def what_a_wiki_purges_is_asked_for_at_once(binary):
    with Told(binary) as told:
        wiki, run = told.wiki, time.time_ns()
        edited, user, deleted, moved, template = (f'{name}_{run}' for name in
                                                  ('Edited', 'User', 'Deleted', 'Moved', 'Template:Told'))
        wiki.edit(template, 'first template')
        first = wiki.edit(edited, 'first text')
        wiki.edit(user, '{{Told_%d}}' % run)
        wiki.edit(deleted, 'text')
        wiki.edit(moved, 'text')
        touched = time.time()       # what is touched twice in a second shows it once
        wait_until(lambda: time.time() > touched + SETTLE, 'the wiki has come to rest')
        for title in (edited, user, deleted, moved):
            for _ in range(3):
                eq(told.read(title).status, 200)
        wiki.edit(edited, 'second text')
        told.soon(edited, lambda answer: b'second text' in answer.body, 'edited')
        wiki.edit(template, 'second template')
        told.soon(user, lambda answer: b'second template' in answer.body, 'a template of it edited')
        told.do(action='delete', title=deleted)
        told.soon(deleted, lambda answer: answer.status == 404, 'deleted')
        told.do(action='move', noredirect=1, **{'from': moved, 'to': moved + '_to'})
        told.soon(moved, lambda answer: answer.status == 404, 'moved')
        for _ in range(2):
            eq(told.read(edited, first).status, 200)
        told.do(action='revisiondelete', type='revision', ids=first, hide='content', suppress='yes')
        told.soon(edited, lambda answer: answer.status == 410, 'suppressed', first)


main()
