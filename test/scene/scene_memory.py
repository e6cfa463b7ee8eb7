"""Goal: what requests hold together is bounded (http.bytes_max), said as 503 with Retry-After, and given back.
Method: readers that read nothing and writers that stop one byte short hold it; others ask meanwhile; /metrics and the
process's RSS are looked at."""
import gzip
import json
import re
import select
import socket

from harness import REQUEST_TIMEOUT, Server, check, eq, main, memory_of, scene, wait_until
from origin import Origin

MB = 1 << 20
PAGE = '/localhost/v1/page/html'
KV = '/localhost/v1/key_value'


def rss(server):
    return memory_of(server, 'VmRSS')


def figure(server, name):
    text = server.request('GET', '/metrics').body.decode()
    return int(float(re.search(rf'^palimpsest_{name} (\S+)$', text, re.M)[1]))


def connect(server):
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    peer.settimeout(REQUEST_TIMEOUT)
    peer.connect((server.host, server.port))
    return peer


def slow_reader(server, target, headers=''):
    """(its connection, the head of the answer): what follows stays where it is."""
    peer = connect(server)
    peer.sendall(f'GET {target} HTTP/1.1\r\nHost: x\r\n{headers}\r\n'.encode())
    got = b''
    while b'\r\n\r\n' not in got:
        piece = peer.recv(1000)
        check(piece, f'the connection closed after {got!r}')
        got += piece
    return peer, got.partition(b'\r\n\r\n')[0].decode()


def writer(server, come, head):
    """A connection that has sent so much of the body of a PUT."""
    peer = connect(server)
    peer.sendall(f'PUT {KV}/b/k HTTP/1.1\r\nHost: x\r\n{head}\r\n'.encode() + come)
    return peer


