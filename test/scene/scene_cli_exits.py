"""Goal: a script can tell from the exit code what went wrong, and with --json from a document why.
Method: each code by several verbs, against servers that are there, are not, and are something else."""
import http.server
import json
import socket
import threading

from cli import Client
from harness import Server, check, eq, free_port, main, scene

EXITS = {1: 'failed', 2: 'usage', 3: 'damaged', 4: 'no_server', 5: 'not_found', 6: 'refused'}


class _Other(http.server.BaseHTTPRequestHandler):
    """A web server that is no Palimpsest."""

    def _answer(self):
        self.rfile.read(int(self.headers.get('Content-Length', 0)))
        status = 200 if self.path.startswith('/fine') else 404
        body = b'<html>welcome</html>'
        self.send_response(status)
        self.send_header('Content-Type', 'text/html')
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_PUT = do_POST = do_DELETE = _answer

    def log_message(self, *args):
        pass


def _fails(client, args, code, says, stdin=b''):
    """The same in words and as a document."""
    plain = client(*args, stdin=stdin)
    eq(plain.returncode, code, f'{args}: {plain.stderr}')
    check(says in plain.stderr.decode(), f'{args}: {plain.stderr}')
    check(plain.stderr.startswith(b'palimpsest: '), f'{args}: {plain.stderr}')
    told = client(*args, '--json', stdin=stdin)
    eq(told.returncode, code, args)
    last = json.loads(told.stderr.splitlines()[-1])
    eq((last['error'], last['exit']), (EXITS[code], code), args)
    check(says in last['message'], last)
    return last


