"""What scenes of lists and of flights across servers stand on: a real redis-server, a generator that counts, nginx in
front, and any number of servers that share them.

    with Cluster(binary, 4) as c:
        answers = c.at_once([(n, f'/d1/{p}') for p in range(1, 6)])       # (server or 'balancer', path below the list)
        eq(c.generator.count(), 1)

Everything is on 127.0.0.1, on free ports, in folders of its own, and is ended by its pid. Nothing is measured: limits
of time are far from what is expected, so that a loaded machine changes nothing.
"""
import collections
import concurrent.futures
import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import urllib.parse

from harness import READY_TIMEOUT, REQUEST_TIMEOUT, Answer, Server, check, eq, free_port, wait_until

GATE_TIMEOUT = 240
PATIENT = ('--set', 'redis.timeout=20s', '--set', 'redis.lease=30s')   # a slow machine is no outage and no dead leader


class Process:
    """A program of somebody else's, in a folder of its own; stopped, continued, killed by its pid."""

    def __init__(self, name):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=name + '-'))
        self.process = None

    def run(self, command):
        with open(self.folder / 'log', 'ab') as log:
            self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=log, cwd=self.folder)

    def wait_port(self, port):
        def answers():
            check(self.process.poll() is None, f'it ended: {(self.folder / "log").read_text()[-1000:]}')
            with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port), 1):
                return True
            return False
        wait_until(answers, f'port {port} answers', READY_TIMEOUT)

    def stop(self):
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self):
        self.process.send_signal(signal.SIGCONT)

    def end(self, number=signal.SIGKILL):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.send_signal(signal.SIGCONT)
        if self.process is not None:
            self.process.wait(READY_TIMEOUT)
        self.process = None

    def close(self):
        self.end()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class RedisError(Exception):
    """An error reply."""


class RedisConnection:
    """RESP2 as far as needed: one command, one reply. Not shared between threads."""

    def __init__(self, port, timeout=REQUEST_TIMEOUT):
        self.socket = socket.create_connection(('127.0.0.1', port), timeout)
        self.file = self.socket.makefile('rb')

    def send(self, *args):
        parts = [part if isinstance(part, bytes) else str(part).encode() for part in args]
        self.socket.sendall(b'*%d\r\n' % len(parts) + b''.join(b'$%d\r\n%s\r\n' % (len(p), p) for p in parts))

    def reply(self):
        line = self.file.readline()
        if not line:
            raise ConnectionError('closed')
        kind, rest = line[:1], line[1:-2]
        if kind == b'-':
            raise RedisError(rest.decode())
        if kind == b'+':
            return rest.decode()
        if kind == b':':
            return int(rest)
        if kind == b'$':
            return None if rest == b'-1' else self.file.read(int(rest) + 2)[:-2]
        return None if rest == b'-1' else [self.reply() for _ in range(int(rest))]

    def __call__(self, *args):
        self.send(*args)
        return self.reply()

    def close(self):
        self.file.close()
        self.socket.close()


class Redis(Process):
    """redis-server, empty at each start."""

    def __init__(self, *args, port=None):
        super().__init__('redis')
        self.args, self.port = args, port or free_port()
        self.start()

    def start(self):
        self.run(['redis-server', '--port', self.port, '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no',
                  '--dir', self.folder, *self.args])
        self.wait_port(self.port)

    def restart(self):
        self.end()
        self.start()

    def connect(self):
        return RedisConnection(self.port)

    def __call__(self, *args):
        connection = self.connect()
        try:
            return connection(*args)
        finally:
            connection.close()

    def records(self):
        """Keys of flights."""
        return sorted(key.decode() for key in self('KEYS', 'pal:f:*'))

    def calls(self):
        """Commands since its start, by name, without what this class asks."""
        text = self('INFO', 'commandstats').decode()
        found = dict(re.findall(r'^cmdstat_([a-z|]+):calls=(\d+)', text, re.M))
        return {name: int(n) for name, n in found.items() if name not in ('info', 'keys', 'ping')}


# ---- the generator

class Gate:
    """Calls arrive and wait."""

    def __init__(self):
        self._opened = threading.Event()
        self.arrived = 0

    def open(self):
        self._opened.set()

    def wait(self):
        self.arrived += 1
        check(self._opened.wait(GATE_TIMEOUT), 'nobody opened the gate')


