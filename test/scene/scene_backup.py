"""Goal: whoever backs up, checks or restores hears which file of which folder is damaged, and what to do; reading needs
no right to write.
Method: the real binary; bytes of copies and stores at rest are flipped, folders lose their write permission."""
import os
import shutil
import subprocess

from cli import Client
from harness import Server, check, eq, main, scene


def filled(binary, count=12):
    server = Server(binary, '--set', 'page.codec=identity')
    client = Client(binary, server)
    for n in range(count):
        client.ok('put', f'T{n}', '1', '-', stdin=b'MARK%02d' % n + os.urandom(4000))
    return server, client


def flip(file, at):
    with open(file, 'r+b') as f:
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 4]))


def flip_value(folder, mark):
    for file in (folder / 'log').glob('*.seg'):
        at = file.read_bytes().find(mark)
        if at >= 0:
            flip(file, at + 100)
            return file.name
    raise AssertionError(f'no segment has {mark}')


def says(done, code, *words):
    eq(done.returncode, code, repr(done.stdout + done.stderr))
    for word in words:
        check(word.encode() in done.stdout + done.stderr, f'{word!r} is not in {done.stdout + done.stderr!r}')


@scene
def a_damaged_backup_is_named_and_mended_by_the_next(binary):
    server, client = filled(binary)
    with server:
        client.ok('backup', 'b')
        name = flip_value(client.folder / 'b', b'MARK03')
        says(client('restore', 'b', '--data', 'r'), 3, 'the backup in b is damaged', f'log/{name} at offset ')
        says(client('check', '--data', 'b'), 3, f'log/{name} at offset ', '1 damage found')
        eq(client.json('backup', 'b')[0]['segments_replaced'], 1)
        eq(client.ok('check', '--data', 'b').strip(), 'no damage found')
        flip_value(client.folder / 'b', b'MARK03')
        says(client('backup', 'b'), 0, '1 log segment of the backup before was damaged, and copied anew')
        client.ok('restore', 'b', '--data', 'r')


@scene
def damage_of_the_store_is_not_taken_for_damage_of_the_copy(binary):
    server, client = filled(binary)
    with server:
        name = flip_value(server.data, b'MARK05')
        says(client('backup', 'b'), 1, f'log/{name} at offset ', str(client.folder / 'b'),
             'The store seems to be damaged itself')
        eq(server.sigterm(), 0)
        says(client('backup', 'c', '--data', str(server.data)), 3, f'log/{name} at offset ', 'in c',
             'The store seems to be damaged itself')
        server.start()


@scene
def a_store_that_does_not_open_is_checked_as_far_as_it_goes(binary):
    server, client = filled(binary)
    with server:
        client.ok('backup', 'b')
        name = flip_value(client.folder / 'b', b'MARK07')
        flip(client.folder / 'b' / 'log' / name, 3)
        with_header = client('check', '--data', 'b')
        says(with_header, 3, f'log/{name} is damaged at offset ', 'its header', f'log/{name} at offset ', 'T7')
        found = client('check', '--data', 'b', '--json')
        eq(found.returncode, 3)
        check(b'T7' in found.stdout, found.stdout)
        done = subprocess.run([binary, 'serve', '--data', client.folder / 'b', '--listen', '127.0.0.1:0'],
                              capture_output=True, timeout=120, check=False)
        says(done, 3, f'log/{name} is damaged at offset ', 'check --data')
        os.truncate(client.folder / 'b' / 'index' / 'data.mdb', 10000)
        says(client('check', '--data', 'b'), 3, 'check: b: index/data.mdb is damaged')
        says(client('restore', 'b', '--data', 'r'), 3, 'the backup in b is damaged', 'index/data.mdb is damaged')


@scene
def a_wrong_place_for_a_backup_is_the_callers_mistake(binary):
    server, client = filled(binary, 1)
    with server:
        (client.folder / 'file').write_text('x')
        (client.folder / 'other').mkdir()
        (client.folder / 'other' / 'thing').write_text('x')
        for to, status, why in (('no/such', 400, 'No such file or directory'), ('file', 400, 'Not a directory'),
                                ('other', 409, 'holds other things')):
            to = str(client.folder / to)
            got = server.json('POST', '/v1/admin.backup', body={'to': to})
            eq(got.status, status, f'{got.body}')
            check(why in got.body['message'] and to in got.body['message'], f'{got.body}')
            says(client('backup', to), 6, why, to)
        eq(server.sigterm(), 0)
        says(client('backup', 'no/such', '--data', str(server.data)), 1, 'cannot make the folder no/such: No such')
        server.start()


def _unprivileged():
    """What a command begins with so that permissions hold for it; None: nothing here does that."""
    if os.geteuid() != 0:
        return []
    without = ['setpriv', '--bounding-set=-dac_override', '--inh-caps=-dac_override']
    there = shutil.which('setpriv') and subprocess.run([*without, 'true'], capture_output=True, check=False).returncode == 0
    return without if there else None


def _state(folder):
    return {path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b'')
            for path in sorted(folder.rglob('*'))}


@scene
def what_only_reads_a_store_leaves_it_as_it_is_and_needs_no_right_to_write(binary):
    server, client = filled(binary)
    with server:
        server.kill9()
        before = _state(server.data)
        without = _unprivileged()
        for path in [server.data, *server.data.rglob('*')]:
            path.chmod(0o500 if path.is_dir() else 0o400)

        def run(*args):
            return subprocess.run([*(without or []), client.binary, *args], capture_output=True, timeout=120, check=False,
                                  env=client.env, cwd=client.folder)
        says(run('backup', 'b', '--data', str(server.data)), 0, 'backup in b: ')
        says(run('backup', 'b', '--data', str(server.data)), 0, ' were there already')
        says(run('check', '--data', str(server.data)), 0, 'no damage found')
        says(run('restore', str(server.data), '--data', 'r'), 0, 'verified')
        if without is not None:
            says(run('serve', '--data', str(server.data), '--listen', '127.0.0.1:0'), 1, 'LOCK: Permission denied')
            says(run('serve', '--data', str(server.data / 'x'), '--listen', '127.0.0.1:0'), 1, 'x cannot be made')
            says(run('backup', str(server.data / 'x'), '--data', 'b'), 1, 'x: Permission denied')
        for path in [server.data, *server.data.rglob('*')]:
            path.chmod(0o700 if path.is_dir() else 0o600)
        check(_state(server.data) == before, 'the store has changed')
        for n in range(12):
            with_data = client.folder / 'b' / 'log'
            check(any(b'MARK%02d' % n in file.read_bytes() for file in with_data.glob('*.seg')), f'T{n} is not in the copy')


main()
