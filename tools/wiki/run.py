#!/usr/bin/env python3
"""script/run --wiki: a real wiki with VisualEditor, and a server it loads and saves through, both on loopback.

They stay up until script/run --wiki --down. Everything lives in the folder given with --dir: the wiki, the server's
configuration, store, log and pid. Called again it starts what is not running and keeps the pages. A folder keeps the
version of MediaWiki that its wiki was made with.
"""
import argparse
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

from mediawiki import SUITES, check_version, editor_is_wired
from wiki import ADMIN, DOMAIN, PASSWORD, Steps, Wiki, WikiError, free_port, is_free, quote, tail

ROOT = pathlib.Path(__file__).resolve().parents[2]
READY_TIMEOUT = 90
END_TIMEOUT = 90


class Instance:
    """The server beside one wiki."""

    def __init__(self, folder, version=None):
        self.folder = pathlib.Path(folder).resolve()
        self.wiki = Wiki(self.folder / 'wiki', version=version)

    def pid(self):
        """The server's pid, or None when it is not running: another program may have got its number."""
        try:
            pid = int((self.folder / 'server.pid').read_text())
            command = pathlib.Path(f'/proc/{pid}/cmdline').read_bytes().split(b'\0')
        except (OSError, ValueError):
            return None
        return pid if str(self.folder / 'server.yaml').encode() in command else None

    def _binary(self):
        with contextlib.suppress(OSError):
            return os.readlink(f'/proc/{self.pid()}/exe')
        return None

    def _port(self):
        """The one it had, when that is free."""
        with contextlib.suppress(OSError, ValueError, KeyError):
            port = int(json.loads((self.folder / 'server.yaml').read_text())['listen'].rpartition(':')[2])
            if self.pid() is not None or is_free(port):
                return port
        return free_port()

    def up(self, binary, pages, steps):
        self.folder.mkdir(parents=True, exist_ok=True)
        self.wiki.up(pages, steps)
        port = self._port()
        # Renders are offered at the wiki's own address, too: a browser may load the wiki's styles into them.
        text = self.wiki.config(listen=f'127.0.0.1:{port}', data=str(self.folder / 'data'),
                                public_url=f'{self.wiki.base}/api/rest_v1')
        file = self.folder / 'server.yaml'
        if self.pid() is None or self._binary() != binary or file.read_text() != text:
            steps('starting the server')
            self.end_server()
            file.write_text(text)
            self._start(binary, file)
        self.url = f'http://127.0.0.1:{port}'
        steps('having VisualEditor load and save through it')
        self.wiki.wire(self.url)

    def _start(self, binary, file):
        out, log = self.folder / 'server.out', self.folder / 'server.log'
        with open(out, 'wb') as stdout, open(log, 'ab') as stderr:
            process = subprocess.Popen([binary, 'serve', '--config', file], stdin=subprocess.DEVNULL, stdout=stdout,
                                       stderr=stderr, start_new_session=True, cwd=self.folder)
        (self.folder / 'server.pid').write_text(f'{process.pid}\n')
        until = time.monotonic() + READY_TIMEOUT
        while 'listening on ' not in out.read_text():
            if process.poll() is not None or time.monotonic() > until:
                self.end_server()
                raise WikiError(f'the server did not start; {log} ends:\n{tail(log)}')
            time.sleep(0.02)

    def end_server(self):
        pid = self.pid()
        if pid is not None:
            os.kill(pid, signal.SIGTERM)
            until = time.monotonic() + END_TIMEOUT
            while self.pid() is not None:
                if time.monotonic() > until:
                    raise WikiError(f'the server (pid {pid}) does not end; its log is {self.folder / "server.log"}')
                time.sleep(0.02)
        (self.folder / 'server.pid').unlink(missing_ok=True)

    def down(self):
        """Ends everything, also when the server will not end."""
        try:
            self.end_server()
        finally:
            self.wiki.down()

    def describe(self, binary):
        base, page, version = self.wiki.base, 'Edited_page', self.wiki.mediawiki.version()
        through = ', through Palimpsest'
        if not editor_is_wired(version):
            through = ''
            say(f'\nVisualEditor of MediaWiki {version} asks no server beside the wiki: it edits, and the server does not hear '
                'of it. All else below goes through the server.')
        say(f"""
read      {base}/wiki/Main_Page
edit      {base}/wiki/{page}?veaction=edit     VisualEditor{through}; no log-in is needed
diff      {base}/wiki/{page}?diff=cur&diffmode=visual
pages     {base}/wiki/Special:AllPages
log in    {base}/wiki/Special:UserLogin as {ADMIN}, password {PASSWORD}
render    {self.url}/{DOMAIN}/v1/page/html/{page}
history   {self.url}/{DOMAIN}/v1/page/history/{page}
figures   {self.url}/metrics

$ export PALIMPSEST_SERVER={self.url}
$ {binary} get {page}
$ {binary} history {page}
$ curl -si '{self.url}/{DOMAIN}/v1/page/html/{quote("A_&_B?_100%")}' | head

To read what you just edited: "read" and "edit" are the wiki itself and show it at once. "render", get and history show
what is stored. The server asks the wiki again when it was asked a minute ago, so the page before your edit may be there for
that long. What of it is stored, and how long ago the wiki was asked:

$ {binary} fresh why {DOMAIN} {page}

The wiki, MediaWiki {version}, is in {self.wiki.folder}, the server's configuration, store and log beside it.
End it with: script/run --wiki --down --dir {self.folder}""")


def say(text):
    print(text, flush=True)


def main():
    parser = argparse.ArgumentParser(prog='script/run --wiki', description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--wiki', action='store_true', help=argparse.SUPPRESS)
    parser.add_argument('--down', action='store_true', help='end it; the wiki and the store stay')
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
            steps('ending the server and the wiki')
            instance.down()
            steps.end()
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
        instance.up(binary, args.pages, steps)
        steps.end()
        instance.describe(binary)
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
