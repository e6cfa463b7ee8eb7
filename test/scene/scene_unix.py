"""Goal: a server listens on unix sockets as docs/operations.md says: clients and nginx reach it there, its files come and go
with it, and one that was left behind stops nobody.
Method: the binary with sockets in a folder of its own; curl, nginx, kill -9 and a second server."""
import concurrent.futures
import os
import pathlib
import signal
import socket
import stat
import subprocess

from cli import Client
from harness import EXIT_TIMEOUT, READY_TIMEOUT, Server, check, eq, free_port, main, scene, wait_until
from list_help import Process

PAGE = '/localhost/v1/page/html/A'


def curl(path, target, *args):
    """(status, body) of one request by curl."""
    done = subprocess.run(['curl', '-sS', '--unix-socket', str(path), '-w', '\n%{http_code}', *args, f'http://localhost{target}'],
                          capture_output=True, text=True, timeout=60, check=False)
    eq(done.returncode, 0, done.stderr)
    body, _, status = done.stdout.rpartition('\n')
    return int(status), body


def fresh(server, name):
    """The path of a file for a socket, which goes with the server's folder."""
    return server.folder / name


@scene
def clients_come_over_unix_sockets(binary):
    with Server(binary) as server:
        main_path, admin_path = fresh(server, 's'), fresh(server, 'a')
        server.restart('--listen', f'127.0.0.1:0,unix:{main_path}', '--admin-listen', f'unix:{admin_path}',
                       '--set', 'listen_mode=0640', '--set', 'log.access=true')
        eq(server.wait_line('admin on '), f'unix:{admin_path}')
        eq(server.lines[:3], [f'listening on {server.url}', f'listening on unix:{main_path}', f'admin on unix:{admin_path}'])
        for path in (main_path, admin_path):
            eq(stat.S_IMODE(path.stat().st_mode), 0o640)
        eq(curl(main_path, f'{PAGE}/1', '-T', '-', '-H', 'Content-Type: text/html')[0], 201)
        eq(curl(main_path, PAGE)[0], 200)
        eq(curl(main_path, '/v1/admin.tokens')[0], 400, 'the admin routes are on the admin listener')
        eq(curl(admin_path, '/v1/admin.tokens')[0], 200)
        eq(server.request('GET', PAGE).status, 200, 'TCP beside it')
        wait_until(lambda: 'peer=unix' in server.stderr(), 'the log says where requests come from')
        eq(server.sigterm(), 0)
        check(not main_path.exists() and not admin_path.exists(), 'the files are gone with the server')
        server.start()


@scene
def a_file_left_behind_is_taken_over(binary):
    with Server(binary) as server:
        path = fresh(server, 's')
        listen = f'127.0.0.1:0,unix:{path}'
        server.restart('--listen', listen)
        other = subprocess.run([server.binary, 'serve', '--data', str(server.folder / 'other'), '--listen', f'unix:{path}'],
                               capture_output=True, text=True, timeout=EXIT_TIMEOUT, check=False)
        eq((other.returncode, other.stdout), (1, ''))
        check(f'cannot listen on unix:{path}: Address already in use' in other.stderr, other.stderr)
        eq(curl(path, '/healthz')[0], 200, 'it took nothing away')
        inode = path.stat().st_ino
        server.kill9()
        eq(path.stat().st_ino, inode, 'a killed server leaves its file')
        server.start()
        eq(curl(path, '/healthz')[0], 200)
        path.unlink()
        path.write_text('mine')
        eq(server.sigterm(), 0)
        eq(path.read_text(), 'mine', 'a file of somebody else stays')
        refused = subprocess.run([server.binary, 'serve', '--data', str(server.data), '--listen', listen], capture_output=True,
                                 text=True, timeout=EXIT_TIMEOUT, check=False)
        eq(refused.returncode, 1)
        check('the file is there, and no socket' in refused.stderr, refused.stderr)
        eq(path.read_text(), 'mine')
        path.unlink()
        server.start()


