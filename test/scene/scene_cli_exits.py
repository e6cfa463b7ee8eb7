"""Goal: a script can tell from the exit code what went wrong, and with --json from a document why.
Method: each code by several verbs, against servers that are there, are not, and are something else."""
import http.server
import json
import socket
import threading

from cli import Client
from harness import Server, check, eq, main, scene

EXITS = {1: 'failed', 2: 'usage', 3: 'damaged', 4: 'no_server', 5: 'not_found', 6: 'refused'}


def _closed_port():
    with socket.create_server(('127.0.0.1', 0)) as listener:
        return listener.getsockname()[1]


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
        away = f'http://127.0.0.1:{_closed_port()}'
        export = (b'<mediawiki><page><title>T</title><revision><id>1</id><timestamp>2020-01-01T00:00:00Z</timestamp>'
                  b'<text>x</text></revision></page></mediawiki>')
        calls = (['ls'], ['get', 'T'], ['put', 'T', '1', '-'], ['rm', 'T'], ['history', 'T'], ['check'], ['backup', 'b'],
                 ['queue', 'info', 'q'], ['queue', 'produce', 'q', '-t', '1s'], ['queue', 'lease', 'q'], ['queue', 'top', '-n', '1'],
                 ['flight', 'ls'], ['list', 'get', 'l', 'd'], ['stash', 'ls'], ['token', 'ls'], ['token', 'create'],
                 ['import', 'mediawiki-xml', '-'], ['prewarm', '-'])
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
