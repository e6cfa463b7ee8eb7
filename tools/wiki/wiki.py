#!/usr/bin/env python3
"""A real MediaWiki with Parsoid and VisualEditor, of Debian's packages, in a folder and on loopback.

  wiki.py up DIR [--pages N] [--mediawiki VERSION]
                                          makes it (or starts it again), fills it, prints its address last
  wiki.py down DIR                        ends what `up` started; the wiki stays
  wiki.py remove DIR                      down, then removes the folder
  wiki.py wire DIR URL [DOMAIN]           VisualEditor loads and saves through the server at URL, as DOMAIN there
  wiki.py unwire DIR                      VisualEditor asks Parsoid itself again
  wiki.py maintenance DIR SCRIPT [ARG]... one of MediaWiki's maintenance scripts, as refreshLinks.php

The packages come from script/deps wiki, another VERSION of MediaWiki from mediawiki.py. nginx and php-fpm run as whoever
calls this, from configuration in DIR, without any service manager; what runs is known by DIR/run/*.pid. `up` twice
changes nothing.
"""
import argparse
import contextlib
import fcntl
import glob
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

import mediawiki
import seed
from mediawiki import WikiError

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent))
from ports import free_port                   # noqa: E402  pylint: disable=wrong-import-position

DOMAIN = 'localhost'                          # the wiki's name at the server; the command line's default, too
ORIGIN_DOMAIN = '127.0.0.1'                   # as Parsoid knows it: the host of the wiki's own address
ADMIN, PASSWORD = 'Admin', 'a-test-password-1'
READERS = 4                                   # php-fpm workers beside the one that writes
START_TIMEOUT = 180
END_TIMEOUT = 60
CALL_TIMEOUT = 120
SOCKET_PATH_MAX = 100                         # of sockaddr_un's 108
FOLDERS = ('run', 'run/nginx.d', 'log', 'data', 'cache', 'images', 'tmp', 'settings.d')


class Steps:
    """Called with what is begun: one line a step, which ends with how long it took."""

    def __init__(self, to):
        self._to, self._began = to, None

    def __call__(self, text):
        self.end()
        self._began = time.monotonic()
        print(f'{text} ...', end='', file=self._to, flush=True)

    def end(self):
        if self._began is not None:
            print(f' {time.monotonic() - self._began:.1f} s', file=self._to, flush=True)
            self._began = None


def is_free(port):
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(('127.0.0.1', port))
            return True
        except OSError:
            return False


def tail(path, lines=15):
    try:
        return '\n'.join(pathlib.Path(path).read_text(errors='replace').splitlines()[-lines:])
    except OSError:
        return ''


def nginx_workers(pid):
    """The workers of the nginx of this pid that take connections."""
    children = pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text().split()

    def works(child):
        with contextlib.suppress(OSError):
            return b'shutting down' not in pathlib.Path(f'/proc/{child}/cmdline').read_bytes()
        return False
    return set(filter(works, children))


def fill_in(name, values):
    """The text of the file name beside this one, with each @word@ replaced."""
    return re.sub(r'@(\w+)@', lambda found: str(values[found.group(1)]), (HERE / name).read_text())


