"""Goal: a key is made where it opens something, and none is valid that nobody has seen.
Method: a full device behind standard output, mistyped folders, and a listener without the admin routes."""
import json
import pathlib
import subprocess
import tempfile

from cli import Client
from harness import Server, check, eq, main, scene

FULL = pathlib.Path('/dev/full')


def _token(binary, *args, **how):
    return subprocess.run([binary, 'token', *map(str, args)], stderr=subprocess.PIPE, timeout=60, check=False,
                          **{'stdout': subprocess.PIPE, **how})


def _listed(binary, data):
    done = _token(binary, 'ls', '--data', data, '--json')
    eq(done.returncode, 0, done.stderr)
    return [json.loads(line)['id'] for line in done.stdout.splitlines()]


@scene
def a_key_that_cannot_be_printed_is_deleted_again(binary):
    with tempfile.TemporaryDirectory() as folder, FULL.open('wb') as full:
        data = f'{folder}/d'
        eq(_token(binary, 'create', '--data', data, '--new').returncode, 0)
        before = _listed(binary, data)
        for more in ((), ('--json',)):
            done = _token(binary, 'create', '--data', data, *more, stdout=full)
            eq(done.returncode, 1, done.stderr)
            check(b'is deleted again' in done.stderr and done.stderr.count(b'\n') == 1, done.stderr)
        eq(_listed(binary, data), before)
        with Server(binary, data=data) as server:
            done = _token(binary, 'create', '--server', server.url, stdout=full)
            eq(done.returncode, 1, done.stderr)
            check(b'is deleted again' in done.stderr, done.stderr)
            eq([item['id'] for item in server.json('GET', '/v1/admin.tokens').body['items']], before)


@scene
def a_mistyped_folder_gets_no_store_and_no_key(binary):
    with tempfile.TemporaryDirectory() as folder:
        other = pathlib.Path(folder, 'other')
        other.mkdir()
        for verb in (('create',), ('ls',), ('lock',), ('unlock',), ('rm', 'x')):
            for data in (pathlib.Path(folder, 'typo'), other):
                done = _token(binary, *verb, '--data', data)
                eq((done.returncode, done.stdout), (1, b''), verb)
                check(f'there is no store at {data}'.encode() in done.stderr, done.stderr)
        eq([path.name for path in pathlib.Path(folder).iterdir()], ['other'])
        eq(list(other.iterdir()), [])
        check(b'--new makes one' in _token(binary, 'create', '--data', other).stderr, 'how to make one is said')
        eq(_token(binary, 'create', '--data', other, '--new').returncode, 0)
        eq(len(_listed(binary, other)), 1)


@scene
def a_key_that_has_ended_is_not_made(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for expires in ('0s', '0', '0d', '-1d', 'soon'):
            done = client('token', 'create', f'--expires={expires}')
            eq((done.returncode, done.stdout), (2, b''), expires)
            check(b'a duration over 0' in done.stderr, done.stderr)
        eq(server.json('POST', '/v1/admin.tokens', body={'roles': ['read'], 'expires': '0s'}).status, 400)
        eq(server.json('GET', '/v1/admin.tokens').body['items'], [])


@scene
def a_listener_without_admin_routes_is_named(binary):
    with Server(binary, '--admin-listen', '127.0.0.1:0') as server:
        client = Client(binary, server)
        for args in (('token', 'ls'), ('token', 'create'), ('token', 'rm', 'x'), ('token', 'lock'), ('check',), ('backup', 'b'),
                     ('flight', 'ls'), ('slow', 'ls'), ('stash', 'ls'), ('stash', 'rm', '--all')):
            done = client(*args)
            check(done.returncode != 0 and done.stdout == b'', f'{args}: {done.stdout}')
            check(b'admin listener' in done.stderr and server.url.encode() in done.stderr, f'{args}: {done.stderr}')


if __name__ == '__main__':
    main()