class Generator:
    """Answers with five items that hold the number of the call, so that no two lists are alike."""

    def __init__(self):
        self.calls = []                # (path, display, headers)
        self.status = 200
        self.reply = None              # bytes: instead of a list
        self.gate = None
        self.drop = False              # the connection ends instead of an answer
        self._lock = threading.Lock()
        generator = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            wbufsize = 1 << 16         # head and body go out at once: no wait for an acknowledgement between them

            def log_message(self, *args):
                pass

            def do_GET(self):
                generator.answer(self)

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 1024

            def handle_error(self, request, client_address):
                pass

        self.http = Listener(('127.0.0.1', 0), Handler)
        self.url = f'http://127.0.0.1:{self.http.server_port}/related'
        threading.Thread(target=self.http.serve_forever, kwargs={'poll_interval': 0.02}, daemon=True).start()

    def answer(self, handler):
        with self._lock:
            number = len(self.calls) + 1
            self.calls.append((handler.path, handler.headers.get('Palimpsest-Display'), dict(handler.headers.items())))
            gate, status, reply, drop = self.gate, self.status, self.reply, self.drop
        if gate is not None:
            gate.wait()
        if drop:
            handler.close_connection = True
            return
        body = reply if reply is not None else json.dumps(
            [{'link': f'/l/{number}/{i}', 'image': f'/i/{number}/{i}'} for i in range(1, 6)]).encode()
        handler.send_response(status)
        handler.send_header('Content-Type', 'application/json')
        handler.send_header('Content-Length', str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    @contextlib.contextmanager
    def holding(self):
        """Calls that come inside wait until gate.open(); it is open at the end."""
        gate = self.gate = Gate()
        try:
            yield gate
        finally:
            self.gate = None
            gate.open()

    def count(self, display=None):
        return sum(display is None or call[1] == display for call in list(self.calls))

    def close(self):
        if self.gate is not None:
            self.gate.open()
        self.http.shutdown()
        self.http.server_close()


# ---- in front

class Balancer(Process):
    """nginx, round robin, no stickiness; what one server does not answer is asked of the next."""

    def __init__(self, ports):
        super().__init__('nginx')
        self.port = free_port()
        user = 'user root;' if os.geteuid() == 0 else ''
        upstream = ' '.join(f'server 127.0.0.1:{port} max_fails=0;' for port in ports)
        places = ' '.join(f'{kind}_temp_path {self.folder}/{kind};'
                          for kind in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi'))
        (self.folder / 'conf').write_text(
            f'{user} worker_processes 1; daemon off; pid {self.folder}/pid; error_log {self.folder}/errors;\n'
            f'events {{ worker_connections 4096; }}\n'
            f'http {{ access_log off; {places} upstream servers {{ {upstream} }}\n'
            f'server {{ listen 127.0.0.1:{self.port} backlog=1024; location / {{ proxy_pass http://servers;\n'
            f'proxy_next_upstream error timeout; add_header Served-By $upstream_addr always; }} }} }}\n')
        self.run(['nginx', '-e', self.folder / 'errors', '-c', self.folder / 'conf'])
        self.wait_port(self.port)

    def close(self):
        self.end(signal.SIGTERM)   # its worker ends with it
        super().close()


# ---- all of them

class Cluster:
    """count servers with embedded stores of their own, one Redis, one generator; with balancer=True nginx as well.
    options: fields of the list `related`; it lasts and waits longer than any scene, unless they say otherwise. args: further arguments of each server. redis: one's own, or False."""

    def __init__(self, binary, count, *args, redis=None, url=None, options=None, balancer=False, patient=True):
        self.stack = contextlib.ExitStack()
        self.redis = redis if redis is not None else self.stack.enter_context(Redis())
        self.generator = Generator()
        self.stack.callback(self.generator.close)
        fields = {'generator': self.generator.url, 'params': 'user,lang', 'unique_by': 'link,image',
                  'ttl': '1h', 'wait': '4m', 'timeout': '4m', **(options or {})}
        self.args = [*(PATIENT if patient else ()), *args]
        if self.redis:
            self.args += ['--set', f'redis.url={url or f"redis://127.0.0.1:{self.redis.port}"}']
        for name, value in fields.items():
            if value is None:       # as if it was not there
                continue
            self.args += ['--set', f'lists.related.{name}={value}']
        self.binary, self.servers, self.balancer = binary, [], None
        try:
            for _ in range(count):
                self.servers.append(self.stack.enter_context(Server(binary, *self.args)))
            self.wait_redis()
            if balancer:
                self.balancer = self.stack.enter_context(Balancer([server.port for server in self.servers]))
        except BaseException:
            self.stack.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *why):
        if self.generator.gate is not None:
            self.generator.gate.open()
        return self.stack.__exit__(*why)

    def metric(self, server, name):
        """The sum of a metric's values at one server."""
        text = self.servers[server].request('GET', '/metrics').body.decode()
        return sum(float(n) for n in re.findall(rf'^\w*?{name}(?:{{[^}}]*}})? (\S+)$', text, re.M))

    def total(self, name):
        return sum(self.metric(n, name) for n, server in enumerate(self.servers) if server.process is not None)

    def wait_redis(self, up=True, servers=None):
        """Until each living server has Redis, or none has."""
        for n, server in enumerate(self.servers):
            if self.redis and server.process is not None and (servers is None or n in servers):
                wait_until(lambda n=n: self.metric(n, 'redis_up') == up, f'server {n}: redis_up {up}')

    def get(self, server, path, headers=None, method='GET', timeout=REQUEST_TIMEOUT):
        """path: below the list `related`. A whole answer, JSON parsed where it is JSON."""
        port = self.balancer.port if server == 'balancer' else self.servers[server].port
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=timeout)
        try:
            connection.request(method, '/localhost/v1/lists/related' + path, headers=headers or {})
            response = connection.getresponse()
            body = response.read()
        finally:
            connection.close()
        is_json = body and 'json' in response.headers.get('Content-Type', '')
        return Answer(response.status, response.headers, json.loads(body) if is_json else body)

    def begin(self, asked, headers=None):
        """Asks (server, path) each on a thread of its own; futures of the answers, or of what went wrong."""
        pool = concurrent.futures.ThreadPoolExecutor(max(1, len(asked)))
        self.stack.callback(pool.shutdown)
        return [pool.submit(self.get, server, path, headers) for server, path in asked]

    def at_once(self, asked, headers=None):
        return [future.result(GATE_TIMEOUT + REQUEST_TIMEOUT) for future in self.begin(asked, headers)]


def one_list(answers):
    """All are 200 and of one version, each position is its own item, nothing is there twice."""
    versions, items = collections.Counter(), {}
    for answer in answers:
        eq(answer.status, 200, answer.body)
        versions[answer.headers['List-Version']] += 1
        p = answer.body['position']
        eq(items.setdefault(p, answer.body), answer.body, f'position {p}')
    eq(len(versions), 1, f'versions {dict(versions)}')
    for field in ('link', 'image'):
        eq(len({item[field] for item in items.values()}), len(items), f'duplicates of {field}')
    return next(iter(versions))


def query(**params):
    return '?' + urllib.parse.urlencode(params)
