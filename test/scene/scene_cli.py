"""Goal: each verb of the client does what its help says, against a real server, and fails with a word and a code.
Method: the binary as client and as server; what it stored is looked at over HTTP too."""
import os
import pty
import re
import shutil
import subprocess
import tempfile

from cli import Client
from harness import Server, check, eq, free_port, main, scene

VERBS = ('get', 'put', 'ls', 'rm', 'history', 'explain', 'import git', 'import mediawiki-xml', 'import restbase', 'migrate', 'check', 'backup',
         'restore', 'version', 'completion', 'man', 'serve', 'render', 'prewarm', 'origin check',
         'change rules check', 'change test')


@scene
def put_and_get_keep_every_byte(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for n, body in enumerate((b'<p>x', b'', bytes(range(256)) * 999, 'ä\u2028\U0001f600'.encode()), 1):
            (client.folder / 'in').write_bytes(body)
            eq(client('put', 'A/b ä?', str(n), '-c', 'blob', 'in').returncode, 0, f'body {n}')
            eq(client('get', 'A/b ä?', str(n), '-c', 'blob').stdout, body)
            eq(client('get', 'A/b ä?', '--content=blob', '-o', 'out').returncode, 0)
            eq((client.folder / 'out').read_bytes(), body)
            eq(server.request('GET', '/localhost/v1/page/blob/A%2Fb%20%C3%A4%3F').body, body)


@scene
def a_bundle_from_files_is_one_render(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        (client.folder / 'a.html').write_text('<p>1')
        (client.folder / 'dp.json').write_text('{"a": 1}')
        (client.folder / 'odd').write_bytes(b'\xff\x00')
        stored, = client.json('put', 'T', '7', 'a.html', 'data-parsoid=dp.json', 'blob=odd')
        eq((stored['rev'], stored['latest'], stored['applied']), (7, True, True))
        eq(client('get', 'T', '7', stored['tid'], '-c', 'data-parsoid').stdout, b'{"a": 1}')
        eq(client('get', 'T', '-c', 'blob').stdout, b'\xff\x00')
        answer = server.request('GET', '/localhost/v1/page/data-parsoid/T')
        eq(answer.headers['content-type'], 'application/json')
        eq(answer.headers['etag'], f'"7/{stored["tid"]}"')
        again, = client.json('put', 'T', '7', stored['tid'], 'a.html', 'data-parsoid=dp.json', 'blob=odd')
        eq(again['applied'], False)
        item, = client.json('history', 'T')
        eq(item['bytes'], {'html': 4, 'data-parsoid': 8, 'blob': 2})
        (client.folder / 'nothing').write_bytes(b'')
        done = client('put', 'E', '1', 'nothing', 'blob=nothing')
        eq((done.returncode, done.stderr), (0, b''))
        eq(client.json('history', 'E')[0]['bytes'], {'html': 0, 'blob': 0})


@scene
def history_explain_and_rm_tell_one_story(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for rev in '123':
            client.ok('put', 'T', rev, '-', stdin=rev.encode())
        items = client.json('history', 'T')
        eq([(item['rev'], item['state']) for item in items], [(3, 'current'), (2, 'recent'), (1, 'recent')])
        table = client.ok('history', 'T').splitlines()
        eq(len(table), 4)
        check(table[0].split() == ['REV', 'TID', 'RENDERED', 'STATE', 'DUE', 'BYTES'], table[0])
        explained, = client.json('explain', 'T', '2', items[1]['tid'])
        eq((explained['state'], explained['policy']), ('recent', 'app_ttl'))
        client.ok('rm', 'T', '2')
        eq(client.json('explain', 'T', '2', items[1]['tid'])[0]['state'], 'purged')
        gone = client('get', 'T', '2')
        eq(gone.returncode, 5)
        check(b'410' in gone.stderr and gone.stdout == b'', gone.stderr)
        client.ok('rm', 'T')
        eq(client.ok('ls'), '')


@scene
def ls_pages_through_all_titles_and_stops_behind_a_prefix(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        titles = sorted([f't/{n:04}' for n in range(1203)] + ['s', 'u', 'tä'], key=str.encode)
        for title in titles:
            path = '/localhost/v1/page/html/' + title.replace('/', '%2F').replace('ä', '%C3%A4') + '/1'
            eq(server.request_again('PUT', path, {'Content-Type': 'text/html'}, b'x').status, 201)
        eq(client.ok('ls').splitlines(), titles)
        eq(client.ok('ls', 't/11').splitlines(), [f't/{n}' for n in range(1100, 1200)])
        eq(client.json('ls', 'u'), ['u'])
        eq(client.ok('ls', 'nothing'), '')


@scene
def get_at_gives_what_was_served_then(binary):
    with Server(binary, test_hooks='2026-01-01T00:00:00Z') as server:
        client = Client(binary, server)
        client.ok('put', 'T', '1', '-', stdin=b'one')
        server.clock(advance='1h')
        client.ok('put', 'T', '2', '-', stdin=b'two')
        eq(client.ok('get', 'T', '--at', '2026-01-01T00:30:00Z'), 'one')
        eq(client.ok('get', 'T'), 'two')


@scene
def what_fails_says_why_and_leaves_no_file(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        eq(client('get', 'nope', '-o', 'out').returncode, 5)
        check(not list(client.folder.glob('out*')), 'a file is left')
        for args, code, says in (
                (['get'], 2, 'something is missing'), (['get', 'a', 'b', 'c', 'd'], 2, 'too many'),
                (['put', '', '1', '-'], 2, 'word 1 is empty: palimpsest put TITLE REV'),
                (['explain', 'T', ''], 2, 'word 2 is empty'),
                (['nonsense'], 2, 'no verb'), (['get', 'x', '--bogus'], 2, 'unknown option --bogus'),
                (['ls', '--server', 'ftp://x'], 2, 'is a URL'), (['ls', '--domain', 'nope'], 5, '404'),
                (['put', 'T', '0', '-'], 2, 'REV'), (['put', '..', '1', '-'], 6, '400'),
                (['put', 'T', '1', 'no-such-file'], 1, 'cannot read no-such-file'),
                (['put', 'T', '1', '-', '-'], 2, 'given twice'), (['completion', 'tcsh'], 2, 'bash, zsh or fish'),
                (['ls', '--server', f'http://127.0.0.1:{free_port()}'], 4, 'is it running'),
                (['restore', 'nowhere', '--data', 'x'], 1, 'no directory'), (['restore', '.'], 2, '--data')):
            done = client(*args)
            eq(done.returncode, code, ' '.join(args))
            check(says.encode() in done.stderr, f'{args}: {done.stderr}')
            check(done.stderr.count(b'\n') == 1, f'{args}: more than a line: {done.stderr}')


@scene
def a_group_of_verbs_tells_of_its_verbs(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for args in (['import', '--help'], ['import', '-h'], ['help', 'import']):
            done = client(*args)
            eq(done.returncode, 0, ' '.join(args))
            check(b'import git' in done.stdout and b'token' not in done.stdout, f'{args}: {done.stdout}')
        alone = client('import')
        eq(alone.returncode, 2)
        check(b'import mediawiki-xml' in alone.stderr, alone.stderr)


@scene
def a_key_opens_what_is_locked_for_every_verb(binary):
    with tempfile.TemporaryDirectory() as folder:
        data = f'{folder}/data'
        make = [str(binary), 'token']
        key = subprocess.run([*make, 'create', '--role', 'admin', '--data', data, '--new'], capture_output=True, text=True,
                             timeout=60, check=True).stdout.strip()
        subprocess.run([*make, 'lock', '--data', data], capture_output=True, timeout=60, check=True)
        with Server(binary, '--set', 'auth=internal', data=data) as server:
            client = Client(binary, server)
            export = (b'<mediawiki><page><title>T</title><revision><id>1</id><timestamp>2020-01-01T00:00:00Z</timestamp>'
                      b'<text>x</text></revision></page></mediawiki>')
            calls = ((['import', 'mediawiki-xml', '-'], export), (['get', 'T'], b''), (['put', 'T', '2', '-'], b'y'),
                     (['ls'], b''), (['history', 'T'], b''), (['explain', 'T'], b''), (['check'], b''),
                     (['backup', 'b'], b''), (['rm', 'T'], b''))
            for args, stdin in calls:
                done = client(*args, stdin=stdin)
                eq(done.returncode, 6, ' '.join(args))
                check(b'401' in done.stderr, f'{args}: {done.stderr}')
            client.env['PALIMPSEST_TOKEN'] = key
            for args, stdin in calls:
                eq(client(*args, stdin=stdin).returncode, 0, ' '.join(args))
            client.env['PALIMPSEST_TOKEN'] = 'wrong'
            eq(client('ls').returncode, 6)
            eq(client('ls', '--token', key).returncode, 0)


@scene
def control_bytes_in_answers_do_not_reach_a_terminal(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        done = client('get', 'x\x1b[31m\r', '--domain', 'a\x1b]0;y\x07')
        eq(done.returncode, 5)
        check(b'\x1b' not in done.stderr and b'\x07' not in done.stderr, done.stderr)


def _on_terminal(client, *args, **env):
    leader, follower = pty.openpty()
    with subprocess.Popen([client.binary, *args], stdout=follower, stderr=follower, stdin=subprocess.DEVNULL,
                          env={**client.env, 'TERM': 'xterm', **env}) as process:
        os.close(follower)
        output = b''
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:
                break
            if not piece:
                break
            output += piece
        eq(process.wait(60), 0)
    os.close(leader)
    return output


@scene
def colours_are_for_terminals_that_want_them(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('put', 'T', '1', '-', stdin=b'x')
        check('\x1b' not in client.ok('history', 'T'), 'colours in a pipe')
        check(b'\x1b[' in _on_terminal(client, 'history', 'T'), 'no colours on a terminal')
        check(b'\x1b' not in _on_terminal(client, 'history', 'T', NO_COLOR='1'), 'colours with NO_COLOR')
        check(b'\x1b' not in _on_terminal(client, 'history', 'T', TERM='dumb'), 'colours on a dumb terminal')
        check(b'\x1b' not in _on_terminal(client, 'history', 'T', '--json'), 'colours in JSON')


@scene
def an_import_on_a_terminal_shows_how_far_it_is(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        text = 'x' * 20000
        with open(client.folder / 'e.xml', 'w', encoding='ascii') as file:
            file.write('<mediawiki>')
            for n in range(1, 2001):
                file.write(f'<page><title>P{n}</title><revision><id>{n}</id><timestamp>2020-01-01T00:00:00Z</timestamp>'
                           f'<text>{text}</text></revision></page>')
            file.write('</mediawiki>')
        shown = _on_terminal(client, 'import', 'mediawiki-xml', str(client.folder / 'e.xml'))
        check(re.search(rb'importing \[#* *\] [0-9.]+ [kM]B of 40\.\d MB', shown), shown[-500:])
        check(shown.rstrip().endswith(b'2000 pages: 2000 revisions stored, 0 already there'), shown[-500:])
        quiet = _on_terminal(client, 'import', 'mediawiki-xml', str(client.folder / 'e.xml'), '--restart', '--quiet')
        check(b'importing' not in quiet, quiet)


@scene
def help_man_and_completion_know_every_verb(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        overview, page = client.ok('help'), client.ok('man')
        for verb in VERBS:
            check(re.search(rf'^  {verb} ', overview, re.M), f'{verb} is not in the overview')
            text = client.ok('help', *verb.split())
            check(all(len(line) < 80 for line in text.splitlines()), f'{verb}: a line of its help is too wide')
            options = set(re.findall(r'--([a-z-]+)', text.partition('Options:')[2]))
            check('help' in options, verb)
            man = client.ok('man', *verb.split())
            for option in options:
                check('\\-\\-' + option.replace('-', '\\-') in man, f'{verb}: --{option} is not in its man page')
            check(verb in page, f'{verb} is not in palimpsest(1)')
        check(all(len(line) < 80 for line in client.ok('options').splitlines()), 'a line of the options is too wide')
        for shell in ('bash', 'zsh', 'fish'):
            script = client.ok('completion', shell)
            for verb in VERBS:
                check(verb.split()[0] in script, f'{verb} is not completed by {shell}')
        (client.folder / 'c').write_text(client.ok('completion', 'bash'))
        words = subprocess.run(['bash', '-c', '. ./c; for l in "palimpsest import " "palimpsest import git --p" '
                                '"palimpsest he"; do COMP_WORDS=($l); [ "${l% }" = "$l" ] || COMP_WORDS+=(""); '
                                'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _palimpsest; echo "${COMPREPLY[*]}"; done'],
                               capture_output=True, text=True, cwd=client.folder, timeout=30, check=True)
        eq(words.stdout.splitlines(), ['git restbase mediawiki-xml', '--parallel', 'help'])
        for line, offered in (('palimpsest token create --role ', 'read write purge admin Admin'),
                              ('palimpsest token create --role = a', 'admin'), ('palimpsest completion ', 'bash zsh fish --help'),
                              ('palimpsest completion z', 'zsh'), ('palimpsest help imp', 'import'),
                              ('palimpsest help import ', 'git restbase mediawiki-xml'), ('palimpsest man token l', 'ls lock'),
                              ('palimpsest change ', 'drop dry explain items limit ls pause replay resume retry rules show tail test why'),
                              ('palimpsest jobs ', 'drain limit ls retry why'), ('palimpsest change rules ', 'check'),
                              ('palimpsest change rules check --', '--json --help'), ('palimpsest help change rules ', 'check'),
                              ('palimpsest serve --set page.grace_t', 'page.grace_ttl='), ('palimpsest get T --output ', 'c man1'),
                              ('palimpsest queue create q --durability s', 'sync'), ('palimpsest get T --at ', ''),
                              ('palimpsest ls --bucket ', '')):
            (client.folder / 'man1').mkdir(exist_ok=True)
            (client.folder / 'l').write_text(line)
            got = subprocess.run(['bash', '-c', '. ./c; l="$(cat l)"; rm l; COMP_WORDS=($l); [ "${l% }" = "$l" ] || COMP_WORDS+=("");'
                                  'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _palimpsest; echo "${COMPREPLY[*]}"'],
                                 capture_output=True, text=True, cwd=client.folder, timeout=30, check=True)
            eq((sorted(got.stdout.split()), got.stderr), (sorted(offered.split()), ''), line)
        if shutil.which('fish') is not None:
            (client.folder / 'f').write_text(client.ok('completion', 'fish'))
            lines = subprocess.run(['fish', '-c', 'source f; for l in "palimpsest import " "palimpsest import git --p" '
                                    '"palimpsest token ls --ex"; complete -C $l; end'], capture_output=True, text=True,
                                   cwd=client.folder, timeout=30, check=True, env=client.env).stdout
            eq([line.split('\t')[0] for line in lines.splitlines()], ['git', 'restbase', 'mediawiki-xml', '--parallel'])
        if shutil.which('zsh') is not None:
            (client.folder / 'z').write_text(client.ok('completion', 'zsh').replace('_palimpsest "$@"', ''))
            lines = subprocess.run(['zsh', '-fc', '. ./z; _palimpsest_words "import "; _palimpsest_words "import git x "; '
                                    '_palimpsest_words " "'], capture_output=True, text=True, cwd=client.folder,
                                   timeout=30, check=True).stdout.splitlines()
            eq(lines[0], 'git restbase mediawiki-xml')
            check('--parallel' in lines[1].split() and 'import' in lines[2].split(), lines)


@scene
def man_pages_of_all_verbs_are_written_and_read_by_man(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('man', '--write', 'share/man/man1')
        client.ok('man', '--write', 'share/man/man1/')
        (client.folder / 'man1').symlink_to('share/man/man1')
        names = {path.name for path in (client.folder / 'man1').iterdir()}
        eq({f'palimpsest-{verb.replace(" ", "-")}.1' for verb in VERBS} - names, set())
        check('palimpsest.1' in names, names)
        (client.folder / 'file').write_bytes(b'')
        eq(client('man', '--write', 'file/man1').returncode, 1)
        eq(client('man', '--write', 'file').returncode, 1)
        if shutil.which('groff') is None:
            return
        for name in sorted(names):
            done = subprocess.run(['groff', '-man', '-Tutf8', '-ww', '-z', str(client.folder / 'man1' / name)],
                                  capture_output=True, text=True, timeout=60, check=False)
            eq((done.returncode, done.stderr), (0, ''), name)


@scene
def version_is_one_line_or_one_document(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        line = client.ok('version')
        check(re.fullmatch(r'palimpsest \d+\.\d+\.\d+\n', line), line)
        eq(client.json('version')[0]['version'], line.split()[1])
        eq(client.ok('--version'), line)


@scene
def check_finds_nothing_in_a_good_store(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for n in range(50):
            client.ok('put', 'T', str(n + 1), '-', stdin=os.urandom(3000))
        eq(client.json('check'), [{'ok': True, 'damages': 0, 'found': []}])
        eq(client.ok('check').strip(), 'no damage found')
        eq(server.sigterm(), 0)
        eq(client.json('check', '--data', str(server.data)), [{'ok': True, 'damages': 0, 'found': []}])
        server.start()
        eq(server.request('GET', '/localhost/v1/page/html/T').status, 200)


def _flip_in_log(server):
    """Flips a bit in the middle of the largest segment of a store at rest."""
    segment = max((server.data / 'log').glob('*.seg'), key=lambda path: path.stat().st_size)
    data = bytearray(segment.read_bytes())
    at = data.rindex(b'MARK') + 1000
    data[at] ^= 4
    segment.write_bytes(data)


@scene
def check_finds_a_flipped_bit_and_changes_nothing(binary):
    with Server(binary, '--set', 'page.codec=identity') as server:
        client = Client(binary, server)
        client.ok('put', 'T', '1', '-', stdin=b'MARK' + os.urandom(5000))
        for n in range(20):
            client.ok('put', f'U{n}', '1', '-', stdin=os.urandom(5000))
        eq(server.sigterm(), 0)
        _flip_in_log(server)
        before = {path: path.read_bytes() for path in server.data.rglob('*') if path.is_file()}
        done = client('check', '--data', str(server.data))
        eq(done.returncode, 3, repr(done.stdout + done.stderr))
        after = {path: path.read_bytes() for path in server.data.rglob('*') if path.is_file()}
        check(before == after, 'the check has changed the store')


@scene
def backup_and_restore_give_the_same_store(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        bodies = {f'T{n}': os.urandom(4000) for n in range(30)}
        for title, body in bodies.items():
            client.ok('put', title, '1', '-', stdin=body)
        first, = client.json('backup', 'b')
        check(first['bytes_copied'] > 0, first)
        client.ok('put', 'more', '1', '-', stdin=b'more')
        client.ok('backup', 'b')
        eq(client.json('check', '--data', 'b')[0]['ok'], True)
        client.ok('put', 'later', '1', '-', stdin=b'later')
        client.ok('restore', 'b', '--data', 'r')
        eq(client('restore', 'b', '--data', 'r').returncode, 6, 'a restore over a store')
        check(not (client.folder / 'r.restoring').exists(), 'a half store is left')
        with Server(binary, data=client.folder / 'r') as other:
            for title, body in {**bodies, 'more': b'more'}.items():
                eq(other.request('GET', f'/localhost/v1/page/html/{title}').body, body)
            eq(other.request('GET', '/localhost/v1/page/html/later').status, 404)


@scene
def a_damaged_backup_is_not_restored(binary):
    with Server(binary, '--set', 'page.codec=identity') as server:
        client = Client(binary, server)
        client.ok('put', 'T', '1', '-', stdin=b'MARK' + os.urandom(5000))
        client.ok('backup', 'b')
        segment = max((client.folder / 'b').rglob('*.seg'), key=lambda path: path.stat().st_size)
        data = bytearray(segment.read_bytes())
        data[data.index(b'MARK') + 100] ^= 1
        segment.write_bytes(data)
        done = client('restore', 'b', '--data', 'r')
        eq(done.returncode, 3, repr(done.stderr))
        check(not (client.folder / 'r').exists(), 'a damaged store was restored')


@scene
def a_backup_of_no_store_and_a_restore_that_was_cut_off_are_told(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        empty = client.folder / 'empty'
        empty.mkdir()
        done = client('backup', 'b', '--data', 'empty')
        check(done.returncode == 1 and b'there is no store' in done.stderr, done)
        eq((list(empty.iterdir()), (client.folder / 'b').exists()), ([], False))
        client.ok('put', 'T', '1', '-', stdin=b'x')
        client.ok('backup', 'b')
        client.ok('backup', 'c', '--data', 'b')
        (client.folder / 'r.restoring').mkdir()
        done = client('restore', 'b', '--data', 'r')
        check(done.returncode == 6 and b'r.restoring exists' in done.stderr and b'remove' in done.stderr, done)
        (client.folder / 'r.restoring').rmdir()
        client.ok('restore', 'b', '--data', 'r')


main()
