"""What the scenes of rules share: a server that is told, keeps a ledger of what it was told, and answers as the scene says."""
import http.server
import json
import threading

from harness import wait_until


class Sink:
    """answers: called with each request (a dict), gives (status, headers) or (status, headers, body); None: 200. Requests are kept when they came whole."""

    def __init__(self, answers=None, port=0):
        self.answers = answers or (lambda request: None)
        self.requests = []
        self.running = self.running_max = 0
        self.lock = threading.Lock()
        sink = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = 'HTTP/1.1'
            disable_nagle_algorithm = True     # or each answer's second part waits for 40 ms

            def take(self):
                body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
                request = {'method': self.command, 'path': self.path, 'host': self.headers['Host'], 'body': body,
                           'headers': self.headers}
                with sink.lock:
                    sink.requests.append(request)
                    sink.running += 1
                    sink.running_max = max(sink.running_max, sink.running)
                status, headers, *text = sink.answers(request) or (200, {})
                text = text[0] if text else b'ok\n'
                with sink.lock:
                    sink.running -= 1
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header('Content-Length', str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            do_GET = do_POST = do_PUT = do_PURGE = do_DELETE = take

            def log_message(self, *args):  # pylint: disable=arguments-differ
                pass

        class Listener(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 256

            def handle_error(self, request, client_address):
                """A server that was killed is no fault of the sink."""

        self.server = Listener(('127.0.0.1', port), Handler)
        self.port = self.server.server_address[1]
        self.url = f'http://127.0.0.1:{self.port}'
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={'poll_interval': 0.05}, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        self.server.shutdown()
        self.server.server_close()

    def paths(self):
        with self.lock:
            return [request['path'] for request in self.requests]

    def events(self):
        with self.lock:
            return [json.loads(request['body']) for request in self.requests]

    def wait(self, count):
        wait_until(lambda: len(self.requests) >= count, f'{count} requests', timeout=30)
        return self.paths()
