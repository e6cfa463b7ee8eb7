"""What the scenes of pages share: a frozen server, renders' names, puts and reads."""
import datetime
import json
import uuid

from harness import Server, eq
from shared_store import differs

START = '2026-01-01T00:00:00Z'
EPOCH_TICKS = 0x01b21dd213814000
DAY = 86400


def page_server(binary, *args, **named):
    """A server whose clock stands at START."""
    return Server(binary, *args, test_hooks=START, **named)


def runs(server):
    """From here on time passes within a request: where servers share a store, it rests between a word and a render."""
    if differs('of a word of the wiki and a render within what clocks may differ the render is not the later one'):
        server.clock(resume=True)


def later(server):
    """What follows is not of the same instant: by more than two clocks may differ."""
    if differs('of a word of the wiki, or a purge, and a render within what clocks may differ the render is not the later one'):
        server.clock(advance='1001ms')


def instant(seconds=0.0):
    """RFC 3339 with milliseconds, so long after START."""
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.strftime('%Y-%m-%dT%H:%M:%S.') + f'{at.microsecond // 1000:03d}Z'


def http_date(seconds=0):
    at = datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return at.strftime('%a, %d %b %Y %H:%M:%S GMT')


def tid(seconds=0.0, low=1):
    """A version-1 UUID so long after START."""
    start = int(datetime.datetime(2026, 1, 1, tzinfo=datetime.timezone.utc).timestamp())
    ticks = EPOCH_TICKS + start * 10**7 + round(seconds * 10**7)
    high = 0x1000 | ticks >> 48
    return str(uuid.UUID(int=(ticks & 0xffffffff) << 96 | (ticks >> 32 & 0xffff) << 80 | high << 64 | 0x8000 << 48
                         | 0x010000000000 | low))


def path(content, title, rev=None, render=None, bucket='page'):
    parts = ['', 'localhost', 'v1', bucket, content, title]
    if rev is not None:
        parts.append(str(rev))
    if render is not None:
        parts.append(render)
    return '/'.join(parts)


def put(server, title, rev, body, render=None, status=201, headers=None, bucket='page', content='html'):
    """Stores one render of a single content; returns the parsed answer."""
    got = server.request('PUT', path(content, title, rev, render, bucket), {'Content-Type': 'text/html', **(headers or {})}, body)
    eq(got.status, status, f'PUT {title} {rev}: {got.body}')
    return json.loads(got.body)


def get(server, title, rev=None, render=None, status=200, headers=None, query='', bucket='page', content='html'):
    got = server.request('GET', path(content, title, rev, render, bucket) + query, headers)
    eq(got.status, status, f'GET {title} {rev} {render}: {got.body[:300]}')
    return got


def problem(answer, status, kind, **members):
    """A problem document in full, of this status and type, with these members."""
    eq(answer.status, status, f'{answer.body}')
    eq(answer.headers['Content-Type'], 'application/problem+json')
    value = json.loads(answer.body)
    eq(value['type'], 'https://mediawiki.org/wiki/HyperSwitch/errors/' + kind)
    eq(value['status'], status)
    for name in ('title', 'detail', 'method', 'uri'):
        eq(isinstance(value[name], str) and value[name] != '', True, f'{name} of {value}')
    for name, want in members.items():
        eq(value[name], want, name)
    return value


ZSTD_BUCKET = ('--set', 'buckets.coded.kind=page', '--set', 'buckets.coded.codec=zstd')


def zstd_of(server, raw):
    """A frame of zstd of raw, made by the server: a bucket that stores zstd gives it as it lies there."""
    eq(server.request('PUT', '/localhost/v1/coded/html/Z/1', None, raw).status, 201)
    got = server.request('GET', '/localhost/v1/coded/html/Z', {'Accept-Encoding': 'zstd'})
    eq(got.headers['content-encoding'], 'zstd')
    eq(server.request('DELETE', '/localhost/v1/coded/all/Z').status, 204)
    return got.body


def history(server, title, query='', bucket='page'):
    got = server.json('GET', path('history', title, bucket=bucket) + query)
    eq(got.status, 200, f'history of {title}: {got.body}')
    return got.body


def metric(server, name):
    """A figure of /metrics; name with its labels, without the prefix."""
    text = server.request('GET', '/metrics').body.decode()
    return int(float(text.split(f'\npalimpsest_{name} ')[1].split()[0]))


def explain(server, title, rev=None, render=None, bucket='page'):
    got = server.json('GET', path('explain', title, rev, render, bucket))
    eq(got.status, 200, f'explain {title}: {got.body}')
    return got.body
