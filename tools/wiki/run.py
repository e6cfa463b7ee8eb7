#!/usr/bin/env python3
"""script/run --wiki: a real wiki with VisualEditor, a server it loads and saves through, and Varnish, all on loopback.

The wiki tells the server of each change, and a rule of the server purges Varnish (packaging/examples). On a terminal
Ctrl-C ends all of it; otherwise, and with --stay, it stays up until script/run --wiki --down. Everything lives in the
folder given with --dir: the wiki, and configuration, store, logs and pids. Called again it starts what is not running
and keeps the pages. A folder keeps the version of MediaWiki that its wiki was made with.
"""
import argparse
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import urllib.request

from mediawiki import SUITES, check_version, editor_is_wired
from wiki import ADMIN, DOMAIN, PASSWORD, Steps, Wiki, WikiError, free_port, is_free, quote, tail

ROOT = pathlib.Path(__file__).resolve().parents[2]
READY_TIMEOUT = 90
END_TIMEOUT = 90
EXAMPLES = ROOT / 'packaging/examples'
PAGE = 'Edited_page'


class Program:
    """One that runs from a file of configuration in the folder, known by its pid and that file."""

    def __init__(self, name, folder, file):
        self.name, self.folder, self.file = name, folder, folder / file
        self.log = folder / f'{name}.log'

    def pid(self):
        """None when it is not running: another program may have got its number."""
        try:
            pid = int((self.folder / f'{self.name}.pid').read_text())
            command = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')
        except (OSError, ValueError):
            return None
        return pid if str(self.file).encode() in command else None

    def binary(self):
        with contextlib.suppress(OSError):
            return os.readlink(f'/proc/{self.pid()}/exe')
        return None

    def is_as(self, binary, text):
        return self.pid() is not None and self.binary() == binary and self.file.read_text() == text

    def start(self, text, command, ready):
        """ready: called with what it has printed."""
        self.end()
        self.file.write_text(text)
        out = self.folder / f'{self.name}.out'
        with open(out, 'wb') as stdout, open(self.log, 'ab') as stderr:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, start_new_session=True,
                                       cwd=self.folder)
        (self.folder / f'{self.name}.pid').write_text(f'{process.pid}\n')
        until = time.monotonic() + READY_TIMEOUT
        while not ready(out.read_text()):
            if process.poll() is not None or time.monotonic() > until:
                self.end()
                raise WikiError(f'the {self.name} did not start; {self.log} ends:\n{tail(self.log)}')
            time.sleep(0.02)

    def end(self):
        pid = self.pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            until = time.monotonic() + END_TIMEOUT
            while self.pid() is not None:
                with contextlib.suppress(ChildProcessError):    # a child of ours is a zombie until it is waited for
                    os.waitpid(pid, os.WNOHANG)
                if time.monotonic() > until:
                    raise WikiError(f'the {self.name} (pid {pid}) does not end; its log is {self.log}')
                time.sleep(0.02)
        (self.folder / f'{self.name}.pid').unlink(missing_ok=True)


