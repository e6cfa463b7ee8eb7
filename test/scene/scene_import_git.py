"""Goal: after `import git` every commit that touched a text document is a revision of its page, with the commit's time,
and importing again, or going on, changes nothing but what is new.
Method: repositories made here, of every odd kind, and this very one; git itself says what must be stored."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.parse

from cli import CALL_TIMEOUT, Client
from harness import Server, check, eq, free_port, main, scene, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
START = 1700000000


class Repository:
    """A repository whose commits have times of their own, a minute apart."""

    def __init__(self, folder):
        self.path = pathlib.Path(folder)
        self.time = START
        subprocess.run(['git', 'init', '-q', '-b', 'main', str(self.path)], check=True, timeout=60)

    def git(self, *args, stdin=None):
        env = {**os.environ, 'GIT_AUTHOR_DATE': f'{self.time} +0000', 'GIT_COMMITTER_DATE': f'{self.time} +0000',
               'GIT_CONFIG_GLOBAL': '/dev/null', 'GIT_AUTHOR_NAME': 'A', 'GIT_AUTHOR_EMAIL': 'a@example.test',
               'GIT_COMMITTER_NAME': 'A', 'GIT_COMMITTER_EMAIL': 'a@example.test'}
        return subprocess.run(['git', '-C', str(self.path), *args], input=stdin, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, check=True, timeout=120, env=env).stdout

    def write(self, name, data):
        name = os.fsencode(name) if isinstance(name, str) else name
        path = os.path.join(os.fsencode(self.path), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'wb') as file:
            file.write(data.encode() if isinstance(data, str) else data)

    def commit(self, message='m', **files):
        """files: further ones through write(). Returns the commit's id."""
        self.time += 60
        for name, data in files.items():
            self.write(name, data)
        self.git('add', '-A')
        self.git('commit', '-q', '--allow-empty', '-m', message)
        return self.git('rev-parse', 'HEAD').decode().strip()

    def history(self, ref='HEAD'):
        return self.git('rev-list', '--reverse', '--date-order', ref).decode().split()


def url_of(title):
    return urllib.parse.quote(title, safe='')


def source(server, title, *name):
    answer = server.request_again('GET', '/'.join(['/localhost/v1/page/source', url_of(title), *map(str, name)]))
    return answer.body if answer.status == 200 else answer.status


def revisions(client, title):
    return [item['rev'] for item in reversed(client.json('history', title))]


