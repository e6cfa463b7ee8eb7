"""A server that has no room for a third render, as a Palimpsest on Cassandra says it."""
import contextlib
import http.server
import json
import threading


class Full(http.server.BaseHTTPRequestHandler):
    """A Palimpsest whose titles have two renders at most, as far as a put needs one."""
    protocol_version = 'HTTP/1.1'

    def do_PUT(self):       # pylint: disable=invalid-name
        self.rfile.read(int(self.headers['content-length']))
        rev, tid = self.path.split('/')[-2:]
        if len(self.server.stored) < 2:
            self.server.stored.append(int(rev))
            self.answer(201, 'application/json', {'rev': int(rev), 'tid': tid},
                        etag=f'"{rev}/{tid}"')
        else:
            self.answer(429, 'application/problem+json', {
                'type': 'https://mediawiki.org/wiki/HyperSwitch/errors/too_many_renders',
                'title': 'Too Many Requests', 'detail': 'It is full.', 'status': 429})

    def answer(self, status, kind, document, **fields):
        body = json.dumps(document).encode()
        self.send_response(status)
        for name, value in {'content-type': kind, 'content-length': len(body), **fields}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):       # pylint: disable=redefined-builtin
        pass


@contextlib.contextmanager
def full():
    """Gives its URL, and the revisions that it stored."""
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Full)
    server.stored = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f'http://127.0.0.1:{server.server_port}', server.stored
    finally:
        server.shutdown()
        server.server_close()
