"""Goal: SIGTERM ends the server when what it had read is answered, and does not wait for anything else.
Method: slow readers hold an answer open; others come, idle or load the server meanwhile."""
import os
import socket
import threading
import time

from harness import EXIT_TIMEOUT, REQUEST_TIMEOUT, Server, check, eq, main, scene, wait_until

BIG = 24 << 20
LARGE_BODIES = ('--set', 'page.body_bytes_max=64M', '--set', 'http.arena_bytes_max=192M',
                '--set', 'page.codec=identity')
# A shard of the ready answers takes one of half its size.
LARGE_READY = (*LARGE_BODIES, '--set', 'hot_bytes=4G')


def put(server, title, body, rev=1):
    answer = server.request('PUT', f'/localhost/v1/page/html/{title}/{rev}', {'Content-Type': 'text/html'}, body)
    eq(answer.status, 201, str(answer.body[:300]))


def slow_reader(server, title):
    """A connection that has the head and a little of the body of a large answer, and reads no more for now."""
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.settimeout(REQUEST_TIMEOUT)
    peer.connect((server.host, server.port))
    peer.sendall(f'GET /localhost/v1/page/html/{title} HTTP/1.1\r\nHost: x\r\n\r\n'.encode())
    got = peer.recv(1000)
    check(got.startswith(b'HTTP/1.1 200'), repr(got[:100]))
    return peer, got


def read_rest(peer, got, size):
    """The body of size bytes, or what comes of it, of which got (with the head) has been read."""
    _, _, body = got.partition(b'\r\n\r\n')
    pieces, left = [body], size - len(body)
    while left > 0:
        piece = peer.recv(1 << 16)
        if not piece:
            break
        pieces.append(piece)
        left -= len(piece)
    peer.close()
    return b''.join(pieces)


def drain_behind(server, body, ready=()):
    """A drain that waits for a slow reader of this body, under Big: (the reader, what it has). ready: titles asked for
    so often that they are in memory; files are not waited for in a drain, and that they need not be is up to the
    kernel."""
    put(server, 'Big', body)
    for title in 3 * ready:
        eq(server.request('GET', f'/localhost/v1/page/html/{title}').status, 200)
    peer, got = slow_reader(server, 'Big')
    server.signal(15)
    wait_until(lambda: 'serve.drain' in server.stderr(), 'the drain begins')
    return peer, got


def ended(server):
    return server.process.poll() is not None


@scene
def an_answer_begun_is_finished_and_new_ones_are_closed(binary):
    body = os.urandom(1 << 20) * (BIG >> 20)
    with Server(binary, *LARGE_BODIES) as server:
        put(server, 'Small', b'small')
        peer, got = drain_behind(server, body)
        late = server.request('GET', '/localhost/v1/page/html/Small')
        check(late.status in (200, 503), f'status {late.status}')
        eq(late.headers['Connection'], 'close')
        write = server.request('PUT', '/localhost/v1/page/html/Late/1', {'Content-Type': 'text/html'}, b'x')
        eq(write.status, 503)
        check(b'shutting_down' in write.body, repr(write.body))
        check(write.headers['Retry-After'] is not None, 'Retry-After')
        check(not ended(server), 'it ended before its answer was out')
        read = read_rest(peer, got, BIG)
        eq(len(read), len(body))
        check(read == body, 'other bytes')
        eq(server.wait_exit(), 0)
        check('drain_cut' not in server.stderr(), 'it was cut')


@scene
def an_answer_begun_during_the_drain_is_finished_and_what_comes_behind_is_refused(binary):
    body = os.urandom(1 << 20) * (BIG >> 20)
    with Server(binary, *LARGE_READY) as server:
        put(server, 'Small', b'small')
        owed, owed_got = drain_behind(server, body, ready=('Small', 'Big'))
        # What is ready is answered as long as something owed from before is left.
        eq(server.request('GET', '/localhost/v1/page/html/Small').status, 200)
        late, late_got = slow_reader(server, 'Big')
        check(b'\r\nConnection: close\r\n' in late_got, repr(late_got[:400]))
        check(read_rest(owed, owed_got, BIG) == body, 'other bytes')
        # Now the late answer alone is waited for.
        wait_until(lambda: server.request('GET', '/localhost/v1/page/html/Small').status == 503, 'new ones are refused')
        refused = server.request('GET', '/localhost/v1/page/html/Small')
        check(b'shutting_down' in refused.body, repr(refused.body))
        eq((refused.headers['Connection'], refused.headers['Retry-After']), ('close', '1'))
        eq([server.request('GET', path).status for path in ('/healthz', '/readyz')], [200, 503])
        check(not ended(server), 'it ended before its answer was out')
        check(read_rest(late, late_got, BIG) == body, 'other bytes')
        eq(server.wait_exit(), 0)
        check('drain_cut' not in server.stderr(), 'it was cut')