class Session:
    """Calls of api.php over one kept connection, with the cookies it was given."""

    def __init__(self, wiki):
        self.wiki, self.token = wiki, '+\\'
        self._connection, self._cookies = None, {}

    def close(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    @property
    def cookie(self):
        """What it would send as Cookie."""
        return '; '.join(f'{name}={value}' for name, value in self._cookies.items())

    def _post(self, body, headers):
        """(status, body); once more when the kept connection was closed meanwhile."""
        for kept in (self._connection is not None, False):
            if self._connection is None:
                self._connection = http.client.HTTPConnection('127.0.0.1', self.wiki.port, timeout=CALL_TIMEOUT)
            try:
                self._connection.request('POST', '/w/api.php', body, headers)
                answer = self._connection.getresponse()
                for cookie in answer.headers.get_all('set-cookie') or []:
                    name, _, value = cookie.partition(';')[0].partition('=')
                    self._cookies[name] = value
                return answer.status, answer.read()
            except (OSError, http.client.HTTPException):
                self.close()
                if not kept:
                    raise
        raise WikiError('no answer')

    def call(self, **parameters):
        """What api.php answers. An error it tells is a WikiError."""
        headers = {'Content-Type': 'application/x-www-form-urlencoded', **self.wiki.headers}
        if self._cookies:
            headers['Cookie'] = self.cookie
        status, raw = self._post(urllib.parse.urlencode({'format': 'json', 'formatversion': 2, **parameters}), headers)
        try:
            value = json.loads(raw)
        except ValueError:
            raise WikiError(f'{parameters.get("action")}: {status} {raw[:300]!r}') from None
        if 'error' in value:
            raise WikiError(f'{parameters.get("title", parameters.get("action"))}: {value["error"]}')
        return value


class Wiki:
    """One wiki in one folder. Used by script/run, scenes, the browser test and benchmarks alike.

    version: of MediaWiki; None is the one that the folder's wiki was made with, or else the machine's own.
    database: instead of SQLite (mariadb.py)."""

    def __init__(self, folder, database=None, version=None):
        self.folder = pathlib.Path(folder).resolve()
        self.version = self._made_with() or version
        if version not in (None, self.version):
            raise WikiError(f'the wiki in {self.folder} was made with MediaWiki {self.version}, not {version}')
        mediawiki.check_version(self.version)
        self.database, self.headers = database, {} if database is None else database.headers
        self._session = Session(self)
        if not re.fullmatch(r'[A-Za-z0-9_./+-]+', str(self.folder)):
            raise WikiError(f'the path {self.folder} may hold only letters, digits and _ . / + -')
        if len(f'{self.folder}/run/write.sock') > SOCKET_PATH_MAX:
            raise WikiError(f'the path {self.folder} is too long for a socket below it')

    def __truediv__(self, name):
        return self.folder / name

    def _made_with(self):
        with contextlib.suppress(OSError):
            return (self / 'version').read_text().strip()
        return None

    @property
    def mediawiki(self):
        return mediawiki.choose(self.version)

    # ---- the processes

    def pid(self, name):
        """The pid of nginx or php-fpm when it runs and is ours, or None: another may have got its number."""
        try:
            pid = int((self / f'run/{name}.pid').read_text())
            command = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()
        except (OSError, ValueError):
            return None
        return pid if f'{self.folder}/run/'.encode() in command else None

    def _end(self, name):
        pid = self.pid(name)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            until = time.monotonic() + END_TIMEOUT
            while self.pid(name) is not None and time.monotonic() < until:
                time.sleep(0.02)
            if self.pid(name) is not None:
                os.kill(pid, signal.SIGKILL)
        (self / f'run/{name}.pid').unlink(missing_ok=True)

    def is_up(self):
        return self.pid('nginx') is not None and self.pid('php-fpm') is not None and self._answers()

    def _answers(self):
        with contextlib.suppress(OSError, http.client.HTTPException, WikiError):
            return 'query' in self.api(action='query', meta='siteinfo')
        return False

    def down(self):
        self._session.close()
        self._end('nginx')
        self._end('php-fpm')
        if self.database is not None:
            self.database.down()

    def remove(self):
        self.down()
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- making it

    def up(self, pages=0, say=lambda text: None):
        """Makes what is missing and starts what is down. pages: how many it holds at least; say: told each step."""
        for name in FOLDERS:
            (self / name).mkdir(parents=True, exist_ok=True)
        with open(self / 'run/lock', 'w', encoding='ascii') as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not self.is_up():
                mediawiki.choose(self.version, say)
                fpm = self._programs()
                self.down()
                self._choose_port()
                if self.database is not None:
                    say('starting the database')
                    self.database.up()
                    self.database.settings(self.folder)
                if not (self / 'LocalSettings.php').exists():
                    say('installing MediaWiki with VisualEditor')
                    self._install()
                say('starting php-fpm and nginx')
                self._start(fpm)
            self._fill(pages, say)
        return self

    def _programs(self):
        """The newest php-fpm; what is missing is said."""
        fpm = sorted(glob.glob('/usr/sbin/php-fpm*'))
        missing = [name for name, there in (('mediawiki', self.mediawiki.version()), ('php-fpm', fpm),
                                            ('php', shutil.which('php')), ('nginx', shutil.which('nginx') or
                                             os.access('/usr/sbin/nginx', os.X_OK))) if not there]
        if missing:
            raise WikiError(f'not installed: {", ".join(missing)}; script/deps wiki does it')
        return fpm[-1]

    def _choose_port(self):
        """The one it had, when that is free."""
        with contextlib.suppress(OSError, ValueError):
            if is_free(int((self / 'run/port').read_text())):
                return
        (self / 'run/port').write_text(f'{free_port()}\n')

    def _run(self, what, command):
        log = self / f'log/{what}.log'
        with open(log, 'w', encoding='utf-8') as out:
            done = subprocess.run([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=out,
                                  stderr=subprocess.STDOUT, env=self._environment(), check=False)
        if done.returncode != 0:
            raise WikiError(f'{what} failed ({done.returncode}); {log} ends:\n{tail(log)}')

    def _environment(self, settings='LocalSettings.php'):
        return {**os.environ, 'MW_CONFIG_FILE': str(self / settings), 'LC_ALL': 'C.UTF-8',
                'PATH': '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'}

    def _database_arguments(self):
        if self.database is not None:
            return self.database.install_arguments()
        return ['--dbtype', 'sqlite', '--dbpath', self / 'data', '--dbname', 'wiki']

    def _install(self):
        """The installer's LocalSettings.php becomes ours at the very end, so that a broken install is begun anew."""
        new = self / 'new'
        for folder in (new, self / 'data'):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
        (self / 'filled').unlink(missing_ok=True)
        log = self / 'log/install.log'
        with open(log, 'w', encoding='utf-8') as out:
            done = subprocess.run(
                ['php', self._script('install.php'), '--confpath', new, *self._database_arguments(),
                 '--server', self.base, '--scriptpath', '/w', '--lang', 'en', '--pass', PASSWORD, '--skins', 'Vector',
                 'Test wiki', ADMIN],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
                env=self._environment('new/LocalSettings.php'), check=False)
        if done.returncode != 0 or not (new / 'LocalSettings.php').exists():
            raise WikiError(f'the installer failed; {log} ends:\n{tail(log)}')
        shutil.copy(HERE / 'settings.php', self / 'settings.php')
        with open(new / 'LocalSettings.php', 'a', encoding='utf-8') as settings:
            settings.write('\n$wikiDir = __DIR__;\nrequire "$wikiDir/settings.php";\n')
        staged = self / 'LocalSettings.php.part'
        shutil.copy(new / 'LocalSettings.php', staged)
        if self.database is None:       # readers must not wait for the writer
            self._run('wal', ['php', '-r', '(new SQLite3($argv[1]))->exec("PRAGMA journal_mode=WAL");',
                              self / 'data/wiki.sqlite'])
        (self / 'version').write_text(f'{self.mediawiki.version()}\n')
        staged.rename(self / 'LocalSettings.php')
        try:
            self._run('update', ['php', self._script('update.php'), '--quick'])
        except WikiError:
            (self / 'LocalSettings.php').unlink()
            raise
        shutil.rmtree(new)

    def _start(self, fpm):
        shutil.copy(HERE / 'settings.php', self / 'settings.php')
        root = os.geteuid() == 0
        values = {'dir': self.folder, 'code': self.mediawiki.code, 'workers': READERS, 'port': self.port}
        (self / 'run/php-fpm.conf').write_text(fill_in('php-fpm.conf', {**values, 'user': 'user = root\ngroup = root'
                                                                        if root else ''}))
        (self / 'run/nginx.conf').write_text(fill_in('nginx.conf', {**values, 'user': 'user root;' if root else ''}))
        self._run('php-fpm-start', [fpm, *(['-R'] if root else []), '-y', self / 'run/php-fpm.conf'])
        try:
            self._run('nginx-start', ['nginx', '-e', self / 'log/nginx-error.log', '-p', self / 'run', '-c',
                                      self / 'run/nginx.conf'])
            until = time.monotonic() + START_TIMEOUT
            while not self._answers():
                if time.monotonic() > until:
                    raise WikiError(f'no answer at {self.base}; see {self / "log"}')
                time.sleep(0.05)
        except WikiError:
            self.down()
            raise

    def _fill(self, pages, say):
        with contextlib.suppress(OSError, ValueError):
            if int((self / 'filled').read_text()) >= pages:
                return
        if pages > 0:
            seed.fill(self, pages, say)
        (self / 'filled').write_text(f'{pages}\n')

    # ---- wiring VisualEditor to a server

    def config(self, **more):
        """A server's configuration with this wiki as origin of DOMAIN, as JSON, which YAML includes."""
        origin = {'kind': 'parsoid', 'url': f'{self.base}/w/rest.php', 'domain': ORIGIN_DOMAIN}
        return json.dumps({'domains': {DOMAIN: {'origin': origin}}, 'http': {'trusted_proxies': '127.0.0.1'}, **more},
                          indent=2) + '\n'

    def wire(self, url, domain=DOMAIN, forward=False):
        """VisualEditor loads and saves through the server at url, where the wiki is domain; forward: with its users' cookies."""
        url = url.rstrip('/')
        (self / 'settings.d/palimpsest.json').write_text(json.dumps({'url': url, 'domain': domain, 'forward': forward}))
        shutil.copy(HERE / 'palimpsest.php', self / 'settings.d/palimpsest.php')
        (self / 'run/nginx.d/palimpsest.conf').write_text(fill_in('palimpsest.conf', {
            'url': url, 'domain': domain, 'host': urllib.parse.urlsplit(url).netloc}))
        self._reload_nginx(url)

    def unwire(self):
        for name in ('settings.d/palimpsest.php', 'settings.d/palimpsest.json', 'run/nginx.d/palimpsest.conf'):
            (self / name).unlink(missing_ok=True)
        self._reload_nginx(None)

    def _reload_nginx(self, wired_to):
        """Returns when new connections are served by the new configuration."""
        pid = self.pid('nginx')
        if pid is None:
            return
        before = nginx_workers(pid)
        os.kill(pid, signal.SIGHUP)
        until = time.monotonic() + END_TIMEOUT
        # The workers of before take connections for a moment longer.
        while before & nginx_workers(pid) or self.request('GET', '/api/rest_v1/')[1].get('x-wired-to') != wired_to:
            if time.monotonic() > until:
                raise WikiError(f'nginx did not take its new configuration; see {self / "log/nginx-error.log"}')
            time.sleep(0.02)

    # ---- asking it

    @property
    def port(self):
        return int((self / 'run/port').read_text())

    @property
    def base(self):
        return f'http://127.0.0.1:{self.port}'

    def request(self, method, path, headers=None, body=None):
        """(status, headers, body), on a connection of its own."""
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=CALL_TIMEOUT)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def api(self, **parameters):
        """One call of api.php as nobody in particular."""
        return self._session.call(**parameters)

    def log_in(self):
        """A session of the administrator."""
        session = Session(self)
        token = session.call(action='query', meta='tokens', type='login')['query']['tokens']['logintoken']
        done = session.call(action='login', lgname=ADMIN, lgpassword=PASSWORD, lgtoken=token)['login']
        if done['result'] != 'Success':
            raise WikiError(f'login: {done}')
        session.token = session.call(action='query', meta='tokens')['query']['tokens']['csrftoken']
        return session

    def edit(self, title, text, summary='', **parameters):
        """Stores text; the number of the revision that holds it."""
        done = self.api(action='edit', title=title, text=text, summary=summary, token='+\\', **parameters)['edit']
        return done.get('newrevid') or self.revision(title)

    def edit_later(self, title, text):
        """As edit, in a second of its own: MediaWiki sees a conflict only between edits of different seconds."""
        second = int(time.time())
        while int(time.time()) == second:
            time.sleep(0.01)
        return self.edit(title, text)

    def revision(self, title):
        """The newest revision of title; None when there is no such page."""
        page = self.api(action='query', prop='revisions', rvprop='ids', titles=title)['query']['pages'][0]
        return page['revisions'][0]['revid'] if 'revisions' in page else None

    def source(self, title):
        answer = self.api(action='query', prop='revisions', rvprop='content', rvslots='main', titles=title)
        page, = answer['query']['pages']
        return page['revisions'][0]['slots']['main']['content']

    def titles(self):
        """All pages of all namespaces, as DB keys."""
        namespaces = self.api(action='query', meta='siteinfo', siprop='namespaces')['query']['namespaces'].values()
        found = []
        for namespace in sorted(n['id'] for n in namespaces if n['id'] >= 0):
            more = {}
            while True:
                answer = self.api(action='query', list='allpages', apnamespace=namespace, aplimit='max', **more)
                found += [page['title'].replace(' ', '_') for page in answer['query']['allpages']]
                if 'continue' not in answer:
                    break
                more = answer['continue']
        return found

    def parsoid(self, title, rev):
        """Parsoid's own page bundle of a revision."""
        status, _, body = self.request('GET', f'/w/rest.php/{ORIGIN_DOMAIN}/v3/page/pagebundle/{quote(title)}/{rev}',
                                       self.headers)
        if status != 200:
            raise WikiError(f'Parsoid: {title} {rev}: {status} {body[:300]!r}')
        return json.loads(body)

    def _script(self, name):
        return self.mediawiki.code / 'maintenance' / name

    def maintenance(self, script, *args):
        command = ['php', self._script(script), *args]
        return subprocess.run(command, env=self._environment(), check=False).returncode


def quote(title):
    return urllib.parse.quote(title, safe='')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest='verb', required=True)
    for name in ('up', 'down', 'remove', 'wire', 'unwire', 'maintenance'):
        verbs.add_parser(name).add_argument('dir')
    verbs.choices['up'].add_argument('--pages', type=int, default=200)
    verbs.choices['up'].add_argument('--mediawiki', metavar='VERSION')
    verbs.choices['wire'].add_argument('url')
    verbs.choices['wire'].add_argument('domain', nargs='?', default=DOMAIN)
    verbs.choices['maintenance'].add_argument('script')
    verbs.choices['maintenance'].add_argument('args', nargs=argparse.REMAINDER)
    args = parser.parse_args()
    steps = Steps(sys.stderr)
    try:
        wiki = Wiki(args.dir, version=getattr(args, 'mediawiki', None))
        if args.verb == 'up':
            wiki.up(args.pages, steps)
            steps.end()
            print(wiki.base)
        elif args.verb == 'wire':
            wiki.wire(args.url, args.domain)
        elif args.verb == 'maintenance':
            return wiki.maintenance(args.script, *args.args)
        else:
            getattr(wiki, args.verb)()
        return 0
    except (WikiError, OSError) as error:
        steps.end()
        print(f'wiki: {error}', file=sys.stderr)
        return 1


if __name__ == '__main__':
    sys.exit(main())