@scene
def commits_become_revisions_with_their_times(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        repository.commit(**{'README.md': '# One\n', 'src/a.c': 'int a = 1 < 2;\n'})
        repository.commit(**{'README.md': '# Two\n\n| a |\n|---|\n| 1 |\n'})
        repository.commit('nothing')
        repository.commit(**{'README.md': '# Three\n', 'src/a.c': 'int a;\n'})
        done, = client.json('import', 'git', 'r')
        eq({k: done[k] for k in ('commits', 'documents', 'stored', 'already', 'refused')},
           {'commits': 4, 'documents': 2, 'stored': 5, 'already': 0, 'refused': 0})
        eq(revisions(client, 'README.md'), [1, 2, 4])
        eq(revisions(client, 'src/a.c'), [1, 4])
        for rev, text in ((1, b'# One\n'), (4, b'# Three\n')):
            eq(source(server, 'README.md', rev), text)
        html = server.request('GET', '/localhost/v1/page/html/README.md/2')
        check(b'<h1>Two</h1>' in html.body and b'<td>1</td>' in html.body, html.body)
        eq(html.headers['content-type'], 'text/html; charset=utf-8')
        check(b'<pre>int a = 1 &lt; 2;' in server.request('GET', '/localhost/v1/page/html/src%2Fa.c/1').body, 'escapes')
        times = [item['rendered_at'] for item in client.json('history', 'README.md')]
        eq(times, [time.strftime('%Y-%m-%dT%H:%M:%S.000Z', time.gmtime(START + 60 * n)) for n in (4, 2, 1)])


@scene
def names_that_are_one_title_are_told(binary):
    composed, apart = 'caf\u00e9.md', 'cafe\u0301.md'    # one title: NFC makes them the same
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        repository.commit(**{apart: 'apart 1\n', composed: 'composed 1\n', 'plain.md': 'x\n'})
        repository.commit(**{composed: 'composed 2\n'})
        done = client('import', 'git', 'r', '--json')
        eq(done.returncode, 0, done.stderr)
        eq({k: json.loads(done.stdout)[k] for k in ('stored', 'refused', 'same_title')},
           {'stored': 3, 'refused': 0, 'same_title': 1})
        check(b'same title as another file of this commit' in done.stderr, done.stderr)
        check(b'alone, so their revisions mix' in done.stderr, done.stderr)
        eq((source(server, composed, 1), source(server, apart, 2)), (b'apart 1\n', b'composed 2\n'))
        again, = client.json('import', 'git', 'r')
        eq((again['stored'], again['imported_before'], again['same_title']), (0, 4, 1))
        repository.git('rm', '-q', apart)
        repository.commit()
        repository.commit(**{composed: 'composed 3\n'})
        done = client('import', 'git', 'r', '--restart')
        eq((done.returncode, done.stderr.count(b'mix')), (0, 1), 'of two that are not there together nothing is said')
        eq(source(server, composed), b'composed 3\n')


@scene
def a_history_that_was_cut_is_told(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        for n in range(5):
            repository.commit(**{'a.md': f'{n}\n'})
        subprocess.run(['git', 'clone', '-q', '--depth', '2', f'file://{repository.path}', str(client.folder / 'cut')],
                       check=True, timeout=60)
        done = client('import', 'git', 'cut', '--json')
        eq((done.returncode, json.loads(done.stdout)['shallow'], json.loads(done.stdout)['stored']), (0, True, 2))
        check(b'git fetch --unshallow' in done.stderr, done.stderr)
        with Server(binary) as other:
            whole = Client(binary, other, client.folder)('import', 'git', 'r', '--json')
            eq((json.loads(whole.stdout)['shallow'], whole.stderr), (False, b''))


@scene
def importing_again_changes_nothing_and_goes_on_with_what_is_new(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        for n in range(30):
            repository.commit(**{'a.md': f'{n}\n', f'd/{n}.txt': f'{n}'})
        eq(client.json('import', 'git', 'r')[0]['stored'], 60)
        before = client.json('history', 'a.md')
        again, = client.json('import', 'git', 'r')
        eq((again['stored'], again['already'], again['imported_before']), (0, 0, 60))
        again, = client.json('import', 'git', 'r', '--restart')
        eq((again['stored'], again['already'], again['imported_before']), (0, 60, 0))
        eq(client.json('history', 'a.md'), before)
        repository.commit(**{'a.md': 'new\n'})
        again, = client.json('import', 'git', 'r')
        eq((again['stored'], again['already'], again['imported_before']), (1, 0, 60))
        eq(source(server, 'a.md'), b'new\n')
        with Server(binary) as other:
            fresh = Client(binary, other, client.folder)
            eq(fresh.json('import', 'git', 'r')[0]['stored'], 61, 'another server knows nothing yet')


@scene
def a_server_that_lost_its_store_gets_everything_again(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        repository.commit(**{'a.md': '1\n'})
        repository.commit(**{'a.md': '2\n'})
        eq(client.json('import', 'git', 'r', '--state', 's')[0]['stored'], 2)
        client.ok('rm', 'a.md')
        done, = client.json('import', 'git', 'r', '--state', 's')
        eq((done['imported_before'], done['stored'], done['refused']), (0, 0, 2), 'purged renders stay refused')
        with Server(binary) as other:
            fresh = Client(binary, other, client.folder)
            eq(fresh.json('import', 'git', 'r', '--state', 's')[0]['stored'], 2)


@scene
def a_rewritten_history_is_sent_from_its_start(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        repository.commit(**{'a.md': '1\n'})
        repository.commit(**{'a.md': '2\n'})
        client.ok('import', 'git', 'r')
        repository.git('reset', '-q', '--hard', 'HEAD~1')
        repository.time += 1
        repository.commit(**{'a.md': 'other\n'})
        done = client('import', 'git', 'r', '--json')
        check(b'rewritten' in done.stderr, done.stderr)
        eq(source(server, 'a.md'), b'other\n')


@scene
def a_repository_runs_nothing_of_its_own(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        repository.commit(**{'a.md': 'a\n', 'b.md': 'b\n'})
        ran = client.folder / 'ran'
        program = client.folder / 'program'
        program.write_text(f'#!/bin/sh\necho "$0 $*" >> {ran}\n')
        program.chmod(0o755)
        for name in ('core.fsmonitor', 'core.sshCommand', 'diff.external', 'diff.x.textconv', 'diff.x.command', 'core.pager',
                     'core.editor', 'gpg.program', 'filter.x.smudge', 'filter.x.process', 'core.askPass',
                     'core.alternateRefsCommand', 'uploadpack.packObjectsHook', 'credential.helper'):
            repository.git('config', name, str(program))
        for name, value in (('extensions.partialClone', 'origin'), ('remote.origin.url', f'ext::{program}'),
                            ('remote.origin.promisor', 'true'), ('protocol.ext.allow', 'always'),
                            ('log.showSignature', 'true'), ('core.repositoryFormatVersion', '1')):
            repository.git('config', name, value)
        (repository.path / '.git' / 'info' / 'attributes').write_text('*.md diff=x filter=x\n')
        blob = repository.git('rev-parse', 'HEAD:b.md').decode().strip()
        ran.unlink(missing_ok=True)                         # of our own calls
        (repository.path / '.git' / 'objects' / blob[:2] / blob[2:]).unlink()
        done = client('import', 'git', 'r')
        check(not ran.exists(), ran.exists() and ran.read_text())
        eq(done.returncode, 1, 'a blob is missing')


@scene
def deletions_store_nothing_and_renames_are_new_pages(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        repository.commit(**{'old.md': 'text\n' * 50, 'gone.md': 'x\n'})
        repository.git('mv', 'old.md', 'new.md')
        repository.git('rm', '-q', 'gone.md')
        repository.commit()
        repository.commit(**{'gone.md': 'back\n'})
        done, = client.json('import', 'git', 'r')
        eq((done['stored'], done['documents'], done['deleted']), (4, 2, 2))
        eq(client.ok('ls').split(), ['gone.md', 'new.md', 'old.md'])
        eq(revisions(client, 'old.md'), [1])
        eq(revisions(client, 'new.md'), [2])
        eq(revisions(client, 'gone.md'), [1, 3])


@scene
def odd_names_are_titles_or_are_left_out_by_name(binary):
    names = ['a b.md', '-dash.md', '--help', 'ü.md', '100%.md', '%2F', 'q?&#.md', 'quote\'".md', 'back\\slash', '+',
             '*.md', '[x]', '$(touch x)', '`id`', 'e\u0301.md', 'd' * 100 + '/' + 'e' * 200, '.hidden']
    refused = {'new\nline.md': 400, 'tab\tname': 400, ('f' * 100 + '/') * 5 + 'x': 400}
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        for name in [*names, *refused, b'\xff\xfe.md']:
            repository.write(name, f'content of {name}\n' if isinstance(name, str) else b'x')
        repository.commit()
        done = client('import', 'git', '--json', '--', 'r')
        eq(done.returncode, 0, repr(done.stderr))
        eq(done.stderr.count(b'left out'), len(refused) + 1, repr(done.stderr))
        check(b'is not UTF-8' in done.stderr, done.stderr)
        for name in names:
            eq(source(server, name), f'content of {name}\n'.encode(), name)
        for name in refused:
            eq(source(server, name), 400, name)
        check(not (client.folder / 'x').exists(), 'a name was run by a shell')
        eq(len(client.ok('ls').splitlines()), len(names))


@scene
def what_is_no_text_is_left_out(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        repository.write('binary', b'a\0b')
        repository.write('latin.txt', b'caf\xe9')
        repository.write('large.txt', b'x' * (2 << 20) + b'y')
        repository.write('just.txt', b'x' * (2 << 20))
        repository.write('empty.md', b'')
        repository.write('script.sh', '#!/bin/sh\n')
        os.chmod(repository.path / 'script.sh', 0o755)
        os.symlink('empty.md', repository.path / 'link.md')
        os.symlink('/etc/passwd', repository.path / 'evil.md')
        repository.commit()
        done, = client.json('import', 'git', 'r')
        eq((done['stored'], done['binary'], done['too_large']), (3, 2, 1))
        eq(client.ok('ls').split(), ['empty.md', 'just.txt', 'script.sh'])
        eq(len(source(server, 'just.txt')), 2 << 20)
        eq(source(server, 'empty.md'), b'')


def _tree(repository):
    names = repository.git('ls-tree', '-r', '-z', '--name-only', 'HEAD').split(b'\0')[:-1]
    return {name.decode(): repository.git('show', f'HEAD:{name.decode()}') for name in names}


@scene
def merges_leave_every_page_as_the_tree_says(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        repository.commit(**{'both.md': '1\n', 'left.md': '1\n', 'right.md': '1\n', 'ours.md': '1\n'})
        repository.git('checkout', '-q', '-b', 'side')
        repository.commit(**{'both.md': 'side\n', 'right.md': 'side\n', 'ours.md': 'side\n', 'new.md': 'n\n'})
        repository.git('checkout', '-q', 'main')
        repository.commit(**{'both.md': 'main\n', 'left.md': 'main\n'})
        repository.git('checkout', '-q', 'side')
        repository.commit(**{'right.md': 'side 2\n'})
        repository.git('checkout', '-q', 'main')
        repository.git('merge', '--quiet', '-s', 'ours', '--no-commit', 'side')
        repository.git('checkout', 'side', '--', 'right.md', 'new.md')
        repository.commit('merge', **{'both.md': 'merged\n'})
        done, = client.json('import', 'git', 'r')
        for name, text in _tree(repository).items():
            eq(source(server, name), text, name)
        eq(revisions(client, 'left.md'), [1, 3])
        eq(revisions(client, 'right.md'), [1, 2, 4], 'the merge brought nothing new here')
        eq(revisions(client, 'new.md'), [2])
        eq(revisions(client, 'both.md'), [1, 2, 3, 5])
        eq(revisions(client, 'ours.md'), [1, 2, 5], 'the merge took the older text back')
        eq(done['commits'], 5)


@scene
def a_pattern_takes_only_what_matches(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        repository.commit(**{'a.md': '1\n', 'b.txt': '1\n', 'd/c.md': '1\n'})
        eq(client.json('import', 'git', 'r', '--match', '*.md')[0]['stored'], 2)
        long = ['*' * 20000 + '.m' + last for last in 'dt']   # as long as a shell lets it be
        eq([client.json('import', 'git', 'r', '--match', one)[0]['imported_before'] for one in (long[0], long[0])], [0, 2])
        eq(client.json('import', 'git', 'r', '--match', long[1])[0]['imported_before'], 0, 'another import')
        client.ok('import', 'git', 'r', '--match', long[0], '--state', 's')
        done = client('import', 'git', 'r', '--match', long[1], '--state', 's')
        check(done.returncode == 6 and b'is of another import, "import git --ref HEAD --match ***' in done.stderr, done)
        eq(client.ok('ls').split(), ['a.md', 'd/c.md'])
        repository.git('tag', 'first')
        repository.commit(**{'a.md': '2\n'})
        eq(client.json('import', 'git', 'r', '--ref', 'first', '--restart')[0]['commits'], 1)
        eq(source(server, 'a.md'), b'1\n')


@scene
def what_is_no_repository_is_said(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for args in (['import', 'git', '/'], ['import', 'git', 'nowhere'], ['import', 'git', 'r'],
                     ['import', 'git', 'r', '--ref', '--all']):
            if args[2] == 'r' and not (client.folder / 'r').exists():
                Repository(client.folder / 'r')
            done = client(*args)
            eq(done.returncode, 1, ' '.join(args))
            check(b'cannot list the history' in done.stderr, done.stderr)


@scene
def a_document_that_git_cannot_read_is_left_out_alone(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        repository.commit(**{'a.md': 'a', 'gone.md': 'this one is gone', 'bad.md': 'this one is damaged'})
        repository.commit(**{'b.md': 'b'})
        for name in ('gone.md', 'bad.md'):
            blob = repository.git('rev-parse', f'HEAD:{name}').decode().strip()
            path = repository.path / '.git' / 'objects' / blob[:2] / blob[2:]
            path.chmod(0o644)
            if name == 'gone.md':
                path.unlink()
            else:
                path.write_bytes(b'no object')
        done = client('import', 'git', 'r')
        eq(done.returncode, 1, done.stderr)
        check(b'2 revisions stored' in done.stdout and b'2 unreadable left out' in done.stdout, done.stdout)
        for words in (b'left out: gone.md revision 1: ', b'left out: bad.md revision 1: ', b'2 documents cannot be read'):
            check(words in done.stderr, done.stderr)
        eq(sorted(client.ok('ls').splitlines()), ['a.md', 'b.md'])


@scene
def a_signal_to_all_of_it_counts_and_goes_on(binary):
    """As a terminal sends it: git gets it, too."""
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        for n in range(40):
            repository.commit(**{f'{n:02}-{k:02}.md': f'{n} {k} ' * 500 for k in range(50)})
        with subprocess.Popen([client.binary, 'import', 'git', 'r', '--parallel', '1'], env=client.env, cwd=client.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
            wait_until(lambda: len(client.ok('ls').splitlines()) > 20, 'some documents')
            os.killpg(process.pid, signal.SIGINT)
            out, said = process.communicate(timeout=60)
        eq((process.returncode, out), (-signal.SIGINT, ''), said)
        check('interrupted: ' in said and 'goes on from there' in said and 'left out' not in said, said)
        done, = client.json('import', 'git', 'r')
        eq((done['stored'] + done['already'] + done['imported_before'], done['unreadable']), (2000, 0))


@scene
def an_interrupted_import_goes_on(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        stream = bytearray()
        for n in range(3000):
            body = f'revision {n}\n'.encode() * 200
            stream += b'commit refs/heads/main\ncommitter A <a@example.test> %d +0000\ndata 1\nm\n' % (START + n)
            stream += b'M 100644 inline page%d.md\ndata %d\n%s\n' % (n % 7, len(body), body)
        repository.git('fast-import', '--quiet', stdin=bytes(stream))
        state = client.folder / 's'
        with subprocess.Popen([client.binary, 'import', 'git', 'r', '--state', str(state), '--parallel', '1'],
                              env=client.env, cwd=client.folder, stdout=subprocess.DEVNULL) as process:
            wait_until(lambda: client('history', 'page3.md', '--json').stdout.count(b'\n') > 5, 'some revisions')
            process.send_signal(signal.SIGKILL)
        stored = len(client.json('history', 'page3.md'))
        check(stored < 420, 'the import was over already')
        done, = client.json('import', 'git', 'r', '--state', str(state))
        eq(done['stored'] + done['already'] + done['imported_before'], 3000)
        eq([len(client.json('history', f'page{n}.md')) for n in range(7)], [429] * 4 + [428] * 3)
        for n in (0, 1500, 2999):
            eq(source(server, f'page{n % 7}.md', n + 1), f'revision {n}\n'.encode() * 200)


@scene
def a_server_that_stops_for_a_while_is_waited_for(binary):
    port = free_port()
    with Server(binary, '--listen', f'127.0.0.1:{port}') as server:
        client = Client(binary, server)
        repository = Repository(client.folder / 'r')
        for n in range(5):
            repository.commit(**{'a.md': f'{n}\n'})
        eq(server.sigterm(), 0)
        listener = socket.create_server(('127.0.0.1', port))
        listener.settimeout(CALL_TIMEOUT)
        with subprocess.Popen([client.binary, 'import', 'git', 'r', '--json'], env=client.env, cwd=client.folder,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            listener.accept()[0].close()
            listener.close()
            server.start()
            out, errors = process.communicate(timeout=CALL_TIMEOUT)
            eq(process.returncode, 0, repr(errors))
            check(b'"stored":5' in out, out)


@scene
def this_repository_comes_out_as_git_has_it(binary):
    if not (ROOT / '.git').exists():
        return
    with Server(binary) as server:
        client = Client(binary, server)
        done = client('import', 'git', str(ROOT), '--json')
        eq(done.returncode, 0, repr(done.stderr))
        names = subprocess.run(['git', '-C', str(ROOT), 'ls-tree', '-r', '-z', '--name-only', 'HEAD'],
                               stdout=subprocess.PIPE, check=True, timeout=60).stdout.split(b'\0')[:-1]
        compared = 0
        for name in names:
            text = subprocess.run(['git', '-C', str(ROOT), 'show', b'HEAD:' + name], stdout=subprocess.PIPE, check=True,
                                  timeout=60).stdout
            if b'\0' in text or len(text) > 2 << 20:
                continue
            try:
                text.decode()
            except UnicodeDecodeError:
                continue
            eq(source(server, name.decode()), text, name)
            compared += 1
        check(compared > 20, f'only {compared} documents')


main()