def send_all_at_once(server, peers, count):
    """Sends each so many bytes; some are answered, or cut, before the end. Returns the most that the server held."""
    most = 0
    left = {peer: count for peer in peers}
    piece = b'x' * (1 << 16)
    while left:
        _, ready, _ = select.select([], list(left), [], REQUEST_TIMEOUT)
        check(ready, 'nobody takes anything')
        most = max(most, rss(server) or 0)
        for peer in ready:
            try:
                left[peer] -= peer.send(piece, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            except OSError:
                left[peer] = 0
            if left[peer] <= 0:
                del left[peer]
    return most


def overloaded(answer, what):
    eq((answer.status, answer.headers['retry-after']), (503, '1'), what)
    body = json.loads(answer.body)
    check(body.get('type', 'overloaded').endswith('overloaded') and 'http.bytes_max' in str(body), f'{what}: {body}')


def end(peers):
    for peer in peers:
        peer.close()


@scene
def a_hundred_slow_readers_of_a_large_page_are_bounded(binary):
    """8 kB on disk, 8 MiB to who takes no coding."""
    with Server(binary, '--set', 'http.bytes_max=64M') as server:
        page = (b'<p>The same again and again.' * 400000)[:8 * MB]
        eq(server.request('PUT', PAGE + '/Big/1', {'Content-Type': 'text/html'}, page).status, 201)
        eq(server.request('PUT', PAGE + '/Small/1', {'Content-Type': 'text/html'}, b'small').status, 201)
        for _ in range(3):
            eq(server.request('GET', PAGE + '/Small').body, b'small')
        server.restart()
        for _ in range(3):
            eq(server.request('GET', PAGE + '/Small').body, b'small')
        before = rss(server)
        readers = [slow_reader(server, PAGE + '/Big') for _ in range(100)]
        codes = [int(head.split()[1]) for _, head in readers]
        check(5 <= codes.count(200) <= 8, f'{codes.count(200)} answers of 8 MiB fit into 64 MiB')
        eq(codes.count(503), 100 - codes.count(200))
        refused = next(head for _, head in readers if ' 503 ' in head)
        check('retry-after: 1' in refused.lower(), refused)
        overloaded(server.request('GET', PAGE + '/Big'), 'one more')
        now = rss(server)
        check(now is None or now < before + 64 * MB + 24 * MB, f'RSS {before} -> {now}')
        held = figure(server, 'http_budget_bytes')
        check(8 * MB * 5 <= held <= 64 * MB, f'{held} bytes are held')
        eq(figure(server, 'http_budget_bytes_max'), 64 * MB)
        check(figure(server, 'http_budget_refused_total') >= 93, 'refusals are counted')
        eq(server.request('GET', PAGE + '/Small').body, b'small')
        eq(server.request('GET', PAGE + '/Big', {'Accept-Encoding': 'gzip'}).status, 200, 'as it lies there')
        end(peer for peer, _ in readers)
        wait_until(lambda: figure(server, 'http_budget_bytes') == 0, 'all of it is given back')
        eq(server.request('GET', PAGE + '/Big').body, page)


@scene
def memory_goes_back_to_the_machine_after_large_answers(binary):
    with Server(binary, '--set', 'http.bytes_max=512M') as server:
        page = (b'<p>The same again and again.' * 400000)[:8 * MB]
        eq(server.request('PUT', PAGE + '/Big/1', {'Content-Type': 'text/html'}, page).status, 201)
        server.restart()
        eq(server.request('GET', PAGE + '/Big', {'Accept-Encoding': 'gzip'}).status, 200)
        before = rss(server)
        for peers in (lambda: [slow_reader(server, PAGE + '/Big')[0] for _ in range(40)],
                      lambda: [writer(server, b'x' * (MB // 2), f'Content-Length: {MB}\r\n') for _ in range(300)]):
            held = peers()
            wait_until(lambda: figure(server, 'http_budget_bytes') > 100 * MB, 'they hold it')
            check(before is None or rss(server) > before + 100 * MB, 'it is memory')
            end(held)
            wait_until(lambda: figure(server, 'http_budget_bytes') == 0, 'they have left')
            wait_until(lambda: before is None or rss(server) < before + 64 * MB, 'RSS falls', timeout=60, pause=0.2)


@scene
def bodies_that_were_given_up_are_no_memory_any_more(binary):
    """Between two of the rounds in which freed memory is given back, too."""
    with Server(binary, '--set', 'http.bytes_max=64M') as server:
        eq(server.request('PUT', PAGE + '/Small/1', {'Content-Type': 'text/html'}, b'small').status, 201)
        before, most = rss(server), 0
        for _ in range(4):
            peers = [connect(server) for _ in range(100)]
            for number, peer in enumerate(peers):
                peer.sendall(f'PUT {PAGE}/B{number}/1 HTTP/1.1\r\nHost: x\r\nContent-Type: text/html\r\n'
                             f'Content-Length: {8 * MB}\r\n\r\n'.encode())
            most = max(most, send_all_at_once(server, peers, 8 * MB - 1))
            end(peers)
        check(before is None or most < before + 64 * MB + 48 * MB, f'RSS {before} -> {most}')
        wait_until(lambda: figure(server, 'http_budget_bytes') == 0, 'all of it is given back')


@scene
def bodies_count_as_they_come(binary):
    limits = ('--set', 'http.bytes_max=4M', '--set', 'http.arena_bytes_max=3M', '--set', 'page.body_bytes_max=1M')
    with Server(binary, *limits) as server:
        eq(server.request('PUT', KV + '/b').status, 201)
        announced = [writer(server, b'', f'Content-Length: {MB}\r\n') for _ in range(20)]
        eq(server.request('PUT', KV + '/b/a', None, b'x' * (MB // 2)).status, 201,
           'what is only announced takes nothing')
        end(announced)
        held = [writer(server, b'x' * (MB - 1), f'Content-Length: {MB}\r\n') for _ in range(3)]
        wait_until(lambda: figure(server, 'http_budget_bytes') > 2.8 * MB, 'three bodies have come but for a byte')
        answer = server.request('PUT', KV + '/b/a', None, b'x' * (MB + MB // 2))
        overloaded(answer, 'a body beyond what is left')
        chunked = b'%x\r\n%s\r\n0\r\n\r\n' % (2 * MB, b'x' * 2 * MB)
        answer = server.request('PUT', KV + '/b/a', {'Transfer-Encoding': 'chunked'}, chunked)
        overloaded(answer, 'a chunked one')
        eq(server.request('PUT', KV + '/b/a', None, b'small').status, 201, 'a small one')
        held[0].sendall(b'x')
        check(held[0].recv(100).startswith(b'HTTP/1.1 201'), 'and those that were first')
        end(held)
        wait_until(lambda: figure(server, 'http_budget_bytes') == 0, 'all of it is given back')


@scene
def what_comes_behind_a_request_in_work_stays_with_the_kernel(binary):
    """But for a head's worth, which no budget counts; also behind chunks, and behind a body that is dropped."""
    count, behind = 300, b'GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: ' + b'y' * 75000
    post = b'POST /v1/queue.lease HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n'
    dropped = b'PUT /none HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n'
    kinds = {
        'a length': (b'', lambda body: post + b'Content-Length: %d\r\n\r\n' % len(body) + body),
        'chunks': (post + b'Transfer-Encoding: chunked\r\n\r\n', lambda body: b'%x\r\n%b\r\n0\r\n\r\n' % (len(body), body)),
        'a dropped body': (dropped, lambda body: b'x' + post + b'Content-Length: %d\r\n\r\n' % len(body) + body),
    }
    for kind, (first, then) in kinds.items():
        with Server(binary) as server:
            eq(server.request('POST', '/v1/queues.create', body={
                'queue_name': 'q', 'lease_timeout': '1m', 'expire_timeout': '1h', 'requested_partitions': 1}).status, 200)
            before = rss(server)
            peers = [socket.create_connection((server.host, server.port), REQUEST_TIMEOUT) for _ in range(count)]
            for peer in peers:      # when the first is answered, what came with it is taken, too
                peer.sendall(b'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n' + first)
                check(peer.recv(4096).startswith(b'HTTP/1.1 200 '), 'the server is well')
            for n, peer in enumerate(peers):
                peer.sendall(then(json.dumps({'queue_name': 'q', 'batch_size': 1, 'client_id': f'c{n}',
                                              'request_timeout': '5m'}).encode()) + behind)
            wait_until(lambda: figure(server, 'http_open_requests') == count + 1, 'all leases wait')
            if before is not None:      # what each lease takes itself is in it
                more = rss(server) - before
                check(more < count * (48 << 10), f'{more / MB:.0f} MB for {count} requests with {kind}')
            end(peers)


@scene
def no_client_is_blamed_for_memory_that_others_hold(binary):
    """A client that obeys 400 or 413 drops what is right."""
    limits = ('--set', 'http.bytes_max=18M', '--set', 'http.arena_bytes_max=18M', '--set', 'page.body_bytes_max=6M')
    with Server(binary, *limits, '--set', 'page.codec=identity', '--set', 'hot_bytes=0') as server:
        big, large = b'x' * (6 * MB - 100), b'x' * (300 << 10)
        eq(server.request('PUT', PAGE + '/Big/1', {'Content-Type': 'text/html'}, big).status, 201)
        eq(server.request('PUT', KV + '/b').status, 201)
        eq(server.request('PUT', KV + '/b/k', None, large).status, 201)
        eq(server.request('PUT', KV + '/b/g', {'Content-Encoding': 'gzip'}, gzip.compress(large)).status, 201)
        schema = {'attributes': {'k': 'string', 'v': 'string'}, 'index': [{'attribute': 'k', 'type': 'hash'}]}
        eq(server.request('PUT', '/localhost/v1/table/t', None, schema).status, 201)
        queue = {'queue_name': 'q', 'requested_partitions': 1, 'lease_timeout': '1m', 'expire_timeout': '1h'}
        eq(server.request('POST', '/v1/queues.create', None, queue).status, 200)
        items = {'queue_name': 'q', 'request_timeout': '5s', 'items': [{'utf8': 'y' * 200000}]}
        eq(server.request('POST', '/v1/queue.produce', None, items).status, 200)
        readers = [slow_reader(server, PAGE + '/Big') for _ in range(3)]
        for target in (PAGE + '/Big', KV + '/b/k', KV + '/b/g'):
            overloaded(server.request('GET', target), target)
        bundle = {'html': {'body': 'x' * 200000, 'headers': {'x-mine': 'yes'}}}
        text = 'z' * 200000
        for method, target, body in (
                ('PUT', '/localhost/v1/page/all/A/1', bundle),
                ('PUT', PAGE + '/A/1', large),
                ('PUT', KV + '/b/l', large),
                ('POST', '/localhost/v1/table/t/put', {'attributes': {'k': 'a', 'v': text}}),
                ('POST', '/localhost/v1/table/t/get', {'attributes': {'k': text}}),
                ('POST', '/localhost/v1/batch', [{'op': 'put', 'table': 't', 'attributes': {'k': 'a', 'v': text}}]),
                ('POST', '/v1/queue.produce', items),
                ('POST', '/v1/queues.list', {'pivot': text})):
            overloaded(server.request(method, target, None, body), target)
        end(peer for peer, _ in readers)
        wait_until(lambda: figure(server, 'http_budget_bytes') == 0, 'all of it is given back')
        eq(server.request('GET', KV + '/b/k').body, large)
        eq(server.request('PUT', '/localhost/v1/page/all/A/1', None, bundle).status, 201)
        eq(server.request('POST', '/v1/queue.produce', None, items).status, 200)



FULL = ('--set', 'http.bytes_max=8M', '--set', 'http.arena_bytes_max=8M', '--set', 'page.body_bytes_max=2M')


def fill(server):
    """Writers that hold all of FULL but for a byte; of each the first 32 KiB do not count."""
    eq(server.request('PUT', KV + '/b').status, 201)
    free, room, peers = 32 << 10, 8 * MB - 1, []
    for size in (2 * MB - 1, 2 * MB - 1, 2 * MB - 1, MB + MB // 2):
        peers.append(writer(server, b'x' * size, f'Content-Length: {size + 1}\r\n'))
        room -= size - free
    wait_until(lambda: figure(server, 'http_budget_bytes') == 8 * MB - 1 - room, 'all but the last have come')
    last = []

    def is_full():
        answer = server.request('GET', '/metrics')
        figures = answer.body.decode()
        if answer.status == 503 or f'http_budget_bytes {8 * MB - 1}\n' in figures:
            return True
        if f'http_budget_bytes {8 * MB - 1 - room}\n' in figures:
            end(last)   # none yet, or refused, as a look at the figures held some: it hears that with its last byte
            last[:] = [writer(server, b'x' * (room + free), f'Content-Length: {room + free + 1}\r\n')]
        return False
    wait_until(is_full, 'the last has come')
    return peers + last


@scene
def an_operator_is_answered_when_no_memory_is_left(binary):
    with Server(binary, *FULL) as server:
        for i in range(40):
            eq(server.request('POST', '/v1/admin.tokens', body={'roles': ['read'], 'name': f'{i:03}{chr(34) * 250}'}).status, 201)
        held = fill(server)
        overloaded(server.request('PUT', KV + '/b/a', None, b'x' * (64 << 10)), 'a body that does not fit')
        for target in ('/metrics', '/healthz', '/readyz', '/health', '/v1/admin.stats', '/v1/admin.tokens'):
            eq(server.request('GET', target).status, 200, target)
        eq(server.request('POST', '/v1/admin.check', None, {}).status, 200)
        end(held)
        wait_until(lambda: figure(server, 'http_budget_bytes') == 0, 'all of it is given back')


@scene
def no_head_ends_a_server_that_has_no_memory_left(binary):
    """What a head takes beyond the first 32 KiB of a request can be refused."""
    def status(head):
        with connect(server) as peer:
            peer.sendall(head.encode())
            said = peer.recv(1000)
            check(said.startswith(b'HTTP/1.1 '), f'{head[:60]}: {said!r}')
            return int(said.split()[1])
    with Server(binary, *FULL, '--set', 'http.head_bytes_max=256k') as server:
        held = fill(server)
        for target in ('/metrics', '/health', '/healthz', PAGE + '/A'):
            for many in range(1, 60):      # a list that goes on is joined each time: the sum is quadratic
                fields = ''.join(f'Accept: text/{"x" * 150}\r\n' for _ in range(many))
                said = status(f'GET {target} HTTP/1.1\r\nHost: x\r\n{fields}\r\n')
                check(said in (200, 404, 503), f'{target} {many}: {said}')
            eq(said, 503, 'it is not blamed for a head that is too large')
        for size in (20000, 30000, 100000):
            said = status(f'GET /healthz?{"q" * size} HTTP/1.1\r\nHost: x\r\n\r\n')
            check(said in (200, 503), f'{size}: {said}')
        end(held)
        wait_until(lambda: figure(server, 'http_budget_bytes') == 0, 'all of it is given back')
        eq(server.request('GET', '/healthz?' + 'q' * 100000).status, 200)


@scene
def a_render_that_found_no_memory_is_made_when_there_is_some(binary):
    """It is no failure of the wiki, which is remembered for all who ask."""
    limits = ('--set', 'http.bytes_max=18M', '--set', 'http.arena_bytes_max=18M', '--set', 'page.body_bytes_max=6M',
              '--set', 'flight.error_base=60s', '--set', 'flight.error_max=60s')
    with Origin() as origin:
        origin.page('A', (7, 'word ' * 60000))
        origin.page('B', (8, 'b'))
        origin.page('Big', (1, 'what it has is not looked at'))
        with Server(binary, *origin.options('localhost'), *limits, '--set', 'page.codec=identity', '--set', 'hot_bytes=0') as server:
            eq(server.request('GET', PAGE + '/B').status, 200, 'the rules of titles are known')
            big = b'x' * (6 * MB - 100)
            eq(server.request('PUT', PAGE + '/Big/1', {'Content-Type': 'text/html'}, big).status, 201)
            wait_until(lambda: figure(server, 'http_budget_bytes') == 0, 'the writer has given it back')
            readers = [slow_reader(server, PAGE + '/Big') for _ in range(3)]
            check(all(head.startswith('HTTP/1.1 200') for _, head in readers), f'three hold it all: {readers}')
            for target in (PAGE + '/A', '/localhost/v1/page/wikitext/A'):
                eq(server.request('GET', target).status, 503, target)
            end(peer for peer, _ in readers)
            wait_until(lambda: figure(server, 'http_budget_bytes') == 0, 'all of it is given back')
            for target in (PAGE + '/A', '/localhost/v1/page/wikitext/A'):
                eq(server.request('GET', target).status, 200, target)


main()
