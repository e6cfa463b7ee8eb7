"""Goal: the client destroys no file that it was not told to replace, stores what it was given, and moves no cursor.
Method: devices, FIFOs, links and terminals of the scene's own."""
import os
import pathlib
import pty
import signal
import socket
import stat
import subprocess
import tempfile
import threading

from cli import Client
from harness import Server, check, eq, free_port, main, scene, wait_until


def _left(client, *known):
    """Files in the client's folder that nobody asked for."""
    return sorted(path.name for path in client.folder.iterdir() if path.name not in {'state', *known})


@scene
def get_writes_into_a_fifo_and_a_device_and_leaves_them(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('put', 'T', '1', '-', stdin=b'<p>x')
        fifo = client.folder / 'fifo'
        os.mkfifo(fifo)
        read = []
        reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()), daemon=True)
        reader.start()
        eq(client('get', 'T', '-o', 'fifo').returncode, 0)
        reader.join(30)
        eq(read, [b'<p>x'])
        check(stat.S_ISFIFO(fifo.stat().st_mode), 'the FIFO is a FIFO still')
        leader, follower = pty.openpty()
        device = os.ttyname(follower)
        eq(client('get', 'T', '-o', device).returncode, 0)
        check(stat.S_ISCHR(os.stat(device).st_mode), 'the device is a device still')
        eq(os.read(leader, 100), b'<p>x')
        os.close(leader)
        os.close(follower)
        if os.geteuid() == 0:
            os.mknod(client.folder / 'null', 0o666 | stat.S_IFCHR, os.makedev(1, 3))
            eq(client('get', 'T', '-o', 'null').returncode, 0)
            check(stat.S_ISCHR((client.folder / 'null').stat().st_mode), 'a null device is one still')
        eq(_left(client, 'fifo', 'null'), [])


