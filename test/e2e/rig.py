"""What the scenes of this folder share: one real wiki for all scenes of a file, and servers in front of it.

The wiki is made at its first use, in a temporary folder (or found in WIKI_DIR, where it stays), and ended with the
process. It runs the machine's own MediaWiki, or the version in WIKI_VERSION. Each scene takes pages of its own.
"""
import atexit
import contextlib
import functools
import json
import os
import pathlib
import re
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / 'test/scene'), str(ROOT / 'tools/wiki')]
sys.dont_write_bytecode = True
import harness   # noqa: E402  pylint: disable=wrong-import-position
from harness import Server, wait_until   # noqa: E402  pylint: disable=wrong-import-position
from list_help import Redis   # noqa: E402  pylint: disable=wrong-import-position
from mediawiki import editor_is_wired   # noqa: E402  pylint: disable=wrong-import-position
from wiki import DOMAIN, ORIGIN_DOMAIN, Wiki, free_port, quote   # noqa: E402  pylint: disable=wrong-import-position

TRUST_TTL, TRUST_MAX = 1, 2         # seconds: the bounds of a Pair
SETTLE = 3                          # a render made sooner after a change of its page is not believed (title/word.h)
SOON = 30                           # a busy machine's wiki tells of a change, and makes a page, in this time
PAGES = int(os.environ.get('WIKI_PAGES', '24'))
BASE = f'/{DOMAIN}/v1'
# The render's name stands in the head of what we serve, and in nothing that Parsoid gives.
TIME_UUID = re.compile(r'<meta property="mw:TimeUuid" content="[^"]*"/>')

# Scenes of scene_wiki.py that need a MediaWiki before 1.41, whose VisualEditor asks a server beside the wiki; those of
# scene_editor.py all do.
LEFT_OUT = (
    'an_old_render_saves_after_its_template_changed',
    'a_render_that_is_unknown_cannot_be_saved_from',
    'a_new_page_is_written',
    'typed_source_is_stashed_for_the_save',
    'changes_beside_are_merged_and_conflicts_are_told',
)
_kept = os.environ.get('WIKI_DIR')
_wiki = Wiki(_kept or tempfile.mkdtemp(prefix='wiki-'), version=os.environ.get('WIKI_VERSION') or None)
atexit.register(_wiki.down if _kept else _wiki.remove)


def scene(function):
    """As the harness's; what this wiki cannot have is named instead."""
    name = function.__name__
    if editor_is_wired(_wiki.version) or name not in LEFT_OUT:
        return harness.scene(function)
    print(f'left out: {name}: this VisualEditor asks no server beside the wiki', flush=True)
    return function


def another_second():
    """MediaWiki tells times in seconds. What it made in the second of a change counts as made behind it: 1.43 gives it out of its
    cache, and a browser is told that it is not modified."""
    began = int(time.time())
    wait_until(lambda: time.time() >= began + 1, 'another second has begun')


@functools.cache
def the_wiki():
    """The one wiki of this process, running."""
    return _wiki.up(PAGES)


@contextlib.contextmanager
def private_wiki():
    """The file with what the server says to a wiki that only its users may read."""
    wiki = the_wiki()
    authorization, setting = wiki / 'run/bot', wiki / 'settings.d/private.php'
    authorization.write_text('Bearer the-servers-own\n')
    setting.write_text("""<?php
        $ours = ( $_SERVER['HTTP_AUTHORIZATION'] ?? '' ) === 'Bearer the-servers-own';
        $wgGroupPermissions['*']['read'] = $ours;
        $wgGroupPermissions['user']['read'] = true;""")

    def says(words):
        return words in wiki.request('GET', '/w/api.php?action=query&format=json&titles=A')[2]
    try:
        wait_until(lambda: says(b'readapidenied'), 'the wiki is private')
        yield authorization
    finally:
        setting.unlink()
        wait_until(lambda: says(b'"query"'), 'the wiki is public again')


class Wired:
    """A server in front of the wiki, with VisualEditor loading and saving through it, for one scene."""

    def __init__(self, binary, forward=False, **more):
        self.wiki = the_wiki()
        self.port = free_port()
        folder = tempfile.mkdtemp(prefix='wired-', dir=self.wiki / 'tmp')
        self.config = pathlib.Path(folder) / 'server.yaml'
        self.config.write_text(self.wiki.config(**more))
        self.server = Server(binary, '--config', self.config, '--listen', f'127.0.0.1:{self.port}')
        self.wiki.wire(self.server.url, forward=forward)
        self._log_from = (self.wiki / 'log/access.log').stat().st_size

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.wiki.unwire()
        self.server.__exit__(kind, value, trace)

    @staticmethod
    def new_title(name):
        """A title no page has, in a wiki that is used again, too."""
        return f'{name} {time.time_ns()}'

    def asked(self, pattern, least=1):
        """What pattern finds in the requests that the wiki's own web server answered since this began: so many at least,
        which it writes down some time after it answered."""
        def found():
            with open(self.wiki / 'log/access.log', encoding='utf-8', errors='replace') as log:
                log.seek(self._log_from)
                got = re.findall(pattern, log.read())
            return got if len(got) >= least else None
        return wait_until(found, f'{least} of {pattern} in the log of the wiki')

    def get(self, path, headers=None):
        """A GET of a path below the domain's /v1."""
        return self.server.request('GET', BASE + path, headers)


