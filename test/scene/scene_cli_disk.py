"""Goal: what fails on a full disk says which one, and how much is free; backups lie outside their store, and their sizes
add up.
Method: a tmpfs of 4 MB in a mount namespace of the scene's own, where the machine lets the scene have one."""
import os
import pathlib
import re
import subprocess

from cli import Client
from harness import Server, check, eq, main, scene

NAMESPACE = ('unshare', '--user', '--map-root-user', '--mount', '--', 'sh', '-c')
MOUNT = 'mount -t tmpfs -o size=4m none small && exec "$@"'


def _on_small_disk(client, *args):
    return subprocess.run([*NAMESPACE, MOUNT, 'sh', client.binary, *args], capture_output=True, text=True, timeout=60,
                          check=False, env=client.env, cwd=client.folder)


def _has_namespaces(client):
    (client.folder / 'small').mkdir()
    done = subprocess.run([*NAMESPACE, MOUNT, 'sh', 'true'], capture_output=True, timeout=60, check=False, cwd=client.folder)
    return done.returncode == 0


@scene
def a_full_disk_is_named_with_its_free_space(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        if not _has_namespaces(client):
            return
        for n in range(4):
            client.ok('put', f'T{n}', '1', '-', '-c', 'blob', stdin=os.urandom(2000000))
        client.ok('backup', 'big')
        for args, says in ((('restore', 'big', '--data', 'small/r'), 'cannot copy to small/r.restoring/log/'),
                           (('backup', 'small/b', '--data', 'big'), 'small/b'),
                           (('serve', '--data', 'small/d', '--listen', '127.0.0.1:0'), 'the disk of small/d has'),
                           (('token', 'create', '--data', 'small/k', '--new'), 'the disk of small/k has')):
            done = _on_small_disk(client, *args)
            eq(done.returncode, 1, f'{args}: {done.stderr}')
            check(says in done.stderr and 'ioctl' not in done.stderr, f'{args}: {done.stderr}')
            check(re.search(r'\b\d[\d.]* k?M?B free', done.stderr), f'{args}: {done.stderr}')
        for n in range(3):
            client.ok('put', 'Big', str(n + 1), '-', '-c', 'blob', stdin=os.urandom(6000000))
        done = _on_small_disk(client, 'get', 'Big', '-c', 'blob', '-o', 'small/out')
        eq(done.returncode, 1, done.stderr)
        check(done.stderr.count('\n') == 1 and 'No space left' in done.stderr and ' free)' in done.stderr, done.stderr)


@scene
def a_restore_follows_a_link_and_leaves_a_mount_point(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('put', 'T', '1', '-', stdin=b'x')
        client.ok('backup', 'b')
        (client.folder / 'disk').mkdir()
        (client.folder / 'disk' / 'data').mkdir()
        (client.folder / 'link').symlink_to('disk/data')
        client.ok('restore', 'b', '--data', 'link')
        eq(os.readlink(client.folder / 'link'), 'disk/data')
        client.ok('check', '--data', 'disk/data')
        if not _has_namespaces(client):
            return
        done = _on_small_disk(client, 'restore', 'b', '--data', 'small')
        eq(done.returncode, 6, done.stderr)
        check('is where a disk is mounted' in done.stderr, done.stderr)
        eq(_on_small_disk(client, 'restore', 'b', '--data', 'small/data').returncode, 0)
        check(not (client.folder / 'small.restoring').exists(), 'nothing is copied to the other disk')


@scene
def a_backup_within_its_own_store_is_refused(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('put', 'T', '1', '-', stdin=b'x')
        before = sorted(path.name for path in pathlib.Path(server.data).iterdir())
        (client.folder / 'link').symlink_to(pathlib.Path(server.data).resolve())
        for to in (f'{server.data}/backup', f'{server.data}/log/b/', str(server.data), 'link/b'):
            done = client('backup', to)
            eq(done.returncode, 6, f'{to}: {done.stderr}')
            check(b'lies in the folder of the store itself' in done.stderr, done.stderr)
        server.sigterm()
        done = client('backup', f'{server.data}/b', '--data', str(server.data))
        eq(done.returncode, 6, done.stderr)
        check(b'lies in the folder of the store itself' in done.stderr, done.stderr)
        eq(sorted(path.name for path in pathlib.Path(server.data).iterdir()), before)
        client.ok('backup', f'{server.data}-backup', '--data', str(server.data))


@scene
def a_restore_into_the_backup_itself_is_refused(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('put', 'T', '1', '-', stdin=b'x')
        client.ok('backup', 'b')
        before = sorted(path for path in (client.folder / 'b').rglob('*'))
        (client.folder / 'link').symlink_to('b')
        for to in ('b/x', 'link/x', 'b/log/x', './b/../b/x/'):
            done = client('restore', 'b', '--data', to)
            eq(done.returncode, 6, f'{to}: {done.stderr}')
            check(b'lies in the backup itself' in done.stderr, done.stderr)
        eq(sorted(path for path in (client.folder / 'b').rglob('*')), before)
        client.ok('check', '--data', 'b')


@scene
def a_store_that_a_server_has_is_exit_1_for_every_verb(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for args in (('check',), ('backup', 'b'), ('token', 'ls'), ('token', 'create'), ('token', 'lock'), ('serve',)):
            done = client(*args, '--data', str(server.data))
            eq((done.returncode, done.stdout), (1, b''), f'{args}: {done.stderr}')
            check(b'in use by another process' in done.stderr, done.stderr)
        done = client('restore', str(server.data), '--data', 'r')
        eq(done.returncode, 1, done.stderr)


@scene
def the_sizes_of_a_backup_are_those_of_its_data(binary):
    """A second backup keeps what the first copied: holes of segments count in neither."""
    with Server(binary, '--set', 'store.segment_bytes=16M') as server:
        client = Client(binary, server)
        for n in range(30):
            client.ok('put', 'T' if n % 3 else f'S{n}', str(n + 1), '-', '-c', 'blob', stdin=os.urandom(700000))
        client.ok('rm', 'T')
        first, = client.json('backup', 'b')
        second, = client.json('backup', 'b')
        eq(first['bytes_kept'], 0)
        stored = sum(path.stat().st_blocks * 512 for path in (client.folder / 'b' / 'log').iterdir())
        index = (client.folder / 'b' / 'index' / 'data.mdb').stat().st_size
        check(second['bytes_kept'] <= stored, f'{second}: {stored} on the disk')
        check(abs(second['bytes_kept'] + second['bytes_copied'] - stored - index) < 1 << 20, f'{second}: {stored} + {index}')


if __name__ == '__main__':
    main()
