"""Goal: one command brings up a wiki behind a server, and another leaves nothing running. Method: script/run --wiki with
the binary under test, in a folder of its own; the addresses it prints are asked for."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.request

from rig import ROOT, TIME_UUID
from harness import check, eq, main, scene, wait_until
from mediawiki import INSTALLED, SUITES
from wiki import Wiki

RUN_TIMEOUT = 500
VERSION = os.environ.get('WIKI_VERSION') or INSTALLED.version()
OTHER = next(version for version in SUITES if version != VERSION)
NOT_INSTALLED = next(version for version in SUITES if version != INSTALLED.version())


class Folder:
    """A folder for one run, gone at the end with all that runs in it."""

    def __init__(self, binary):
        self.binary = str(pathlib.Path(binary).resolve())
        self.path = pathlib.Path(tempfile.mkdtemp(prefix='run-wiki-'))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.run('--down')
        shutil.rmtree(self.path, ignore_errors=True)

    def run(self, *args, **env):
        return subprocess.run([ROOT / 'script/run', '--wiki', '--binary', self.binary, '--dir', self.path, *args],
                              capture_output=True, text=True, timeout=RUN_TIMEOUT, check=False, env={**os.environ, **env})

    def ok(self, *args):
        done = self.run(*args)
        eq(done.returncode, 0, done.stderr)
        return done.stdout

    def running(self):
        """Processes that name the folder, or stand in it."""
        found = []
        for process in pathlib.Path('/proc').glob('[0-9]*'):
            try:
                command = (process / 'cmdline').read_bytes()
                if str(self.path).encode() in command or str(self.path) in str((process / 'cwd').readlink()):
                    found.append(command.replace(b'\0', b' ').decode())
            except OSError:    # it ended meanwhile
                continue
        return found


class Lines:
    """What a program says, line by line as it comes; it is ended by its pid."""

    def __init__(self, command, **named):
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                        start_new_session=True, **named)
        self.text = ''
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        for line in self.process.stdout:
            self.text += line

    def wait(self, pattern, timeout=RUN_TIMEOUT):
        wait_until(lambda: re.search(pattern, self.text, re.M) or self.process.poll() is not None, f'{pattern} in {self.text}', timeout)
        found = re.search(pattern, self.text, re.M)
        check(found, f'{pattern} is not in what was said: {self.text}')
        return found

    def end(self, number):
        """Its status."""
        if self.process.poll() is None:
            os.kill(self.process.pid, number)
        status = self.process.wait(RUN_TIMEOUT)
        self.reader.join()
        return status

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.end(signal.SIGKILL)


def _addresses(said):
    return dict(re.findall(r'^(\w[\w ]*?)  +(http://\S+)', said, re.M))


def _get(url):
    with urllib.request.urlopen(url, timeout=RUN_TIMEOUT) as answer:
        return answer.status, answer.read().decode()


def _policy(url):
    with urllib.request.urlopen(url, timeout=RUN_TIMEOUT) as answer:
        return answer.headers['Content-Security-Policy']


@scene
def it_comes_up_twice_and_goes_down_whole(binary):
    with Folder(binary) as folder:
        said = folder.ok('--pages', '16', '--mediawiki', VERSION)
        check(f'MediaWiki {VERSION}, is in {folder.path}' in said, said)
        steps = re.findall(r'^(\w.*?) \.\.\. \d+\.\d s$', said, re.M)
        for step in ('installing MediaWiki', 'writing releases 1 to ', 'starting the server', 'having VisualEditor'):
            check(any(line.startswith(step) for line in steps), f'{step}, and how long: {said}')
        address = _addresses(said)
        eq(_get(address['read'])[0], 200)
        check('VisualEditor' in _get(address['edit'])[1], 'the editor is offered')
        render, policy = _get(address['render'])[1], _policy(address['render'])
        base = re.match('http://[^/]+', address['read'])[0]
        check(f' {base} ' in policy, f'styles of the wiki: {policy}')
        diff = _get(address['diff'])[1]
        check('says something else' in diff and '(No difference)' not in diff, 'there is a difference to show')
        check('what you just edited' in said, 'how to read an edit')
        eq(_get(address['varnish'])[1], render, 'Varnish is in front')
        eq(len(TIME_UUID.findall(render)), 1, 'renders named in the head')
        port = re.search(r':(\d+)/', address['read'])[1]
        through = _get(f'http://127.0.0.1:{port}/api/rest_v1/page/html/Edited_page?redirect=false')[1]
        eq(through, render, "the wiki's own address hands on")
        eq(_addresses(folder.ok('--pages', '16')), address, 'the addresses of a second run')
        eq(_get(address['render'])[1], render, 'the same server')
        refused = folder.run('--mediawiki', OTHER)
        eq((refused.returncode, f'was made with MediaWiki {VERSION}, not {OTHER}' in refused.stderr), (1, True), refused.stderr)
        folder.ok('--down')
        wait_until(lambda: not folder.running(), f'all have ended: {folder.running()}')
        eq(_addresses(folder.ok('--pages', '16')), address, 'the addresses after a restart')
        eq(_get(address['render'])[1], render, 'the store stayed')
        subprocess.run(['kill', '-KILL', (folder.path / 'server.pid').read_text().strip()], check=True)
        wait_until(lambda: not any('serve --config' in command for command in folder.running()), 'the server is gone')
        eq(_addresses(folder.ok('--pages', '16')), address, 'the addresses when it had died')
        eq(_get(address['render'])[1], render, 'what died is started again')


@scene
def an_edit_arrives_in_a_second_terminal_and_in_varnish(binary):
    """The two commands that are printed are typed as they stand."""
    with Folder(binary) as folder, Lines([ROOT / 'script/run', '--wiki', '--wait', '--binary', folder.binary, '--dir', folder.path, '--pages', '16',
                                          '--mediawiki', VERSION]) as run:
        run.wait('^Ctrl-C ends all of it')
        typed = re.findall(r'^\$ (.*(?:change tail|curl -si).*)$', run.text.partition('second terminal')[2], re.M)
        eq(len(typed), 2, run.text)

        def curl():
            done = subprocess.run(['sh', '-c', typed[1]], capture_output=True, text=True, timeout=60, check=True)
            return done.stdout

        def kept():
            return re.search(r'^X-Varnish: \d+ \d+$', curl(), re.M)

        with Lines(['sh', '-c', f'exec {typed[0]}']) as tail:
            wait_until(kept, 'Varnish keeps the page', 60)
            check('s-maxage=86400' in curl(), curl())
            word = f'arrived-{os.getpid()}'
            rev = Wiki(folder.path / 'wiki').edit('Edited_page', f'This edit has {word}.')
            tail.wait(r'^\S+Z\s+palimpsest\.dated\s+localhost\s+Edited_page\s+\d+\s+revision$', 60)
            wait_until(lambda: word in curl(), 'Varnish has the edit', 60)
            tail.wait(rf'^\S+Z\s+palimpsest\.render\s+localhost\s+Edited_page\s+{rev}\s', 60)
            wait_until(kept, 'Varnish keeps the edit', 60)
            check(word in curl(), 'kept')
            eq(run.end(signal.SIGINT), 0, run.text)
        wait_until(lambda: not folder.running(), f'all have ended: {folder.running()}')
        check('ending Varnish, the server and the wiki' in run.text, run.text)


@scene
def what_is_wrong_is_said(binary):
    with Folder(binary) as folder:
        for args, code, says in ((['--binary', '/nonexistent'], 1, 'is no program'), (['--bogus'], 2, 'unrecognized'),
                                 (['--dir', '/tmp/a b'], 1, 'may hold only'),
                                 (['--mediawiki', '1.12'], 1, 'there is no MediaWiki 1.12 to be had here, but 1.39 and 1.43'),
                                 (['--mediawiki', '../x', '--down'], 1, 'there is no MediaWiki ../x')):
            done = folder.run(*args)
            eq(done.returncode, code, ' '.join(args))
            check(says in done.stderr, done.stderr)


@scene
def a_mirror_that_cannot_be_reached_is_told_and_leaves_nothing(binary):
    with Folder(binary) as folder, tempfile.TemporaryDirectory() as away:
        away = pathlib.Path(away)
        apt, nobody = away / 'apt-get', ' '.join(f'-o Acquire::{scheme}::Proxy=http://127.0.0.1:1' for scheme in ('http', 'https'))
        apt.write_text(f'#!/bin/sh\nexec {shutil.which("apt-get")} {nobody} "$@"\n')
        apt.chmod(0o755)
        path = f'{away}:{os.environ["PATH"]}'
        done = folder.run('--mediawiki', NOT_INSTALLED, PATH=path, XDG_CACHE_HOME=str(away / 'cache'))
        eq(done.returncode, 1, done.stderr)
        check(re.search(r'script/run: fetching from http.* failed:\n', done.stderr), done.stderr)
        check('127.0.0.1:1' in done.stderr, done.stderr)
        eq(list((away / 'cache').rglob('*.deb')), [])
        eq([path.name for path in (away / 'cache/palimpsest/mediawiki').iterdir()], [f'{NOT_INSTALLED}.lock'])


main()