def log_in_with(wiki, setting, text):
    """The administrator's session under one more file of settings, which goes again when the wiki does not answer with it."""
    setting.write_text(text)
    try:
        return wiki.log_in()
    except BaseException:
        setting.unlink()
        raise


class Pair:
    """Two servers with small bounds that share a Redis, in front of the wiki. origin: more of their options for it.
    count: another number of servers. redis: False, and they share none. knowing: each is told where the other is asked for its renders. rights: more that administrators of the wiki get.
    test_hooks: as of a Server. change: that section of their configuration. settings: called with this when the servers are
    there; more settings of the wiki, in PHP."""

    def __init__(self, binary, knowing=False, rights=(), test_hooks=False, change=None, settings=lambda pair: '', count=2, redis=True,
                 **origin):
        self.wiki = the_wiki()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix='pair-', dir=self.wiki / 'tmp'))
        self.setting = self.wiki / 'settings.d/pair.php'
        self.redis = Redis() if redis else None
        domains = {DOMAIN: {'origin': {'kind': 'parsoid', 'url': f'{self.wiki.base}/w/rest.php', 'domain': ORIGIN_DOMAIN,
                                       'trust_ttl': f'{TRUST_TTL}s', 'trust_max': f'{TRUST_MAX}s', 'check_wait': '30s',
                                       **origin}}}
        (self.folder / 'server.yaml').write_text(json.dumps({
            'domains': domains, **({'redis': {'url': f'redis://127.0.0.1:{self.redis.port}'}} if redis else {}),
            'http': {'trusted_proxies': '127.0.0.1'}, **({'change': change} if change else {})}))
        (self.folder / 'secret').write_text('what these servers share\n')
        self.servers = []
        for port in [free_port() for _ in range(count)]:
            self.servers.append(Server(binary, '--config', self.folder / 'server.yaml', '--listen', f'127.0.0.1:{port}',
                                       *(self._known_at(port) if knowing else ()), test_hooks=test_hooks,
                                       beside=self.servers[0] if self.servers else None))
        self.admin = log_in_with(self.wiki, self.setting, f"""<?php
            $wgEnableUploads = true;
            $wgPageLanguageUseDB = true;
            foreach ( {json.dumps(['suppressrevision', 'suppressredirect', *rights])} as $right ) {{
                $wgGroupPermissions['sysop'][$right] = true;
            }}
            {settings(self)}""")

    def _known_at(self, port):
        return ('--set', f'servers.advertise=http://127.0.0.1:{port}', '--set', f'servers.secret_file={self.folder / "secret"}')

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        with contextlib.ExitStack() as ends:    # all of them, whichever fails
            ends.callback(self.setting.unlink)
            if self.redis:
                ends.callback(self.redis.end)
            for server in self.servers:
                ends.callback(server.__exit__, kind, value, trace)

    def do(self, **parameters):
        """What only the administrator may."""
        return self.admin.call(token=self.admin.token, **parameters)

    def get(self, server, content, title, rev=None, tid=None, query=''):
        where = '/'.join(str(part) for part in (quote(title), rev, tid) if part is not None)
        return server.request('GET', f'{BASE}/page/{content}/{where}{query}')

    def read(self, title, **named):
        """All servers' answers."""
        return [self.get(server, 'html', title, **named) for server in self.servers]


def purged_at(server):
    """Where the server listens for PURGE."""
    return server.wait_line('purge on ').removeprefix('http://')


class Told:
    """A server in front of the wiki, which tells it of changes: by itself it would ask for a page once an hour. settings: called
    with this when the server is there; what the wiki's settings are then to say, in PHP. fields: of the origin."""

    def __init__(self, binary, settings, **fields):
        self.wiki = the_wiki()
        folder = pathlib.Path(tempfile.mkdtemp(prefix='told-', dir=self.wiki / 'tmp'))
        origin = {'kind': 'parsoid', 'url': f'{self.wiki.base}/w/rest.php', 'domain': ORIGIN_DOMAIN, 'trust_ttl': '1h',
                  'trust_max': '1h', 'check_wait': '30s', **fields}
        (folder / 'server.yaml').write_text(json.dumps({'domains': {DOMAIN: {'origin': origin}},
                                                        'change': {'purge_listen': '127.0.0.1:0'}}))
        self.server = Server(binary, '--config', folder / 'server.yaml')
        self.setting = self.wiki / 'settings.d/told.php'
        self.admin = log_in_with(self.wiki, self.setting, "<?php foreach ( [ 'suppressrevision', 'suppressredirect' ] as $right ) "
                                 "{ $wgGroupPermissions['sysop'][$right] = true; }\n" + settings(self))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.setting.unlink()
        self.server.__exit__(kind, value, trace)

    def purged_at(self):
        return purged_at(self.server)

    def do(self, **parameters):
        """What only the administrator may."""
        return self.admin.call(token=self.admin.token, **parameters)

    def read(self, title, rev=None):
        where = quote(title) + (f'/{rev}' if rev else '')
        return self.server.request('GET', f'{BASE}/page/html/{where}')

    def stored(self, title):
        """What a reader would get who asks nobody, and has nothing made."""
        return self.server.request('GET', f'{BASE}/page/html/{quote(title)}', {'Cache-Control': 'only-if-cached'})

    def soon(self, title, is_right, what, rev=None):
        began = time.monotonic()
        wait_until(lambda: is_right(self.read(title, rev)), what, timeout=SOON)
        print(f'{what}: {time.monotonic() - began:.2f} s', flush=True)
