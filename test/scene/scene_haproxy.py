"""Goal: behind haproxy, configured as docs/several-servers.md says, four servers are restarted one after the other and no
request fails.
Method: clients ask for lists, new ones and known ones, all the time. Each server is asked to end while somebody reads
a long answer from it slowly, so that it drains until its health check has taken it out; another time all of them end at
once when asked, long before any check, and what they refuse goes to the next."""
import http.client
import json
import socket
import threading

from harness import REQUEST_TIMEOUT, Server, check, eq, free_port, main, scene, wait_until
from haproxy_help import Haproxy
from list_help import Cluster
from origin import Origin

BIG = 24 << 20
COUNT, CLIENTS = 4, 4
LEASED = ('--set', 'redis.timeout=20s', '--set', 'redis.lease=2s')
LARGE = ('--set', 'page.body_bytes_max=64M', '--set', 'http.arena_bytes_max=192M', '--set', 'page.codec=identity')
GET = b'GET /localhost/v1/page/html/Big HTTP/1.1\r\nHost: x\r\n\r\n'


class Clients:
    """Ask through the balancer until they are told to stop; keep what was wrong."""

    def __init__(self, c, port):
        self.c, self.port, self.over = c, port, threading.Event()
        self.wrong, self.answered = [], 0
        self._lock = threading.Lock()
        self.threads = [threading.Thread(target=self._ask, args=(n,)) for n in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def _ask(self, client):
        turn = 0
        while not self.over.is_set():
            turn += 1
            # Each display five times, by position, from whichever server; then a new one.
            display = f'/c{client % 2}-{turn // 5}'
            try:
                answer = self.c.get('balancer', f'{display}/{turn % 5 + 1}')
                why = None if answer.status == 200 else f'{answer.status} {str(answer.body)[:200]}'
            except Exception as error:      # pylint: disable=broad-except
                why = f'{type(error).__name__}: {error}'
            with self._lock:
                self.answered += why is None
                if why is not None:
                    self.wrong.append(f'{display}: {why}')

    def wait_more(self, count=40):
        wanted = self.answered + count
        wait_until(lambda: self.answered >= wanted or self.wrong, f'{count} more answers')

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(REQUEST_TIMEOUT)


class Fleet:
    """Four servers on ports that last, haproxy before them, clients before it."""

    def __init__(self, binary, *args):
        self.cluster = Cluster(binary, 0, *LEASED, *args, patient=False)
        try:
            self._begin(binary)
        except BaseException:
            self.cluster.stack.close()
            raise

    def _begin(self, binary):
        c = self.cluster
        ports = [free_port() for _ in range(COUNT)]
        secret = c.redis.folder / 'secret'
        secret.write_text('what these servers share\n')
        for port in ports:
            c.servers.append(c.stack.enter_context(Server(
                binary, *c.args, '--listen', f'127.0.0.1:{port}', '--set', f'servers.advertise=http://127.0.0.1:{port}',
                '--set', f'servers.secret_file={secret}')))
        c.wait_redis()
        self.haproxy = c.balancer = c.stack.enter_context(Haproxy(ports))
        for n in range(COUNT):
            self.haproxy.wait_server(n, True)
        self.clients = Clients(c, self.haproxy.port)
        c.stack.callback(self.clients.stop)

    def __enter__(self):
        return self

    def __exit__(self, *why):
        return self.cluster.__exit__(*why)


def _slow_reader(server):
    """Has the head of a long answer and reads no more for now."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.settimeout(REQUEST_TIMEOUT)
    peer.connect((server.host, server.port))
    peer.sendall(GET)
    check(peer.recv(1000).startswith(b'HTTP/1.1 200'), 'the long answer')
    return peer


def _read_all(peer):
    size = 0
    while True:
        piece = peer.recv(1 << 16)
        if not piece:
            return size
        size += len(piece)


@scene
def a_draining_server_is_taken_out_before_it_ends(binary):
    with Fleet(binary, *LARGE) as fleet:
        for n, server in enumerate(fleet.cluster.servers):
            eq(server.request('PUT', '/localhost/v1/page/html/Big/1', {'Content-Type': 'text/html'},
                              b'x' * BIG).status, 201)
            with _slow_reader(server) as peer:
                server.signal(15)
                fleet.haproxy.wait_server(n, False)
                check(server.process.poll() is None, 'it was taken out while it drained')
                # Nothing comes to it any more.
                before = fleet.haproxy.stats()[f's{n}']['stot']
                fleet.clients.wait_more()
                eq(fleet.haproxy.stats()[f's{n}']['stot'], before, 'requests to what was taken out')
                check(_read_all(peer) > BIG - 2000, 'what it had begun is whole')
            eq(server.wait_exit(), 0)
            server.start()
            fleet.haproxy.wait_server(n, True)
        fleet.clients.wait_more()
        fleet.clients.stop()
        eq(fleet.clients.wrong, [], f'of {fleet.clients.answered}')


@scene
def a_rolling_restart_fails_no_request(binary):
    """Nothing holds the servers: each has ended before any check could see it drain."""
    with Fleet(binary) as fleet:
        for n, server in enumerate(fleet.cluster.servers):
            fleet.clients.wait_more()
            eq(server.sigterm(), 0)
            fleet.clients.wait_more()
            server.start()
            fleet.haproxy.wait_server(n, True)
            fleet.cluster.wait_redis(servers=[n])
        fleet.clients.wait_more()
        fleet.clients.stop()
        eq(fleet.clients.wrong, [], f'of {fleet.clients.answered}')
        # Round robin: all of them have worked.
        for n in range(COUNT):
            check(int(fleet.haproxy.stats()[f's{n}']['stot']) > 0, f'server {n} was asked')


def _put_until(fleet, over, wrong, done):
    connection = http.client.HTTPConnection('127.0.0.1', fleet.haproxy.port, timeout=REQUEST_TIMEOUT)
    while not over.is_set():
        try:
            connection.request('PUT', f'/localhost/v1/page/html/P/{len(done) + 1}', body=b'put')
            response = connection.getresponse()
            response.read()
            (done if response.status == 201 else wrong).append(response.status)
        except (OSError, http.client.HTTPException) as error:
            wrong.append(repr(error))
            connection.close()
    connection.close()


@scene
def a_server_that_is_taken_out_first_refuses_no_put(binary):
    with Fleet(binary) as fleet:
        over, wrong, done = threading.Event(), [], []
        thread = threading.Thread(target=_put_until, args=(fleet, over, wrong, done))
        thread.start()
        try:
            for n in (0, 1):
                server = fleet.cluster.servers[n]
                eq(fleet.haproxy.ask(f'set server palimpsest/s{n} state drain').strip(), '')
                wait_until(lambda n=n: fleet.haproxy.stats()[f's{n}']['scur'] == '0', 'what it had is answered')
                eq(server.sigterm(), 0)
                server.start()
                eq(fleet.haproxy.ask(f'set server palimpsest/s{n} state ready').strip(), '')
                fleet.haproxy.wait_server(n, True)
                before = len(done)
                wait_until(lambda before=before: len(done) > before + 20 or wrong, '20 more')
        finally:
            over.set()
            thread.join(REQUEST_TIMEOUT)
        eq((wrong, fleet.clients.wrong), ([], []), f'of {len(done)}')


@scene
def an_edit_goes_through_whatever_server_reads(binary):
    with Origin('localhost') as origin:
        origin.page('A', (7, 'the text'))
        with Fleet(binary, *origin.options('localhost')) as fleet:
            def ask(method, path, headers=None, body=None):
                connection = http.client.HTTPConnection('127.0.0.1', fleet.haproxy.port, timeout=REQUEST_TIMEOUT)
                try:
                    connection.request(method, '/localhost/v1' + path, body, headers or {})
                    answer = connection.getresponse()
                    return answer.status, answer.headers, answer.read()
                finally:
                    connection.close()
            for _ in range(2 * COUNT):
                eq(ask('GET', '/page/html/A')[0], 200)
                status, headers, html = ask('GET', '/page/html/A?redirect=false&stash=true')
                eq(status, 200)
                rev, tid = headers['ETag'].strip('"').split('/')
                eq(ask('GET', f'/page/data-parsoid/A/{rev}/{tid}')[0], 200, 'the render that was loaded')
                saved = ask('POST', f'/transform/html/to/wikitext/A/{rev}', {
                    'Content-Type': 'application/json', 'If-Match': headers['ETag']}, json.dumps({'html': html.decode()}))
                eq(saved[0], 200, saved[2])


main()
