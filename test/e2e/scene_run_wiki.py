"""Goal: one command brings up a wiki behind a server, and another leaves nothing running. Method: script/run --wiki with
the binary under test, in a folder of its own; the addresses it prints are asked for."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import urllib.request

from rig import ROOT, TIME_UUID
from harness import check, eq, main, scene, wait_until

RUN_TIMEOUT = 500


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

    def run(self, *args):
        return subprocess.run([ROOT / 'script/run', '--wiki', '--binary', self.binary, '--dir', self.path, *args],
                              capture_output=True, text=True, timeout=RUN_TIMEOUT, check=False)

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
        said = folder.ok('--pages', '16')
        steps = re.findall(r'^(\w.*?) \.\.\. \d+\.\d s$', said, re.M)
        for step in ('installing MediaWiki', 'writing pages 1 to ', 'starting the server', 'having VisualEditor'):
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
        eq(len(TIME_UUID.findall(render)), 1, 'renders named in the head')
        port = re.search(r':(\d+)/', address['read'])[1]
        through = _get(f'http://127.0.0.1:{port}/api/rest_v1/page/html/Edited_page?redirect=false')[1]
        eq(through, render, "the wiki's own address hands on")
        eq(_addresses(folder.ok('--pages', '16')), address, 'the addresses of a second run')
        eq(_get(address['render'])[1], render, 'the same server')
        folder.ok('--down')
        wait_until(lambda: not folder.running(), f'all have ended: {folder.running()}')
        eq(_addresses(folder.ok('--pages', '16')), address, 'the addresses after a restart')
        eq(_get(address['render'])[1], render, 'the store stayed')
        subprocess.run(['kill', '-KILL', (folder.path / 'server.pid').read_text().strip()], check=True)
        wait_until(lambda: not any('serve --config' in command for command in folder.running()), 'the server is gone')
        eq(_addresses(folder.ok('--pages', '16')), address, 'the addresses when it had died')
        eq(_get(address['render'])[1], render, 'what died is started again')


@scene
def what_is_wrong_is_said(binary):
    with Folder(binary) as folder:
        for args, code, says in ((['--binary', '/nonexistent'], 1, 'is no program'), (['--bogus'], 2, 'unrecognized'),
                                 (['--dir', '/tmp/a b'], 1, 'may hold only')):
            done = folder.run(*args)
            eq(done.returncode, code, ' '.join(args))
            check(says in done.stderr, done.stderr)


main()