class Instance:
    """The server beside one wiki, and Varnish in front of it where that is installed."""

    def __init__(self, folder, version=None):
        self.folder = pathlib.Path(folder).resolve()
        self.wiki = Wiki(self.folder / 'wiki', version=version)
        self.server = Program('server', self.folder, 'server.yaml')
        self.varnish = Program('varnish', self.folder, 'edge.vcl')
        self.ports = {}

    def _ports(self):
        """Those they had, when they are free or still ours."""
        with contextlib.suppress(OSError, ValueError):
            self.ports = json.loads((self.folder / 'ports').read_text())
        for name, program in (('server', self.server), ('purge', self.server), ('varnish', self.varnish)):
            if name not in self.ports or (program.pid() is None and not is_free(self.ports[name])):
                self.ports[name] = free_port()
        (self.folder / 'ports').write_text(json.dumps(self.ports))

    def _rules(self, cached):
        """The example, with the ports of this folder; without a cache there is nothing to purge."""
        text = (EXAMPLES / 'edge.yaml').read_text()
        text = text.replace('127.0.0.1:7233', f'127.0.0.1:{self.ports["purge"]}')
        return text.replace('127.0.0.1:6081', f'127.0.0.1:{self.ports["varnish"]}') if cached else text.partition('  rules:')[0]

    def up(self, binary, pages, steps):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.wiki.up(pages, steps)
        self._ports()
        varnishd = shutil.which('varnishd', path=f'{os.environ["PATH"]}:/usr/sbin')
        port = self.ports['server']
        # Renders are offered at the wiki's own address, too: a browser may load the wiki's styles into them.
        config = json.loads(self.wiki.config(listen=f'127.0.0.1:{port}', data=str(self.folder / 'data'),
                                             public_url=f'{self.wiki.base}/api/rest_v1'))
        text = ''.join(f'{name}: {json.dumps(value)}\n' for name, value in config.items()) + self._rules(varnishd)
        if not self.server.is_as(binary, text):
            steps('starting the server')
            self.server.start(text, [binary, 'serve', '--config', self.server.file], lambda said: 'listening on ' in said)
        self.url = f'http://127.0.0.1:{port}'
        steps('having VisualEditor load and save through it')
        self.wiki.wire(self.url)
        (self.wiki / 'settings.d/edge.php').write_text('<?php $wgUseCdn = true; $wgCdnMaxAge = 0; '
                                                       f'$wgCdnServers = [ \'127.0.0.1:{self.ports["purge"]}\' ];\n')
        self.edge = None
        if varnishd:
            self._cache(os.path.realpath(varnishd), steps)

    def _cache(self, varnishd, steps):
        text = (EXAMPLES / 'edge.vcl').read_text().replace('"7231"', f'"{self.ports["server"]}"')
        self.edge = f'http://127.0.0.1:{self.ports["varnish"]}'
        if not self.varnish.is_as(varnishd, text):
            steps('starting Varnish in front of it')
            self.varnish.start(text, [varnishd, '-F', '-j', 'none', '-n', self.folder / 'varnish', '-f', self.varnish.file, '-a',
                                      f'127.0.0.1:{self.ports["varnish"]}', '-s', 'malloc,64m'],
                               lambda said: not is_free(self.ports['varnish']))
        until = time.monotonic() + READY_TIMEOUT
        while not self._keeps(PAGE):    # a new render is purged a moment after its first reader has it
            if time.monotonic() > until:
                raise WikiError(f'Varnish keeps no page; its log is {self.varnish.log}')
            time.sleep(0.05)

    def _keeps(self, page):
        with urllib.request.urlopen(f'{self.edge}/{DOMAIN}/v1/page/html/{page}', timeout=READY_TIMEOUT) as answer:
            return len(answer.headers['X-Varnish'].split()) == 2

    def down(self):
        """Ends everything, also when one of them will not end."""
        with contextlib.ExitStack() as ends:
            ends.callback(self.wiki.down)
            ends.callback(self.server.end)
            ends.callback(self.varnish.end)

    def describe(self, binary):
        base, page, version = self.wiki.base, PAGE, self.wiki.mediawiki.version()
        through = ', through Palimpsest'
        if not editor_is_wired(version):
            through = ''
            say(f'\nVisualEditor of MediaWiki {version} asks no server beside the wiki: the server hears of its edits by PURGE. All else '
                'below goes through the server.')
        say(f"""
read      {base}/wiki/Main_Page
edit      {base}/wiki/{page}?veaction=edit     VisualEditor{through}; no log-in is needed
diff      {base}/wiki/{page}?diff=cur&diffmode=visual
pages     {base}/wiki/Special:AllPages
log in    {base}/wiki/Special:UserLogin as {ADMIN}, password {PASSWORD}
render    {self.url}/{DOMAIN}/v1/page/html/{page}
varnish   {f'{self.edge}/{DOMAIN}/v1/page/html/{page}' if self.edge else 'is not installed: script/deps wiki'}
history   {self.url}/{DOMAIN}/v1/page/history/{page}
figures   {self.url}/metrics

$ export PALIMPSEST_SERVER={self.url}
$ {binary} get {page}
$ {binary} history {page}
$ curl -si '{self.url}/{DOMAIN}/v1/page/html/{quote("A_&_B?_100%")}' | head

To read what you just edited: "read" and "edit" are the wiki itself. "render", get and history show what is stored. The wiki
tells the server of each edit, so they show it as soon as it is made. What of a page is stored, and when the wiki was asked:

$ {binary} fresh why {DOMAIN} {page}
{self._describe_edge(binary, page)}
The wiki, MediaWiki {version}, is in {self.wiki.folder}, the server's configuration, store and log beside it.
End it with: script/run --wiki --down --dir {self.folder}""")

    def _describe_edge(self, binary, page):
        if self.edge is None:
            return ''
        return f"""
To see an edit arrive, type this in a second terminal, and leave it there:

$ {binary} change tail --server {self.url}

Then edit the page ("edit"), and ask Varnish for it. X-Varnish has two numbers when Varnish kept what it gives:

$ curl -si '{self.edge}/{DOMAIN}/v1/page/html/{page}' | tr -d '\\r' | grep -aioE '^(HTTP|ETag|Cache-Control|Age|X-Varnish).*|<p[ >].*'
"""