@scene
def nothing_that_waits_is_begun_in_a_drain(binary):
    body = os.urandom(1 << 20) * (BIG >> 20)
    with Server(binary, *LARGE_BODIES, '--set', 'lists.related.generator=http://127.0.0.1:9/') as server:
        eq(server.request('DELETE', '/localhost/v1/lists/related/d').status, 204)
        eq(server.request('GET', '/health').status, 200)
        peer, got = drain_behind(server, body)
        dropped = server.request('DELETE', '/localhost/v1/lists/related/d')
        check(dropped.status == 503 and b'shutting_down' in dropped.body, repr(dropped))
        health = server.json('GET', '/health')
        eq((health.status, health.body['status']), (503, 'fail'))
        check('shutting down' in health.body['checks']['queues:storage'][0]['output'], repr(health))
        check(read_rest(peer, got, BIG) == body, 'other bytes')
        eq(server.wait_exit(), 0)


@scene
def what_is_cut_of_a_drain_is_counted_whenever_it_began(binary):
    with Server(binary, *LARGE_READY) as server:
        owed, _ = drain_behind(server, os.urandom(1 << 20) * (BIG >> 20), ready=('Big',))
        late, _ = slow_reader(server, 'Big')
        eq(server.sigterm(), 0)
        [line] = [line for line in server.stderr().splitlines() if 'serve.drain_cut' in line]
        check('requests=2 ' in line, line)
        owed.close()
        late.close()


@scene
def idle_and_half_open_connections_are_not_waited_for(binary):
    with Server(binary) as server:
        idle = server.connect()
        idle.sendall(b'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n')
        check(idle.recv(4096).startswith(b'HTTP/1.1 200'), 'healthz')
        silent = server.connect()
        half = server.connect()
        half.sendall(b'GET /healthz HTTP/1.1\r\nHo')
        upload = server.connect()
        upload.sendall(b'PUT /localhost/v1/page/html/A/1 HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc')
        eq(server.request('GET', '/healthz').status, 200)
        eq(server.sigterm(), 0)
        check('drain_cut' not in server.stderr(), 'it was cut')
        for peer in (idle, silent, half, upload):
            peer.close()


@scene
def drain_timeout_cuts_who_never_reads(binary):
    with Server(binary, *LARGE_BODIES, '--set', 'drain_timeout=500ms') as server:
        put(server, 'Big', os.urandom(1 << 20) * (BIG >> 20))
        peer, _ = slow_reader(server, 'Big')
        began = time.monotonic()
        eq(server.sigterm(), 0)
        took = time.monotonic() - began
        check(took > 0.4, f'cut after {took:.1f} s')
        check('serve.drain_cut' in server.stderr(), 'it says so')
        peer.close()
        server.start()
        eq(server.request('HEAD', '/localhost/v1/page/html/Big').status, 200)


@scene
def a_second_signal_cuts_at_once(binary):
    with Server(binary, *LARGE_BODIES) as server:
        peer, _ = drain_behind(server, os.urandom(1 << 20) * (BIG >> 20))
        eq(server.sigterm(), 0)     # sooner than drain_timeout
        peer.close()


@scene
def asked_again_when_it_has_stopped_it_still_ends_with_0(binary):
    with Server(binary) as server:
        put(server, 'A', b'a')
        server.signal(15)
        deadline = time.monotonic() + EXIT_TIMEOUT
        while 'serve.stop' not in server.stderr():
            check(time.monotonic() < deadline, 'it does not stop')
        while server.process.poll() is None:
            check(time.monotonic() < deadline, 'it does not end')
            server.signal(15)
        eq(server.wait_exit(), 0)


@scene
def load_that_goes_on_does_not_keep_it_alive(binary):
    with Server(binary) as server:
        put(server, 'A', b'a' * 2000)
        over = threading.Event()
        bad, answered = [], []

        def load(number):
            rev = 1
            while not over.is_set():
                rev += 1
                try:
                    got = server.request('GET', '/localhost/v1/page/html/A')
                    wrote = server.request('PUT', f'/localhost/v1/page/html/T{number}/{rev}',
                                           {'Content-Type': 'text/html'}, b'%d' % rev)
                except OSError:
                    continue
                except Exception:  # pylint: disable=broad-except
                    continue       # cut while it is going down: nothing was promised
                if got.status not in (200, 503) or wrote.status not in (201, 503):
                    bad.append((got.status, wrote.status, wrote.body[:200]))
                elif wrote.status == 201:
                    answered.append((number, rev))

        clients = [threading.Thread(target=load, args=(n,)) for n in range(8)]
        for client in clients:
            client.start()
        try:
            wait_until(lambda: len(answered) > 50, 'the load runs')
            server.signal(15)
            eq(server.process.wait(EXIT_TIMEOUT), 0)    # sooner than drain_timeout
        finally:
            over.set()
            for client in clients:
                client.join()
        eq(server.wait_exit(), 0)
        eq(bad, [])
        server.start()
        for number, rev in answered:
            got = server.request_again('GET', f'/localhost/v1/page/html/T{number}/{rev}')
            eq((got.status, got.body), (200, b'%d' % rev), f'T{number}/{rev}')


main()