@scene
def each_failure_has_its_exit_code_and_its_document(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('put', 'T', '1', '-', stdin=b'x')
        client.ok('put', 'Gone', '1', '-', stdin=b'x')
        client.ok('rm', 'Gone')
        client.ok('queue', 'create', 'q')
        tid = client.json('history', 'T')[0]['tid']
        for args, code, status, says in (
                (['get', 'nope'], 5, 404, '404'), (['get', 'Gone'], 5, 410, '410'), (['history', 'nope'], 5, 404, '404'),
                (['ls', '--domain', 'elsewhere'], 5, 404, '404'), (['queue', 'info', 'nope'], 5, 400, 'does not exist'),
                (['queue', 'stats', 'nope'], 5, 400, 'does not exist'), (['queue', 'peek', 'nope'], 5, 400, 'does not exist'),
                (['queue', 'produce', 'nope'], 5, 400, 'does not exist'), (['queue', 'top', '-n', '1', 'nope'], 5, 400, 'exist'),
                (['queue', 'create', 'q'], 6, 400, 'already exists'), (['put', '..', '1', '-'], 6, 400, '400'),
                (['put', 'T', '1', tid, '-'], 6, 409, '409'),
                (['put', 'T', '1', 'no-such-file'], 1, None, 'cannot read no-such-file'),
                (['backup', '/dev/null/b'], 6, 400, '400'), (['get'], 2, None, 'something is missing'),
                (['get', 'T', '--bogus'], 2, None, 'unknown option'), (['queue', 'lease', 'q', '-t', '100ms'], 5, None, 'no items')):
            said = _fails(client, args, code, says, stdin=b'other')
            eq(said.get('status'), status, args)
        gone = client('history', 'Gone').stderr.decode()
        check('This title was purged at ' in gone and 'render was' not in gone, gone)
        for args in (['nonsense'], ['queue', 'nonsense']):
            said = json.loads(client(*args, '--json').stderr)
            eq((said['error'], said['exit']), ('usage', 2))
        eq(client('get', 'no\xffsuch'.encode('latin-1'), '--json').returncode, 2)
        told = json.loads(client('put', 'T', '1', b'no\xffsuch', '--json').stderr)
        check('no?such' in told['message'], told)


@scene
def a_server_that_is_not_there_or_is_something_else_is_exit_4(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        away = f'http://127.0.0.1:{free_port()}'
        export = (b'<mediawiki><page><title>T</title><revision><id>1</id><timestamp>2020-01-01T00:00:00Z</timestamp>'
                  b'<text>x</text></revision></page></mediawiki>')
        calls = (['ls'], ['get', 'T'], ['put', 'T', '1', '-'], ['rm', 'T'], ['history', 'T'], ['check'], ['backup', 'b'],
                 ['queue', 'info', 'q'], ['queue', 'produce', 'q', '-t', '1s'], ['queue', 'lease', 'q'], ['queue', 'top', '-n', '1'],
                 ['flight', 'ls'], ['slow', 'ls'], ['fresh', 'ls'], ['fresh', 'why', 'd', 'T'], ['list', 'get', 'l', 'd'], ['stash', 'ls'],
                 ['change', 'tail'], ['change', 'ls'], ['change', 'show', 'r'], ['change', 'pause', 'r'], ['change', 'drop', 'r', '--yes'],
                 ['change', 'explain', 'i'], ['jobs', 'ls'], ['jobs', 'why', '1'], ['jobs', 'drain', 'h:1'], ['token', 'ls'], ['token', 'create'], ['import', 'mediawiki-xml', '-'], ['prewarm', '-'])
        for args in calls:
            said = _fails(client, [*args, '--server', away], 4, f'{away}: ', stdin=export)
            check('is it running' in said['message'], said)
        with http.server.ThreadingHTTPServer(('127.0.0.1', 0), _Other) as other:
            threading.Thread(target=other.serve_forever, daemon=True).start()
            url = f'http://127.0.0.1:{other.server_port}'
            for args in calls:
                said = _fails(client, [*args, '--server', url], 4, url, stdin=export)
                check('URL' in said['message'], f'{args}: {said["message"]}')
            _fails(client, ['ls', '--server', f'{url}/fine'], 4, 'is not JSON')
            other.shutdown()


class _Says:
    """A server that answers every request with the same bytes, and closes."""

    def __init__(self, answer):
        self.answer = answer
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.url = f'http://127.0.0.1:{self.listener.getsockname()[1]}'
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile('rb') as request:
                line, length = b' ', 0
                while line.strip():
                    line = request.readline()
                    length = int(line.split(b':')[1]) if line.lower().startswith(b'content-length:') else length
                request.read(length)
                connection.sendall(self.answer)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def _whole(body, *fields, status='200 OK'):
    head = ''.join(f'{field}\r\n' for field in (f'HTTP/1.1 {status}', 'Connection: close', f'Content-Length: {len(body)}', *fields))
    return f'{head}\r\n'.encode() + body


@scene
def an_answer_of_200_that_no_palimpsest_gives_is_exit_4(binary):
    export = (b'<mediawiki><page><title>T</title><revision><id>1</id><timestamp>2020-01-01T00:00:00Z</timestamp>'
              b'<text>x</text></revision></page></mediawiki>')
    calls = (['ls'], ['get', 'T'], ['put', 'T', '1', '-'], ['rm', 'T'], ['history', 'T'], ['explain', 'T'],
             ['check'], ['backup', 'b'], ['flight', 'ls'], ['slow', 'ls'], ['list', 'get', 'l', 'd'], ['stash', 'ls'], ['stash', 'rm', 'T'],
             ['token', 'ls'], ['token', 'create'], ['token', 'rm', 'x'], ['token', 'lock'], ['import', 'mediawiki-xml', '-'],
             ['prewarm', '-'], ['render', 'T'])
    queues = (['queue', 'ls'], ['queue', 'info', 'q'], ['queue', 'produce', 'q', '-t', '1s'], ['queue', 'create', 'q'],
              ['queue', 'rm', 'q'], ['queue', 'peek', 'q'], ['queue', 'stats', 'q'], ['queue', 'top', '-n', '1'])
    with Server(binary) as server:
        client = Client(binary, server)
        for answer, some, says in ((_whole(b'<html>'), calls + queues, 'URL'), (_whole(b'null'), calls + queues, 'URL'),
                                   (_whole(b'[]'), calls + queues, 'URL'), (_whole(b'{}'), calls, 'URL'),
                                   (b'HTTP/1.1 200 OK\r\nContent-Ty', calls + queues, '')):
            with _Says(answer) as other:
                for args in some:
                    _fails(client, [*args, '--server', other.url], 4, says, stdin=export)
                eq(client('get', 'T', '-o', 'o', '--server', other.url).returncode, 4)
                check(not (client.folder / 'o').exists(), 'a file of what is no render')
                _fails(client, ['queue', 'lease', 'q', '--server', other.url], 4, '')
                for args in (['get', 'T'], ['check'], ['backup', 'b'], ['token', 'create']):
                    eq(client(*args, '--server', other.url).stdout, b'', args)


@scene
def a_server_that_has_no_put_is_exit_4(binary):
    """As python3 -m http.server."""
    export = (b'<mediawiki><page><title>T</title><revision><id>1</id><timestamp>2020-01-01T00:00:00Z</timestamp>'
              b'<text>x</text></revision></page></mediawiki>')
    with Server(binary) as server, _Says(_whole(b'<html>', status='501 Unsupported method')) as other:
        client = Client(binary, server)
        for args in (['put', 'T', '1', '-'], ['import', 'mediawiki-xml', '-']):
            _fails(client, [*args, '--server', other.url], 4, 'URL', stdin=export)


@scene
def a_listing_that_does_not_lead_on_ends(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for page in (b'{"items":[],"next":"a"}', b'{"items":[],"next":5}', b'{"removed":1,"bytes":1,"next":"a"}'):
            with _Says(_whole(page)) as other:
                for args in (['ls'], ['history', 'T'], ['stash', 'ls'], ['token', 'ls']) if b'items' in page else (['stash', 'rm', 'T'],):
                    eq(client(*args, '--server', other.url).returncode, 4, args)


@scene
def json_holds_no_control_bytes(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        odd = 'a\x9b31m\x80b'
        client.ok('put', odd.replace('\x80', '\x85'), '1', '-', stdin=b'x')
        out = client.ok('ls', '--json').encode()
        check(b'\xc2\x9b' not in out and b'\\u009b' in out, out)
        eq(json.loads(out)['title'] if isinstance(json.loads(out), dict) else json.loads(out), odd.replace('\x80', '\x85'))
        odd += '\x7f'
        with _Says(_whole(json.dumps({'title': odd}, ensure_ascii=False).encode(), status='403 Forbidden')) as other:
            said = client('ls', '--json', '--server', other.url).stderr
            check(b'\xc2\x9b' not in said and b'\x7f' not in said and odd in json.loads(said)['message'], said)


@scene
def what_a_server_sends_is_printed_without_control_bytes(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        odd = '\x1b]0;x\x07\x9b'
        fields = ('title', 'tid', 'key', 'id', 'roles', 'namespace', 'expires_at', 'detail', 'message', 'ok', 'bytes_copied')
        with _Says(_whole(json.dumps({name: odd for name in fields}, ensure_ascii=False).encode())) as other:
            for args in (['put', 'T', '1', '-'], ['token', 'create'], ['explain', 'T'], ['check'], ['backup', 'b']):
                done = client(*args, '--server', other.url)
                check(done.stdout and not any(byte in done.stdout + done.stderr for byte in (b'\x1b', b'\x07', b'\xc2\x9b')), done)


@scene
def a_word_too_long_for_a_request_is_not_sent_cut(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for args in (['rm', 'x' * 20000], ['get', 'x' * 20000], ['get', 'T', '--at', '1' * 20000], ['put', 'x' * 20000, '1', '-'],
                     ['stash', 'ls', 'x' * 20000], ['explain', 'x' * 20000], ['render', 'x' * 20000]):
            _fails(client, args, 1, 'too long for a request', stdin=b'x')


@scene
def when_to_come_again_is_said(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        for status, code in (('503 Unavailable', 4), ('429 Too Many', 6)):
            with _Says(_whole(b'{"title":"Busy"}', 'Retry-After: 7', status=status)) as other:
                _fails(client, ['ls', '--server', other.url], code, 'Busy (Retry-After: 7)')


@scene
def a_queue_call_to_a_server_that_hangs_ends_behind_its_time(binary):
    with Server(binary) as server, socket.create_server(('127.0.0.1', 0)) as hangs:
        client = Client(binary, server)
        url = f'http://127.0.0.1:{hangs.getsockname()[1]}'
        for args in (['queue', 'lease', 'q', '-t', '1s'], ['queue', 'produce', 'q', '-t', '1s']):
            done = client(*args, '--server', url, stdin=b'x')
            eq(done.returncode, 4, done.stderr)
            check(b'Timeout was reached' in done.stderr, done.stderr)


@scene
def options_of_every_verb_may_stand_before_it(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        client.ok('put', 'T', '1', '-', stdin=b'x')
        client.ok('queue', 'create', 'q')
        client.env['PALIMPSEST_SERVER'] = f'http://127.0.0.1:{free_port()}'
        eq(json.loads(client.ok('--json', '--server', server.url, 'get', 'T'))['rev'], 1)
        eq(client.ok(f'--server={server.url}', 'get', '--', 'T'), 'x')
        for args in (['--json', 'queue', '--server', server.url, 'ls'], ['queue', '--json', f'--server={server.url}', 'ls']):
            eq(json.loads(client.ok(*args))['queue_name'], 'q')
        check('Usage: palimpsest get' in client.ok('--json', 'get', '--help'), 'help')
        check('Usage: palimpsest get' in client.ok('--json', 'help', 'get'), 'help')
        check(json.loads(client.ok('--json', '--version'))['version'], 'version')
        for args, says in ((['--json'], 'a verb is missing'), (['--data', 'd', 'check'], 'a verb is missing, before --data'),
                           (['--server'], 'a verb is missing'), (['--server', 'x'], 'a verb is missing'),
                           (['token', '--data', 'd', 'ls'], 'token: a verb is missing, before --data'),
                           (['--json', 'queue'], 'a verb is missing'), (['--bucket', 'b', 'version'], 'unknown option --bucket')):
            done = client(*args)
            eq((done.returncode, done.stdout), (2, b''), args)
            check(says in done.stderr.decode(), f'{args}: {done.stderr}')
            check('--json' not in args or json.loads(done.stderr)['error'] == 'usage', done.stderr)


@scene
def what_is_left_out_is_a_warning_in_json(binary):
    with Server(binary) as server:
        client = Client(binary, server)
        export = (b'<mediawiki><page><title>T</title><revision><id>1</id><timestamp>junk</timestamp><text>x</text></revision>'
                  b'</page></mediawiki>')
        done = client('import', 'mediawiki-xml', '-', '--json', stdin=export)
        eq(done.returncode, 0)
        eq([list(json.loads(line)) for line in done.stderr.splitlines()], [['warning']])


if __name__ == '__main__':
    main()