def say(text):
    print(text, flush=True)


def end(instance, steps):
    steps('ending Varnish, the server and the wiki')
    instance.down()
    steps.end()


def show(instance, binary, pages, steps, waits):
    signal.signal(signal.SIGINT, signal.default_int_handler)    # a shell in the background has its children ignore it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        instance.up(binary, pages, steps)
        steps.end()
        instance.describe(binary)
        if waits:
            say('Ctrl-C ends all of it')
            while True:
                signal.pause()
    except KeyboardInterrupt:
        say('')
        end(instance, steps)


def main():
    parser = argparse.ArgumentParser(prog='script/run --wiki', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--wiki', action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('--down', action='store_true', help='end it; the wiki and the store stay')
    parser.add_argument('--wait', action='store_true', help='until Ctrl-C, which ends it; so it is on a terminal')
    parser.add_argument('--stay', action='store_true', help='let it stay up, also on a terminal')
    parser.add_argument('--mediawiki', metavar='VERSION', help=f'{" or ".join(SUITES)}; fetched from the mirror of Debian when '
                        "the machine's own Debian has another [the machine's own]")
    parser.add_argument('--dir', help='where it lives [build/wiki; build/wiki-VERSION with --mediawiki]')
    parser.add_argument('--binary', help='run this program instead of building one')
    parser.add_argument('--pages', type=int, default=200, help='how many pages the wiki gets at least [200]')
    args = parser.parse_args()
    steps = Steps(sys.stdout)
    try:
        check_version(args.mediawiki)
        folder = args.dir or ROOT / ('build/wiki' if args.mediawiki is None else f'build/wiki-{args.mediawiki}')
        instance = Instance(folder, args.mediawiki)
        if args.down:
            end(instance, steps)
            return 0
        steps('looking for the packages it stands on')
        subprocess.run([ROOT / 'script/deps', 'wiki'], check=True)
        if args.binary is None:
            steps('building build/palimpsest')
            subprocess.run([ROOT / 'script/build'], stdout=subprocess.DEVNULL, check=True)
            args.binary = ROOT / 'build/palimpsest'
        binary = str(pathlib.Path(args.binary).resolve())
        if not os.access(binary, os.X_OK):
            raise WikiError(f'{binary} is no program')
        waits = args.wait or (not args.stay and sys.stdin.isatty() and sys.stdout.isatty())
        show(instance, binary, args.pages, steps, waits)
        return 0
    except subprocess.CalledProcessError as error:
        steps.end()
        print(f'script/run: {error.cmd[0]} failed', file=sys.stderr)
    except (WikiError, OSError) as error:
        steps.end()
        print(f'script/run: {error}', file=sys.stderr)
    return 1


if __name__ == '__main__':
    sys.exit(main())