@scene
def a_unix_socket_may_be_the_only_listener(binary):
    with Server(binary) as server:
        path, data = fresh(server, 's'), server.folder / 'other'
        with subprocess.Popen([server.binary, 'serve', '--data', str(data), '--listen', f'unix:{path}'], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as only:
            try:
                eq(only.stdout.readline(), f'listening on unix:{path}\n')
                eq(curl(path, '/v1/admin.tokens')[0], 200, 'it counts as loopback')
                only.send_signal(signal.SIGTERM)
                eq(only.wait(EXIT_TIMEOUT), 0)
            finally:
                only.kill()
        check(not path.exists(), 'its file is gone')


@scene
def a_drain_that_is_cut_leaves_no_file(binary):
    with Server(binary) as server:
        path = fresh(server, 's')
        server.restart('--listen', f'127.0.0.1:0,unix:{path}')
        eq(server.request('PUT', f'{PAGE}/1', {'Content-Type': 'application/octet-stream'}, os.urandom(3 << 20)).status, 201)
        with socket.socket(socket.AF_UNIX) as reader:
            reader.connect(str(path))
            reader.sendall(f'GET {PAGE} HTTP/1.1\r\nHost: a\r\n\r\n'.encode())
            reader.recv(1)
            server.signal(signal.SIGTERM)
            wait_until(lambda: 'requests=1' in server.stderr(), 'it waits for who reads')
            server.signal(signal.SIGTERM)
            eq(server.wait_exit(), 0)
        check('serve.drain_cut' in server.stderr(), server.stderr()[-500:])
        check(not path.exists(), 'its file is gone')
        server.start()


@scene
def the_command_line_comes_over_a_unix_socket(binary):
    with Server(binary) as server:
        path, queue_type = fresh(server, 's'), {'Content-Type': 'application/json'}
        server.restart('--listen', f'127.0.0.1:0,unix:{path}', '--set', 'log.access=true')
        client = Client(binary, server)
        client.env['PALIMPSEST_SERVER'] = f'unix:{path}'
        page = client.folder / 'page.html'
        page.write_bytes(os.urandom(70000))
        client.ok('put', 'A', '1', str(page))
        eq(client('get', 'A').stdout, page.read_bytes())
        check('A' in client.ok('ls'), 'a listing')
        check('1' in client.ok('history', 'A'), 'another')
        client.ok('rm', 'A')
        eq(client('get', 'A').returncode, 5)
        client.ok('queue', 'create', 'q')
        client.ok('queue', 'produce', 'q', stdin=b'one\ntwo\n')
        check('q' in client.ok('queue', 'ls'), 'queues')
        check(len(client.ok('slow', 'ls').splitlines()) > 1, 'the admin routes are on it')
        client.ok('check')
        eq(client.json('flight', 'ls', f'unix:{path}')[0]['server'], f'unix:{path}')
        eq(client('ls', '--server', server.url).returncode, 0, 'TCP beside it')
        wait_until(lambda: server.stderr().count('peer=unix') > 10, 'all came over the socket')
        eq(server.request('POST', '/v1/queue.stats', queue_type, b'{"queue_name":"q"}').status, 200)


def _told(client, target, exit_code, *words):
    """A call that fails with that code, and says so."""
    got = client('ls', '--server', target)
    eq(got.returncode, exit_code, got.stderr)
    for word in words:
        check(word in got.stderr.decode(), f'{target}: {got.stderr}')


@scene
def the_command_line_says_why_a_unix_socket_is_none(binary):
    with Server(binary) as server:
        client, folder = Client(binary, server), server.folder
        _told(client, 'unix:', 2, 'unix:/PATH')
        _told(client, 'unix:s', 2, 'unix:/PATH')
        _told(client, f'unix:/{"s" * 107}', 2, '107')
        _told(client, f'unix:{folder}/none', 4, f'unix:{folder}/none', 'No such file', 'is it running')
        (folder / 'file').write_text('x')
        _told(client, f'unix:{folder}/file', 4, f'unix:{folder}/file')
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(folder / 'stale'))
        _told(client, f'unix:{folder}/stale', 4, 'is it running')
        with socket.socket(socket.AF_UNIX) as other, concurrent.futures.ThreadPoolExecutor(1) as pool:
            other.bind(str(folder / 'other'))
            other.listen(4)

            def answer_oddly():
                with other.accept()[0] as peer:
                    peer.recv(1000)
                    peer.sendall(b'220 smtp\r\n')
            pool.submit(answer_oddly)
            _told(client, f'unix:{folder}/other', 4, f'unix:{folder}/other')


class Nginx(Process):
    """In front of a unix socket, over connections that it keeps."""

    def __init__(self, path):
        super().__init__('nginx')
        self.port = free_port()
        user = 'user root;' if os.geteuid() == 0 else ''
        places = ' '.join(f'{kind}_temp_path {self.folder}/{kind};' for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
        pathlib.Path(self.folder, 'conf').write_text(
            f'{user} worker_processes 1; daemon off; pid {self.folder}/pid; error_log {self.folder}/errors;\n'
            f'events {{ worker_connections 256; }}\n'
            f'http {{ {places} access_log off; upstream us {{ server unix:{path}; keepalive 4; }}\n'
            f'server {{ listen 127.0.0.1:{self.port}; client_max_body_size 8m; location / {{ proxy_pass http://us;\n'
            f'proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;\n'
            f'proxy_set_header X-Client-IP $http_x_test; }} }} }}\n')
        self.run(['nginx', '-e', self.folder / 'errors', '-c', self.folder / 'conf'])
        self.wait_port(self.port)

    def close(self):
        self.end(signal.SIGTERM)
        super().close()


def _stashes(server, port, client):
    """How many of eight stashes in a row were paced, as one client through nginx."""
    statuses = []
    for _ in range(8):
        server.port, kept = port, server.port
        statuses.append(server.request('GET', f'{PAGE}/1?stash=true', {'X-Test': client}).status)
        server.port = kept
    return statuses.count(429)


@scene
def nginx_comes_over_a_unix_socket(binary):
    with Server(binary) as server:
        path = fresh(server, 's')
        options = ('--listen', f'127.0.0.1:0,unix:{path}', '--set', 'page.stash_per_s_max=1')
        server.restart(*options)
        nginx = Nginx(path)
        try:
            large = os.urandom(3 << 20)
            direct, server.port = server.port, nginx.port
            eq(server.request('PUT', f'{PAGE}/1', {'Content-Type': 'application/octet-stream'}, large).status, 201)
            for _ in range(20):
                got = server.request('GET', PAGE)
                eq((got.status, got.body == large), (200, True))
            server.port = direct
            check(_stashes(server, nginx.port, '198.51.100.1') > 0, 'a proxy that is not trusted is one client')
            check(_stashes(server, nginx.port, '198.51.100.2') > 0, 'whatever it says')
            server.restart(*options, '--set', 'http.trusted_proxies=unix')
            eq(server.request('GET', PAGE).status, 200)
            paced = [_stashes(server, nginx.port, f'198.51.100.{i}') for i in range(2)]
            check(all(0 < count < 8 for count in paced), f'each client has a pace of its own: {paced}')
        finally:
            nginx.close()


main()