@scene
def get_replaces_what_a_link_leads_to_and_keeps_link_and_mode(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('put', 'T', '1', '-', stdin=b'<p>x')
        (client.folder / 'there').mkdir()
        target = client.folder / 'there' / 'target'
        target.write_bytes(b'old')
        target.chmod(0o640)
        (client.folder / 'link').symlink_to('there/target')
        (client.folder / 'dangling').symlink_to('nowhere')
        eq(client('get', 'T', '-o', 'link').returncode, 0)
        eq((target.read_bytes(), os.readlink(client.folder / 'link')), (b'<p>x', 'there/target'))
        eq(stat.S_IMODE(target.stat().st_mode), 0o640)
        for name, says in (('dangling', 'link to what is not there'), ('there', 'is a directory')):
            done = client('get', 'T', '-o', name)
            eq(done.returncode, 1, name)
            check(says in done.stderr.decode(), done.stderr)
        (client.folder / 'out.part').write_bytes(b'of a get that was killed')
        eq(client('get', 'T', '-o', 'out').returncode, 0, 'what is left of another is not in the way')
        target.write_bytes(b'old')
        eq(client('get', 'nothing', '-o', 'link').returncode, 5)
        eq(target.read_bytes(), b'old', 'a get that failed replaces nothing')
        eq(_left(client, 'there', 'link', 'dangling', 'out.part', 'out'), [])



@scene
def get_writes_into_what_a_shell_names_for_a_pipe(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('put', 'T', '1', '-', stdin=b'<p>x')
        eq(client.ok('get', 'T', '-o', '/dev/stdout'), '<p>x')
        done = subprocess.run(['bash', '-c', f'{client.binary} get T -o >(cat >&2) | cat'], env=client.env, cwd=client.folder,
                              capture_output=True, timeout=60, check=False)
        eq((done.stdout, done.stderr), (b'', b'<p>x'))


@scene
def a_get_that_is_interrupted_leaves_nothing(binary):
    with Server(binary) as server, socket.create_server(('127.0.0.1', 0)) as slow:
        client = Client(binary, server)
        (client.folder / 'out').write_bytes(b'old')
        slow.settimeout(60)
        for number in (signal.SIGINT, signal.SIGTERM):
            with subprocess.Popen([client.binary, 'get', 'T', '-o', 'out', '--server', f'http://127.0.0.1:{slow.getsockname()[1]}'],
                                  env=client.env, cwd=client.folder, stderr=subprocess.PIPE) as process:
                connection = slow.accept()[0]
                connection.recv(4096)
                connection.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf')
                wait_until(lambda: _left(client, 'out'), 'a part of it')
                process.send_signal(number)
                said = process.communicate(timeout=60)[1]
                connection.close()
            eq((process.returncode, said), (-number, b'palimpsest: interrupted\n'))
            eq(((client.folder / 'out').read_bytes(), _left(client, 'out')), (b'old', []))



def _closed(binary, *args, folder):
    """With no standard stream at all."""
    return subprocess.Popen(['sh', '-c', 'exec "$0" "$@" <&- >&- 2>&-', binary, *args], cwd=folder)


@scene
def a_file_without_an_end_is_not_read_for_ever(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('queue', 'create', 'q')
        for args in (('put', 'T', '1', '/dev/zero'), ('queue', 'produce', 'q', '--file', '/dev/zero')):
            done = client(*args)
            eq(done.returncode, 1, done.stderr)
            check(b'more than' in done.stderr, done.stderr)
        done = client('queue', 'produce', 'q', '--file', 'nothing')
        eq((done.returncode, done.stderr.splitlines()[0]),
           (1, b'palimpsest: queue produce: cannot read nothing: No such file or directory'))


@scene
def closed_streams_are_not_the_files_of_a_store(binary):
    binary = str(pathlib.Path(binary).resolve())
    with tempfile.TemporaryDirectory() as folder:
        for number in range(3):
            with _closed(binary, 'token', 'create', '--data', 'd', '--new', '--name', f'n{number}', folder=folder) as created:
                eq(created.wait(60), 1, 'a key that cannot be printed is deleted again')
        port = free_port()
        with _closed(binary, 'serve', '--data', 'd', '--listen', f'127.0.0.1:{port}', folder=folder) as server:
            def put():
                return subprocess.run([binary, 'put', 'T', '1', '-', '--server', f'http://127.0.0.1:{port}'], input=b'x', timeout=60,
                                      capture_output=True, check=False).returncode == 0
            wait_until(put, 'it serves')
            server.terminate()
            server.wait(60)
        done = subprocess.run([binary, 'check', '--data', 'd'], cwd=folder, capture_output=True, timeout=60, check=False)
        eq((done.returncode, done.stdout), (0, b'no damage found\n'), done.stderr)
        held = [path for path in pathlib.Path(folder).rglob('*') if path.is_file()]
        for path in held:
            data = path.read_bytes()
            check(b'serve.ready' not in data and b'palimpsest: ' not in data and b'"key"' not in data, f'{path} holds what was printed')


@scene
def put_reads_standard_input_once(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for args in (['put', 'T', '1', '-', 'data-parsoid=-'], ['queue', 'produce', 'q', '-', '-'],
                     ['queue', 'produce', '-f', 'q', '-', '-'], ['queue', 'complete', 'q', '-', '-']):
            done = client(*args, stdin=b'0/a\n')
            eq(done.returncode, 2, args)
            check(b'standard input' in done.stderr, done.stderr)
        eq(client.ok('ls'), '')


@scene
def put_stores_under_a_media_type_or_not_at_all(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for wrong in ('garbage type', 'text/html\r\nX: y', 'text/html; a=\x1b[31m', 'text', '/', 'text/', 'a/b/c', '; text/html', ''):
            done = client('put', 'T', '1', '-t', wrong, '-', stdin=b'x')
            eq(done.returncode, 2, wrong)
            check(b'--type wants a media type' in done.stderr, done.stderr)
        eq(client.ok('ls'), '')
        for n, right in enumerate(('text/html', 'application/vnd.x+json; charset="utf-8"', 'a/b;c=d'), 1):
            client.ok('put', 'T', str(n), '-t', right, '-', stdin=b'x')
            eq(client.json('get', 'T')[0]['content_type'], right)


@scene
def words_that_name_no_render_are_refused_as_such(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        (client.folder / 'a.html').write_bytes(b'x')
        for args, says in (
                (['put', 'AB', '2', 'notatid', 'a.html'], '"notatid" is neither a TID nor a file'),
                (['put', 'AB', '2', 'a.html', 'a.html'], 'content html is given twice, as a.html and as a.html'),
                (['put', 'Earth', '-1', 'a.html'], 'REV is a whole number from 1 on, not "-1"'),
                (['put', 'Earth', '0', 'a.html'], 'not "0"'), (['put', 'Earth', 'abc', 'a.html'], 'not "abc"'),
                (['put', 'Earth', '9223372036854775808', 'a.html'], 'not "9223372036854775808"'),
                (['get', 'Earth', 'abc'], 'REV is'), (['get', 'Earth', '-5'], 'REV is'), (['rm', 'Earth', '0'], 'REV is'),
                (['explain', 'Earth', '1x'], 'REV is'), (['render', 'Earth', 'x'], 'REV is'),
                (['get', 'Earth', '1', 'x'], 'TID is a time UUID'), (['rm', 'Earth', '1', 'x'], 'TID is'),
                (['get', 'Earth', '-x'], 'unknown option -x'), (['ls', '--prefix'], 'goes behind --')):
            done = client(*args)
            eq(done.returncode, 2, args)
            check(says in done.stderr.decode(), f'{args}: {done.stderr}')
        eq(client.ok('ls', '-5'), '', 'a number is a word where the verb has no such option')


def _shown(client, *args):
    """What a terminal gets to see."""
    leader, follower = pty.openpty()
    with subprocess.Popen([client.binary, *args], stdout=follower, stderr=follower, stdin=subprocess.DEVNULL,
                          env={**client.env, 'TERM': 'xterm'}) as process:
        os.close(follower)
        seen = b''
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:
                break
            seen += piece
            if not piece:
                break
        process.wait(60)
    os.close(leader)
    return seen.replace(b'\r\n', b'\n')


@scene
def get_shows_a_terminal_what_would_move_its_cursor(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        body = b'\tone\n\x1b]0;owned\x07 \xc3\xa4 \xc2\x9b31m \xff\x00\x7f\r\n'
        client.ok('put', 'T', '1', '-', stdin=body)
        eq(_shown(client, 'get', 'T').expandtabs(8),
           b'        one\n\\x1b]0;owned\\x07 \xc3\xa4 \\xc2\\x9b31m \\xff\\x00\\x7f\\x0d\n')
        eq(client('get', 'T').stdout, body, 'a pipe gets the bytes')
        check(b'\x1b]0;owned\x07' in _shown(client, 'get', 'T', '-o', '-'), 'who asks for them gets them')


if __name__ == '__main__':
    main()
