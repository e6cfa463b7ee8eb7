"""Goal: one command shows the main job on a repository, and the lines it prints work when they are pasted.
Method: script/run with the binary under test, on a repository made here and on this one."""
import pathlib
import re
import shutil
import subprocess
import tempfile

from harness import check, eq, main, scene, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Folder:
    """A folder for one run, gone at the end with the server in it."""

    def __init__(self, binary):
        self.binary = str(pathlib.Path(binary).resolve())
        self.path = pathlib.Path(tempfile.mkdtemp(prefix='run-'))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.run('--down')
        shutil.rmtree(self.path, ignore_errors=True)

    def run(self, *args):
        return subprocess.run([str(ROOT / 'script/run'), '--binary', self.binary, '--dir', str(self.path / 'run'), *args],
                              capture_output=True, text=True, timeout=500, check=False, cwd=self.path)

    def repository(self):
        git = ['git', '-C', str(self.path / 'r'), '-c', 'user.name=A', '-c', 'user.email=a@example.test']
        subprocess.run(['git', 'init', '-q', str(self.path / 'r')], check=True, timeout=60)
        for n in range(4):
            (self.path / 'r' / "it's ü & 100%.md").write_text(f'# Heading {n}\n')
            (self.path / 'r' / f'{n}.txt').write_text(f'{n}\n')
            subprocess.run([*git, 'add', '-A'], check=True, timeout=60)
            subprocess.run([*git, 'commit', '-q', '-m', 'm'], check=True, timeout=60)
        return str(self.path / 'r')


def _commands(output):
    return re.findall(r'^\$ (curl .*)$', output, re.M)


@scene
def it_shows_every_kind_of_read_and_ends_its_server(binary):
    with Folder(binary) as folder:
        done = folder.run(folder.repository())
        eq(done.returncode, 0, done.stderr)
        check('4 commits: 8 revisions stored' in done.stdout, done.stdout)
        check("it's ü & 100%.md: its latest render" in done.stdout, done.stdout)
        eq(len(_commands(done.stdout)), 7)
        eq(done.stdout.count('HTTP/1.1 200 OK'), 3)
        for piece in ('<h1>Heading 3</h1>', '<h1>Heading 0</h1>', '# Heading 2', '"state": "current"',
                      '"state": "recent"', '"policy": "app_ttl"'):
            check(piece in done.stdout, f'{piece} is not in {done.stdout}')
        check(not (folder.path / 'run/pid').exists(), 'the server was left running')


@scene
def what_it_prints_can_be_pasted_until_down(binary):
    with Folder(binary) as folder:
        done = folder.run('--stay', folder.repository())
        eq(done.returncode, 0, done.stderr)
        pid = int((folder.path / 'run/pid').read_text())
        for command in _commands(done.stdout):
            pasted = subprocess.run(['sh', '-c', command], capture_output=True, text=True, timeout=60, check=False)
            eq(pasted.returncode, 0, command)
            line = next(line for line in pasted.stdout.splitlines() if 'HTTP/1.1' in line or '"' in line)
            check(line.strip() in done.stdout, f'{command}: {pasted.stdout}')
        again = folder.run('--stay', folder.repository())
        eq(again.returncode, 0, again.stderr)
        check(not pathlib.Path(f'/proc/{pid}/exe').exists(), 'the first server still runs')
        pid = int((folder.path / 'run/pid').read_text())
        eq(folder.run('--down').returncode, 0)
        wait_until(lambda: not pathlib.Path(f'/proc/{pid}/exe').exists(), 'the server ends')


@scene
def this_repository_is_its_own_example(binary):
    if not (ROOT / '.git').exists():
        return
    with Folder(binary) as folder:
        done = folder.run()
        eq(done.returncode, 0, done.stderr)
        eq(done.stdout.count('HTTP/1.1 200 OK'), 3)


@scene
def what_is_no_repository_is_said(binary):
    with Folder(binary) as folder:
        for wrong, says in ((['/nonexistent'], 'is no git repository'), (['--bogus'], 'unknown option'),
                            (['a', 'b'], 'one repository')):
            done = folder.run(*wrong)
            eq(done.returncode, 1, ' '.join(wrong))
            check(says in done.stderr, done.stderr)


main()
