"""Varnish as a cache in front, with the configuration that docs/wikis.md shows: only its addresses are replaced."""
import http.client
import pathlib
import re

from harness import REQUEST_TIMEOUT, Answer, check, free_port
from list_help import Process

MANUAL = pathlib.Path(__file__).resolve().parents[2] / 'docs/wikis.md'


def documented(first=r'vcl 4\.1;'):
    """The indented lines of which this is the first."""
    block = re.search(rf'^    {first}\n(?:    .*\n|\n)*', MANUAL.read_text(), re.M).group()
    return re.sub(r'^    ', '', block, flags=re.M)


def in_turn(servers):
    """What is added for more servers than the first."""
    names = ['default', *(f'server{number}' for number in range(1, len(servers)))]
    backends = ''.join(f'backend {name} {{ .host = "127.0.0.1"; .port = "{server.port}"; }}\n'
                       for name, server in zip(names[1:], servers[1:]))
    adds = ' '.join(f'all.add_backend({name});' for name in names)
    return (f'import directors;\n{backends}sub vcl_init {{ new all = directors.round_robin(); {adds} }}\n'
            'sub vcl_recv { set req.backend_hint = all.backend(); }\n')


class Varnish(Process):
    """In front of one server, or of several that are asked in turn. port: where it listens, if that was said already."""

    def __init__(self, *servers, port=None):
        super().__init__('varnish')
        self.port = port or free_port()
        text = documented()
        check('.port = "7231"' in text, 'an address to replace')
        text = text.replace('"7231"', f'"{servers[0].port}"')
        (self.folder / 'conf.vcl').write_text(text + (in_turn(servers) if len(servers) > 1 else ''))
        self.run(['varnishd', '-F', '-j', 'none', '-n', self.folder / 'work', '-f', self.folder / 'conf.vcl', '-a',
                  f'127.0.0.1:{self.port}', '-s', 'malloc,64m', '-p', 'thread_pools=1', '-p', 'thread_pool_min=20'])
        self.wait_port(self.port)

    def request(self, method, target, headers=None):
        connection = http.client.HTTPConnection('127.0.0.1', self.port, timeout=REQUEST_TIMEOUT)
        try:
            connection.request(method, target, headers=headers or {})
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read())
        finally:
            connection.close()

    def get(self, target, headers=None):
        """(the answer, was it in the cache)"""
        answer = self.request('GET', target, headers)
        return answer, len(answer.headers['X-Varnish'].split()) == 2
